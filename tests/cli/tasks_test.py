"""keel tasks: countdown solutions are checked by an independent evaluator."""

import json
import re
from fractions import Fraction

import support
from support import keel

INSTRUCTION = '\nEnd with "####" and the answer.\n'


def value(expression):
    """The value of a formula in exact fractions; a pattern has checked the text."""
    assert re.fullmatch(r"[0-9+\-*/() ]*", expression), expression
    return eval(re.sub(r"\d+", lambda m: f"Fraction({m[0]})", expression), {"Fraction": Fraction})


def parse_countdown(question):
    numbers, target = re.fullmatch(
        r"Combine each of the numbers (.*) exactly once, with \+ - \* / and brackets, to make (\d+)\.", question).groups()
    return {"numbers": list(map(int, re.findall(r"\d+", numbers))), "target": int(target)}


class Tasks(support.Test):
    def rows(self, *arguments):
        result = keel("tasks", *arguments, "--json")
        self.assert_exit(result, 0)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_every_answer_and_solution_is_right(self):
        for difficulty in range(1, 6):
            count = support.count(300, 1000)
            rows = self.rows("countdown", "-n", count, "--difficulty", difficulty, "--seed", difficulty)
            self.assertEqual(len(rows), count)
            for row in rows:
                self.assertTrue(row["prompt"].endswith(INSTRUCTION), row)
                self.assertEqual(parse_countdown(row["prompt"][:-len(INSTRUCTION)]), row["answer"], row)
                self.assertTrue(row["demonstration"].endswith("<eos>"), row)
                *steps, last = row["demonstration"][:-len("<eos>")].split("\n")
                for step in steps:
                    left, right = step.split(" = ")
                    self.assertEqual(value(left), value(right), row)
                expression = last.removeprefix("#### ")
                self.assertEqual(value(expression), row["answer"]["target"], row)
                self.assertEqual(sorted(map(int, re.findall(r"\d+", expression))), sorted(row["answer"]["numbers"]), row)

    def test_held_out_problems_have_no_demonstration(self):
        for row in self.rows("countdown", "-n", 300, "--difficulty", 3, "--held-out"):
            self.assertNotIn("demonstration", row)
            self.assertEqual(parse_countdown(row["prompt"][:-len(INSTRUCTION)]), row["answer"], row)

    def test_the_table_and_the_samples_are_readable(self):
        table = keel("tasks")
        self.assert_exit(table, 0)
        names = [line.split()[0] for line in table.stdout.splitlines()]
        self.assertEqual(names, ["chains", "countdown", *(f"countdown_{level}" for level in range(2, 6))])
        for name in names:
            result = keel("tasks", name, "-n", 2)
            self.assert_exit(result, 0)
            self.assertEqual(result.stdout.count("answer: "), 2)
            self.assertIn("demonstration 1", result.stdout)
        self.assertIn("tasks ", keel("--help").stdout)

    def test_the_same_seed_shows_the_same_samples(self):
        self.assertEqual(self.rows("countdown", "--seed", 5), self.rows("countdown", "--seed", 5))
        self.assertNotEqual(self.rows("countdown", "--seed", 5)[0]["prompt"], self.rows("countdown", "--seed", 6)[0]["prompt"])

    def test_bad_requests_are_refused(self):
        self.assert_refused(keel("tasks", "coutndown"), 2, "did you mean countdown?")
        self.assert_refused(keel("tasks", "letters"), 2, 'task.name "letters" was removed', "examples/reasoning_gym/")
        self.assert_refused(keel("tasks", "chains", "--difficulty", "2"), 2, 'task.name "chains_2" is unknown')
        for arguments in (("countdown", "--difficulty", "6"), ("countdown", "-n", "0"), ("countdown", "--seed", "x")):
            self.assert_exit(keel("tasks", *arguments), 2)


if __name__ == "__main__":
    support.main()
