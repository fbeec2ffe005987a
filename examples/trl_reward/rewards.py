"""Reward functions with TRL's signature: lists of completions and columns in, a list of numbers out."""

import re


def answer_reward(completions, solution, **kwargs):
    """Returns 1 if the last number is correct."""
    rewards = []
    for completion, right in zip(completions, solution):
        numbers = re.findall(r"-?\d+", completion[-1]["content"])
        rewards.append(1.0 if numbers and numbers[-1] == right else 0.0)
    return rewards


def form_reward(completions, **kwargs):
    """Returns 1 if the answer has the requested format."""
    return [1.0 if re.search(r"<answer>.+</answer>", completion[-1]["content"], re.S) else 0.0 for completion in completions]
