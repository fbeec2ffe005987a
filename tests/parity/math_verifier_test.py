"""Compares the math verifier with independent labels (math_pairs.py) and with the package math-verify.

False positives and errors on hand-labelled pairs are not allowed; other false negatives are listed and at most 1 %.
GSM8K is read from KEEL_GSM8K or ../shared/data/gsm8k; without it a message is printed. Agreement with math-verify is
printed, with examples of disagreements; docs/math-verifier.md explains them.
"""

import collections
import importlib.util
import json
import logging
import os
import pathlib
import subprocess
import sys

from packages import ROOT, count, is_there, use

KEEL = os.environ.get("KEEL_BINARY", str(ROOT / "build" / "keel"))
MIN_PAIRS, MAX_FALSE_NEGATIVES, COMPARED = count(2500, 4000), 0.01, count(50, 4000)


def judged(pairs):
    rows = "".join(json.dumps({"gold": g, "answer": a, "kind": k, "equal": e}) + "\n" for k, g, a, e in pairs)
    result = subprocess.run([KEEL, "verify", "--batch", "-"], input=rows, capture_output=True, text=True, check=True)
    judged_rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(r["kind"], r["gold"], r["answer"], r["equal"]) for r in judged_rows] == pairs, "rows were lost or changed"
    return judged_rows


def as_formula(text):
    """Puts formulas between dollar signs, as math-verify requires; completions are unchanged."""
    is_completion = any(mark in text for mark in ("$", "\\boxed", "####", "answer", "\n", "Therefore", "So it"))
    return text if is_completion else f"${text}$"


def compare_with_math_verify(rows):
    logging.disable(logging.CRITICAL)
    from math_verify import parse, verify

    step = max(1, len(rows) // COMPARED)
    sample = rows[::step]
    agreed, theirs_right = 0, 0
    disagreements = collections.defaultdict(list)
    for row in sample:
        try:
            theirs = bool(verify(parse(as_formula(row["gold"])), parse(as_formula(row["answer"]))))
        except Exception:  # an exception counts as unequal
            theirs = False
        agreed += theirs == row["correct"]
        theirs_right += theirs == row["equal"]
        if theirs != row["correct"]:
            what = "only Keel says equal" if row["correct"] else "only math-verify says equal"
            disagreements[row["kind"].split(",")[0], what, row["correct"] == row["equal"]].append(row)
    print(f"math-verify: agrees on {agreed} of {len(sample)} pairs; matches {theirs_right} of their labels, "
          f"Keel {sum(r['correct'] == r['equal'] for r in sample)}")
    for (kind, what, keel_is_right), found in sorted(disagreements.items()):
        print(f"  {kind}: {what} ({'Keel' if keel_is_right else 'math-verify'} matches the label), {len(found)} times:")
        for row in found[:3]:
            print(f"    {row['gold'][-70:]!r} against {row['answer'][-70:]!r}")


def check_command():
    """Exit codes and messages of the command itself."""
    def run(*arguments, text=""):
        return subprocess.run([KEEL, "verify", *arguments], input=text, capture_output=True, text=True)

    right = run("--gold", "\\frac{1}{2}", "--answer", "0.5")
    assert (right.returncode, right.stdout) == (0, "correct\ngold    1/2\nanswer  1/2\n"), right
    wrong = run("--gold", "1/3", "--answer", "0.333")
    assert (wrong.returncode, wrong.stdout) == (1, "wrong\ngold    1/3\nanswer  333/1000\n"), wrong
    kept = run("--batch", "-", text='{"id": 7, "gold": "1", "answer": "2", "more": [1]}\n\n{"gold": 2, "answer": "2"}')
    assert kept.stdout.splitlines() == ['{"id":7,"gold":"1","answer":"2","more":[1],"correct":false}',
                                        '{"gold":2,"answer":"2","correct":true}'], kept
    good = '{"gold": "1", "answer": "1"}\n'
    for bad in ("{", "[1]", '{"gold": "1"}', '{"gold": null, "answer": "1"}', '{"gold": "1", "gold": "2", "answer": "1"}', '{"gold": "\ud800", "answer": ""}'):
        result = subprocess.run([KEEL, "verify", "--batch", "-"], input=(good + bad).encode("utf-8", "surrogatepass"), capture_output=True)
        assert result.returncode == 3 and b"standard input:2" in result.stderr, (bad, result)
    assert run("--batch", "/nowhere").returncode == 3
    assert run("--gold", "1").returncode == 2
    assert run("--gold", "1", "--answer", "1", "--batch", "-").returncode == 2


def main():
    if importlib.util.find_spec("sympy") is None:
        print("sympy is not installed; there are no pairs to compare")
        return 77
    check_command()
    import math_pairs

    gsm8k = pathlib.Path(os.environ.get("KEEL_GSM8K", ROOT.parent / "shared" / "data" / "gsm8k"))
    if not (gsm8k / "test.jsonl").exists():
        print(f"{gsm8k} is not there: without GSM8K (set KEEL_GSM8K)")
        gsm8k = None
    rows = judged(math_pairs.all_pairs(gsm8k, count(0.3, 1)))
    by_hand = [r for r in rows if r["kind"].startswith("by hand") and r["correct"] != r["equal"]]
    equal = [r for r in rows if r["equal"] and not r["kind"].startswith("by hand")]
    false_positives = [r for r in rows if r["correct"] and not r["equal"]]
    false_negatives = [r for r in equal if not r["correct"]]
    print(f"{len(rows)} pairs, {len(equal)} of them equal: {len(false_positives)} false positives, "
          f"{len(false_negatives)} false negatives")
    for name, found in (("FALSE POSITIVE", false_positives), ("false negative", false_negatives)):
        for row in found:
            print(f"  {name} ({row['kind']}): {row['gold'][-100:]!r} against {row['answer']!r}")
    for row in by_hand:
        print(f"  {row['kind']}: {row['gold']!r} against {row['answer']!r}, expected {row['equal']}")
    if is_there("math-verify"):
        use("math-verify")
        compare_with_math_verify(rows)
    else:
        print("math-verify is not there: without the comparison")
    assert len(rows) >= MIN_PAIRS, len(rows)
    assert not false_positives and not by_hand
    assert len(false_negatives) <= MAX_FALSE_NEGATIVES * len(equal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
