"""keel tasks: hundreds of problems of every task and difficulty, worked out a second time by evaluators that share nothing with it."""

import json
import re
from fractions import Fraction

import support
from support import keel

WORKED = ("countdown", "arithmetic", "modular", "equations", "letters", "strings", "lists")
INSTRUCTION = '\nEnd with "####" and the answer.\n'


def value(expression, **names):
    """A formula's value in exact fractions; the text is this test's own output or was matched against a pattern."""
    assert re.fullmatch(r"[0-9x+\-*/() %]*", expression), expression
    return eval(re.sub(r"\d+", lambda m: f"Fraction({m[0]})", expression), {"Fraction": Fraction}, names)


def countdown(question, demonstration):
    numbers, target = re.fullmatch(
        r"Combine each of the numbers (.*) exactly once, with \+ - \* / and brackets, to make (\d+)\.", question).groups()
    expression = demonstration.rsplit("#### ", 1)[1]
    assert value(expression) == int(target), expression
    numbers = list(map(int, re.findall(r"\d+", numbers)))
    assert sorted(numbers) == sorted(map(int, re.findall(r"\d+", expression))), expression
    return {"numbers": numbers, "target": int(target)}


def arithmetic(question, _):
    return value(re.fullmatch(r"What is (.*)\?", question)[1])


def modular(question, _):
    left, modulus = re.fullmatch(r"What is \((.*)\) mod (\d+)\?", question).groups()
    return eval(left.replace("^", "**"), {}) % int(modulus) if re.fullmatch(r"[0-9+*^ ]*", left) else None


def equations(question, _):
    left, right = re.fullmatch(r"Solve (.*) = (.*) for x\.", question).groups()

    def difference(x):
        sides = [value(re.sub(r"(\d)(?=[x(])", r"\1*", side), x=Fraction(x)) for side in (left, right)]
        return sides[0] - sides[1]

    return -difference(0) / (difference(1) - difference(0))


def letters(question, _):
    letter, text = re.fullmatch(r'How many times does the letter "(.)" appear in "(.*)"\?', question).groups()
    return text.count(letter)


def transform_word(word, operation):
    if operation == "reverse it":
        return word[::-1]
    if operation == "sort its letters alphabetically":
        return "".join(sorted(word))
    if operation == "write every letter twice":
        return "".join(c + c for c in word)
    if operation == "swap its first and last letters":
        return word[-1] + word[1:-1] + word[0]
    if match := re.fullmatch(r'remove every "(.)"', operation):
        return word.replace(match[1], "")
    if match := re.fullmatch(r'replace every "(.)" with "(.)"', operation):
        return word.replace(match[1], match[2])
    if match := re.fullmatch(r"drop the first (\d) letters", operation):
        return word[int(match[1]):]
    if match := re.fullmatch(r"move the first (\d) letters to the end", operation):
        return word[int(match[1]):] + word[:int(match[1])]
    raise AssertionError(operation)


def transform_list(numbers, operation):
    if operation == "reverse it":
        return numbers[::-1]
    if operation == "sort it from smallest to largest":
        return sorted(numbers)
    if operation == "replace every number by the sum of it and all numbers before it":
        return [sum(numbers[:i + 1]) for i in range(len(numbers))]
    if operation == "double every number":
        return [2 * n for n in numbers]
    if operation == "keep only the odd numbers":
        return [n for n in numbers if n % 2]
    if operation == "remove numbers that occurred before":
        return list(dict.fromkeys(numbers))
    if match := re.fullmatch(r"add (\d) to every number", operation):
        return [n + int(match[1]) for n in numbers]
    if match := re.fullmatch(r"drop the first (\d) numbers", operation):
        return numbers[int(match[1]):]
    raise AssertionError(operation)


def strings(question, _):
    word, operations = re.fullmatch(r'Start with "(.*?)": (.*)\. What is the result\?', question).groups()
    for operation in operations.split(", then "):
        word = transform_word(word, operation)
    return word


def lists(question, _):
    numbers, operations = re.fullmatch(r"Start with the list (\[.*?\]): (.*)\. What is the result\?", question).groups()
    numbers = json.loads(numbers)
    for operation in operations.split(", then "):
        numbers = transform_list(numbers, operation)
    return numbers


def check_lines(task, completion):
    """Every line of a solution that is a calculation is right."""
    for line in completion.split("\n"):
        if task in ("arithmetic", "countdown") and not line.startswith("####"):
            left, right = line.split(" = ")
            assert value(left) == value(right), line
        if task == "modular" and " mod " in line:
            left, modulus, right = re.fullmatch(r"(.*) mod (\d+) = (\d+)", line).groups()
            assert value(left) % int(modulus) == int(right), line


class Tasks(support.Test):
    def rows(self, *arguments):
        result = keel("tasks", *arguments, "--json")
        self.assert_exit(result, 0)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_every_answer_and_solution_is_right(self):
        for task in WORKED:
            for difficulty in range(1, 6):
                wanted = support.count(300, 1000)
                rows = self.rows(task, "-n", wanted, "--difficulty", difficulty, "--seed", difficulty)
                self.assertEqual(len(rows), wanted)
                for row in rows:
                    self.assertTrue(row["prompt"].endswith(INSTRUCTION), row)
                    self.assertTrue(row["demonstration"].endswith("<eos>"), row)
                    question, completion = row["prompt"][:-len(INSTRUCTION)], row["demonstration"][:-len("<eos>")]
                    answer = globals()[task](question, completion)
                    self.assertEqual(answer, row["answer"], row)
                    if task != "countdown":
                        self.assertEqual(completion.rsplit("#### ", 1)[1], str(row["answer"]), row)
                    check_lines(task, completion)

    def test_answers_of_held_out_problems_are_right_too(self):
        for task in WORKED[1:]:
            for row in self.rows(task, "-n", 300, "--difficulty", 3, "--held-out"):
                self.assertNotIn("demonstration", row)
                self.assertEqual(globals()[task](row["prompt"][:-len(INSTRUCTION)], None), row["answer"], row)

    def test_the_table_and_the_samples_are_readable(self):
        table = keel("tasks")
        self.assert_exit(table, 0)
        names = [line.split()[0] for line in table.stdout.splitlines()]
        self.assertEqual(set(names), {"chains", *WORKED})
        for name in names:
            result = keel("tasks", name, "-n", 2)
            self.assert_exit(result, 0)
            self.assertEqual(result.stdout.count("answer: "), 2)
            self.assertIn("demonstration 1", result.stdout)
        self.assertIn("tasks ", keel("--help").stdout)

    def test_the_same_seed_shows_the_same_samples(self):
        self.assertEqual(self.rows("letters", "--seed", 5), self.rows("letters", "--seed", 5))
        self.assertNotEqual(self.rows("letters", "--seed", 5)[0]["prompt"], self.rows("letters", "--seed", 6)[0]["prompt"])

    def test_bad_requests_are_refused(self):
        self.assert_refused(keel("tasks", "coutndown"), 2, "did you mean countdown?")
        self.assert_refused(keel("tasks", "chains", "--difficulty", "2"), 2, "task.difficulty", "modulus")
        for arguments in (("letters", "--difficulty", "6"), ("letters", "-n", "0"), ("letters", "--seed", "x")):
            self.assert_exit(keel("tasks", *arguments), 2)


if __name__ == "__main__":
    support.main()
