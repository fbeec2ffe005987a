"""Rows and rewards of bench/learning: generated word problems, and the answer of arithmetic chains.

The rewards have TRL's signature, so that Keel and TRL call the same function.
"""

import random
import re

NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ida", "Jon", "Kim", "Leo", "Mia", "Ned", "Ola", "Pia"]
ITEMS = ["apples", "books", "coins", "pens", "shells", "cards", "stones", "stamps", "beads", "plums", "cups", "kites"]
GAINS = ["buys {} more", "finds {} more", "gets {} more from a friend", "wins {} more"]
LOSSES = ["gives {} away", "loses {}", "sells {}", "hands {} to a friend"]
FACTORS = {2: "doubles the number", 3: "triples the number"}
INSTRUCTION = 'Solve it step by step and end with "The answer is" and the number.'


def draw_problem(draws):
    """Returns the question, the steps of its solution, and its answer: two or three operations on numbers up to 200."""
    name, items = draws.choice(NAMES), draws.choice(ITEMS)
    value = draws.randint(3, 30)
    sentences, steps = [f"{name} has {value} {items}."], []
    for number in range(draws.randint(2, 3)):
        kind, before = draws.choice("++--*"), value
        if kind == "*" and value <= 40:
            factor = draws.choice(list(FACTORS))
            value, phrase = value * factor, FACTORS[factor]
            steps.append(f"{before} * {factor} = {value}.")
        elif kind == "-" and value > 4:
            loss = draws.randint(2, min(value - 1, 30))
            value, phrase = value - loss, draws.choice(LOSSES).format(loss)
            steps.append(f"{before} - {loss} = {value}.")
        else:
            gain = draws.randint(2, 30)
            value, phrase = value + gain, draws.choice(GAINS).format(gain)
            steps.append(f"{before} + {gain} = {value}.")
        sentences.append(f"{'Then' if number else 'First'} {name} {phrase}.")
    return " ".join([*sentences, f"How many {items} does {name} have now?"]), steps, str(value)


def word_problems(count, seed=0):
    """Returns `count` different problems: prompt, answer and completion (a demonstration)."""
    draws, rows = random.Random(seed), {}
    while len(rows) < count:
        question, steps, answer = draw_problem(draws)
        rows[question] = {
            "prompt": [{"role": "user", "content": f"{question} {INSTRUCTION}"}],
            "completion": [{"role": "assistant", "content": " ".join([*steps, f"The answer is {answer}."])}],
            "answer": answer,
        }
    return list(rows.values())


def last_number(completions, answer, **columns):
    """Returns 1 if the last number of a reply is correct."""
    numbers = [re.findall(r"\d+", completion[-1]["content"]) for completion in completions]
    return [float(found[-1:] == [expected]) for found, expected in zip(numbers, answer)]


def chain_answer(completions, answer, **columns):
    """Returns 1 if a completion ends with the correct answer of the chain, as in Keel's built-in task."""
    return [float(completion.split()[-2:] == ["ANS", expected]) for completion, expected in zip(completions, answer)]
