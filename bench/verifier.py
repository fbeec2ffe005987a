"""Throughput of the Keel math verifier against the package math-verify on GSM8K-like answers, in one run, alternating.

    KEEL_BINARY=build/keel python bench/verifier.py [GSM8K_FOLDER]

Both judge the same rows: a gold solution ending in "#### N" and a completion of a few sentences. Each gets a batch in
turn; the ratio is that of the medians, in judgements per second of process CPU time, so that a busy machine matters less.
Reading and writing JSON counts for Keel; importing is not part of math-verify's.
"""

import json
import logging
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEEL = os.environ.get("KEEL_BINARY", str(ROOT / "build" / "keel"))
ROUNDS, OURS, THEIRS = 7, 20000, 100


def rows(folder):
    r = random.Random(0)
    solutions = [json.loads(line)["answer"] for line in (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    made = []
    for solution in solutions:
        work, answer = solution.rsplit("####", 1)
        answer = answer.strip()
        given = answer if r.random() < 0.6 else str(r.randint(1, 500))
        ending = r.choice((f"The answer is {given}.", f"#### {given}", f"\\boxed{{{given}}}", f"So the final answer is ${given}$."))
        made.append({"gold": solution, "answer": work + ending})
    return made


def child_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def keel(batch):
    text = "".join(json.dumps(row) + "\n" for row in batch)
    before = child_seconds()
    result = subprocess.run([KEEL, "verify", "--batch", "-"], input=text, capture_output=True, text=True, check=True)
    seconds = child_seconds() - before
    return [json.loads(line)["correct"] for line in result.stdout.splitlines()], seconds


def math_verify(batch):
    from math_verify import parse, verify

    before = time.process_time()
    verdicts = [bool(verify(parse(row["gold"].rsplit("####", 1)[1]), parse(row["answer"]))) for row in batch]
    return verdicts, time.process_time() - before


def main():
    logging.disable(logging.CRITICAL)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT.parent / "shared" / "data" / "gsm8k")
    data = rows(folder)
    math_verify(data[:10])  # imports and first-call caches
    ours, theirs, agree, compared = [], [], 0, 0
    for round_ in range(ROUNDS):
        some = [data[(round_ * THEIRS + i) % len(data)] for i in range(THEIRS)]
        verdicts, seconds = keel((some * (OURS // THEIRS))[:OURS])
        ours.append(OURS / seconds)
        other, seconds = math_verify(some)
        theirs.append(THEIRS / seconds)
        agree += sum(a == b for a, b in zip(verdicts, other))
        compared += THEIRS
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"judgements per CPU second: Keel {statistics.median(ours):.0f}, math-verify {statistics.median(theirs):.0f}; {ratio:.0f}x; "
          f"the same verdict on {agree} of {compared}")


if __name__ == "__main__":
    main()
