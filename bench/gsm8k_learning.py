"""Tests whether a real model learns on real problems: SmolLM2-135M-Instruct on GSM8K, without network access.

    python3 bench/gsm8k_learning.py MODEL.gguf train.jsonl OUT [--device cuda] [--steps 100] ...

1. Samples 8 completions of each of the first 3,000 problems (`keel eval`) and writes the problems with at least one
   correct completion to OUT/kept.jsonl.
2. Trains on those (`keel train`): DPPO on all weights, 32 problems x 8 completions per step.
3. Writes OUT/curve.csv and OUT/summary.txt: the mean reward of the first and of the last 20 steps with standard errors, and
   whether the last exceeds the first by 3 standard errors of the difference.

Large files (the run with its checkpoints, all completions) go to --work; OUT has kilobytes. A stage that exceeds its time
limit is stopped, and the next one uses its partial result. A second call skips finished stages and resumes the run. The
exit code is 0 if the reward rose by that much, 1 if not, 2 if a stage failed.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEEL = os.environ.get("KEEL_BINARY", str(ROOT / "build" / "keel"))
CURVE = ("step", "reward/mean", "reward/std", "completion/length_mean", "completion/truncated", "policy/entropy", "time/step")


def run(words, seconds, output):
    """Runs the program with its output in a file, and stops it at the time limit. Returns its exit code."""
    began = time.monotonic()
    with open(output, "w", encoding="utf-8") as file:
        process = subprocess.Popen([KEEL, *map(str, words)], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            print(f"{words[0]}: stopped after {seconds} s", flush=True)
            process.send_signal(signal.SIGTERM)  # it saves a checkpoint
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    print(f"{words[0]}: {time.monotonic() - began:.0f} s, exit code {process.returncode}", flush=True)
    if process.returncode not in (0, 75):
        print(output.read_text(encoding="utf-8", errors="replace")[-3000:], flush=True)
    return process.returncode


def configuration(options):
    return {
        "model": {"path": str(options.model)},
        # No problem is longer; a lower limit saves KV cache.
        "data": {"files": [str(options.out / "kept.jsonl")], "chat": "always", "max_prompt_tokens": 512},
        "reward": {"functions": ["math"]},
        "objective": {"method": options.method},
        "rollout": {"samples_per_prompt": options.samples, "max_new_tokens": options.max_new_tokens,
                    "temperature": options.temperature},
        "optimizer": {"lr": options.lr, "warmup_updates": 5},
        "train": {"steps": options.steps, "prompts_per_step": options.prompts, "tokens_per_batch": 32768,
                  "sequences_per_update": options.prompts * options.samples // options.updates},
        "eval": {"prompts": 0},
        "checkpoint": {"every": 50, "keep": 1},
        "record": {"certificate_every": 0},
        "run": {"dir": str(options.work / "run"), "device": options.device, "seed": options.seed},
    }


def solved_shares(options, rows, seconds):
    """The fraction of correct completions of each row; None if the evaluation timed out."""
    data, samples, config = (options.work / name for name in ("rows.jsonl", "samples.jsonl", "eval.json"))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tree = configuration(options)
    tree["data"] = {**tree["data"], "files": [], "eval_files": [str(data)]}
    tree["eval"] = {"samples": options.samples, "temperature": options.temperature}
    config.write_text(json.dumps(tree))
    code = run(["eval", config, "--model", options.model, "--samples", samples], seconds, options.out / "eval.txt")
    if code not in (0, 75):
        raise SystemExit(2)
    if code == 75:
        return None
    shares = [0.0] * len(rows)
    for line in samples.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        row = sample["prompt_id"]
        assert rows[row]["question"] in sample["prompt"], f"the sample of row {row} has another prompt: {sample['prompt']}"
        shares[row] += (sample["reward"] or 0) / options.samples
    return shares


def keep_solvable(options):
    """Writes OUT/kept.jsonl; returns False on failure."""
    kept = options.out / "kept.jsonl"
    if kept.exists():
        print(f"{kept} exists: {len(kept.read_text(encoding='utf-8').splitlines())} problems", flush=True)
        return True
    rows = [json.loads(line) for line in options.data.read_text(encoding="utf-8").splitlines()[:options.problems]]
    chosen, tried, end = [], [], time.monotonic() + options.eval_seconds
    for first in range(0, len(rows), options.part):  # in parts, since a stopped evaluation has no result
        part = rows[first:first + options.part]
        shares = solved_shares(options, part, max(end - time.monotonic(), 1))
        if shares is None:
            break
        tried += shares
        chosen += [row for row, share in zip(part, shares) if share > 0]
    if not chosen:
        print(f"none of {len(tried)} problems is solvable")
        return False
    print(f"{len(tried)} problems x {options.samples}: {statistics.fmean(tried):.4f} right; of {len(chosen)} problems at least one",
          flush=True)
    partial = kept.with_suffix(".partial")
    partial.write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")
    partial.rename(kept)
    return True


def train(options):
    config, folder = options.work / "train.json", options.work / "run"
    config.write_text(json.dumps(configuration(options), indent=1))
    flags = []
    if folder.exists():
        flags = ["--resume"] if list((folder / "checkpoints").glob("step-*")) else ["--overwrite"]
    return run(["train", config, *flags], options.train_seconds, options.out / "train.txt")


def mean_and_error(numbers):
    return statistics.fmean(numbers), statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan


def tell(options):
    """Writes the curve and the summary. Returns whether the reward rose by 3 standard errors."""
    metrics = options.work / "run" / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()] if metrics.exists() else []
    rows = [row for row in rows if row["phase"] == "rl" and "reward/mean" in row]
    with open(options.out / "curve.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(CURVE)
        for row in rows:
            writer.writerow([f"{row[key]:.6g}" if isinstance(row.get(key), float) else row.get(key, "") for key in CURVE])
    rewards, few = [row["reward/mean"] for row in rows], options.window
    if len(rewards) < 2 * few:
        text = f"{len(rewards)} steps: too few to compare the first {few} with the last {few}"
        rose = False
    else:
        (first, first_error), (last, last_error) = mean_and_error(rewards[:few]), mean_and_error(rewards[-few:])
        error = math.hypot(first_error, last_error)
        rose = last - first > 3 * error
        text = (f"{len(rewards)} steps: reward {first:.4f} +- {first_error:.4f} in the first {few}, {last:.4f} +- {last_error:.4f} in the "
                f"last {few}; the difference is {last - first:.4f}, {(last - first) / error if error else math.nan:.1f} standard errors "
                f"of it: {'more than 3' if rose else 'NOT more than 3'}")
    (options.out / "summary.txt").write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)
    return rose


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="SmolLM2-135M-Instruct as a GGUF file")
    parser.add_argument("data", type=pathlib.Path, help="train.jsonl of GSM8K")
    parser.add_argument("out", type=pathlib.Path, help="folder of the small results")
    parser.add_argument("--work", type=pathlib.Path, help="folder of the large files (default: OUT/work)")
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--method", default="dppo_tv")
    parser.add_argument("--problems", type=int, default=3000, help="number of problems to try")
    parser.add_argument("--part", type=int, default=1000, help="problems per evaluation")
    parser.add_argument("--samples", type=int, default=8, help="completions per problem")
    parser.add_argument("--prompts", type=int, default=32, help="problems per step")
    parser.add_argument("--updates", type=int, default=2, help="updates per step")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    # The model solves less than 1 % of the problems at temperature 1, and 2 % at 0.7.
    parser.add_argument("--temperature", type=float, default=0.7, help="sampling temperature")
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--window", type=int, default=20, help="steps at the start and at the end to compare")
    parser.add_argument("--eval-seconds", type=float, default=120)
    parser.add_argument("--train-seconds", type=float, default=300)
    options = parser.parse_args()
    options.work = (options.work or options.out / "work").resolve()
    options.out, options.model, options.data = (path.resolve() for path in (options.out, options.model, options.data))
    for folder in (options.out, options.work):
        folder.mkdir(parents=True, exist_ok=True)
    if not keep_solvable(options):
        return 2
    code = train(options)
    rose = tell(options)
    return 2 if code not in (0, 75) else 0 if rose else 1


if __name__ == "__main__":
    sys.exit(main())
