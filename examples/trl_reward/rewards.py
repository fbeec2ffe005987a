"""Reward functions as TRL calls them: lists in, a list of numbers out; columns of the data set come by their names."""

import re


def answer_reward(completions, solution, **kwargs):
    """1 where the last number is the right one."""
    rewards = []
    for completion, right in zip(completions, solution):
        numbers = re.findall(r"-?\d+", completion[-1]["content"])
        rewards.append(1.0 if numbers and numbers[-1] == right else 0.0)
    return rewards


def form_reward(completions, **kwargs):
    """1 for an answer in the form that was asked for."""
    return [1.0 if re.search(r"<answer>.+</answer>", completion[-1]["content"], re.S) else 0.0 for completion in completions]
