"""The reward of sanity.yaml: 1 if a completion of a chain ends with the correct answer, as in the built-in task."""


def chain_answer(completions, answer, **columns):
    return [float(completion.split()[-2:] == ["ANS", expected]) for completion, expected in zip(completions, answer)]
