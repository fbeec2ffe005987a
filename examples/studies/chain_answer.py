"""The reward of sanity.yaml: 1 where a completion of a chain ends with the right answer, as the built-in task judges it."""


def chain_answer(completions, answer, **columns):
    return [float(completion.split()[-2:] == ["ANS", wanted]) for completion, wanted in zip(completions, answer)]
