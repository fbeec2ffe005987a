"""Problems of the package reasoning-gym as rows, and its scorers as a reward: problems.py FILE COUNT SEED"""

import functools
import json
import sys

import reasoning_gym
from reasoning_gym.utils import SYSTEM_PROMPTS, extract_answer

# Generators with their options; `reasoning_gym.factory.DATASETS` has all 106. These are easy enough for 135 million weights.
GENERATORS = {
    "chain_sum": {"max_terms": 2, "max_digits": 2},
    "letter_counting": {"min_words": 1, "max_words": 3},
    "spell_backward": {"max_word_len": 4},
}


@functools.cache
def dataset(generator, seed):
    return reasoning_gym.create_dataset(generator, seed=seed, size=100_000, **GENERATORS[generator])


def reward(completions, generator, seed, index, **columns):
    """Returns the generator's score, from 0 to 1, of the text between <answer> and </answer>."""
    rewards = []
    for completion, name, start, row in zip(completions, generator, seed, index):
        problems = dataset(name, start)
        rewards.append(float(problems.score_answer(extract_answer(completion[-1]["content"]), problems[row])))
    return rewards


def write_rows(path, count, seed):
    with open(path, "w", encoding="utf-8") as file:
        for row in range(count):
            name = list(GENERATORS)[row % len(GENERATORS)]
            problem = dataset(name, seed)[row]
            messages = [{"role": "system", "content": SYSTEM_PROMPTS["direct"]}, {"role": "user", "content": problem["question"]}]
            file.write(json.dumps({"prompt": messages, "answer": problem["answer"], "generator": name, "seed": seed, "index": row}) + "\n")


if __name__ == "__main__":
    write_rows(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
