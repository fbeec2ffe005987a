#!/usr/bin/env python3
"""Sampling: Keel against Hugging Face's generate, on the same random weights, alternating between the two.

Each row is a shape and a number of sequences, temperature 1, no truncation: on a CPU in float32 with prompts of 16 tokens
and 48 new ones, on a GPU (--device cuda) in bf16 with prompts of 448 and 128 new ones.
Keel's side lays its weights out anew for each batch and records log-probabilities, log(1 - p) and entropies, as in
training; a second ratio does not count the laying out, which a program that only generates does once. A row's `ratio` is the
median of the pairs' ratios of seconds; a share is of the lower bound for one step: the larger
of the weights' bytes at the memory's speed and the products at the speed of a large one, both measured in the same run.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from pairs import Worker, WorkerError, compare, mark_noise, run_pair, worker_environment  # noqa: E402

ROWS = {"cpu": [("3.2M", 64), ("3.2M", 256), ("135M", 1), ("135M", 8)], "cuda": [("0.5B", 64), ("0.5B", 256)]}
PROMPT_TOKENS = {"cpu": 16, "cuda": 448}
NEW_TOKENS = {"cpu": 48, "cuda": 128}


def measure(shape: str, sequences: int, options: argparse.Namespace, cpus: list[int]) -> None:
    environment = worker_environment(options.threads, "passive")
    prompt_tokens, new_tokens = PROMPT_TOKENS[options.device], NEW_TOKENS[options.device]
    lengths = [str(prompt_tokens), str(new_tokens)]
    with tempfile.TemporaryDirectory(prefix="vs_generate_") as folder:
        commands = {
            "keel": [str(options.keel), shape, str(sequences), *lengths, folder, str(options.threads), options.device],
            "hf": [str(options.python), str(HERE / "hf_worker.py"), str(sequences), *lengths, folder, options.device],
        }
        workers: list[Worker] = []
        try:
            for name, command in commands.items():
                answers = {"seconds", "tokens"} | ({"laying_out"} if name == "keel" else set())
                workers.append(Worker(name, command, environment, answers))
                workers[-1].wait_ready()  # one at a time: the second reads what the first wrote
            keel, hf = workers
            pairs = [run_pair(keel, hf, cpus) for _ in range(options.pairs)]
        finally:
            for worker in workers:
                worker.close()
    for pair in pairs:
        for name in commands:
            if pair[name]["tokens"] != sequences * new_tokens:
                raise WorkerError(f"{name}: sampled {pair[name]['tokens']} tokens, not {sequences * new_tokens}")
    mark_noise(pairs)
    clean = [pair for pair in pairs if not pair["noise"]]
    ratio = statistics.median(pair["ratio"] for pair in clean or pairs)
    laid_out = statistics.median(
        pair["hf"]["seconds"] / (pair["keel"]["seconds"] - pair["keel"]["laying_out"]) for pair in clean or pairs
    )
    step = {n: statistics.median(p[n]["seconds"] for p in clean or pairs) / new_tokens for n in commands}
    cpu = {n: statistics.median(p[n]["cpu_seconds"] for p in clean or pairs) / new_tokens for n in commands}
    share = ""
    if options.device == "cpu":
        facts = keel.facts
        bytes_at_speed = 4 * facts["parameters"] / facts["memory_bytes_a_second"]
        products_at_speed = 2 * facts["parameters"] * sequences / facts["operations_a_second"]
        share = f", {max(bytes_at_speed, products_at_speed) / step['keel']:.0%} of the lower bound"
    print(
        f"{shape} at {sequences:3d}: ratio {ratio:.2f} ({laid_out:.2f} once laid out)   keel {step['keel'] * 1e3:.2f} ms a step ({sequences / step['keel']:.0f} "
        f"tokens/s, {cpu['keel'] * 1e3:.2f} core ms{share}), generate "
        f"{step['hf'] * 1e3:.2f} ms ({sequences / step['hf']:.0f} tokens/s, {cpu['hf'] * 1e3:.2f} core ms)"
        + ("" if len(clean) * 2 > len(pairs) else f"   NOISY: {len(clean)} of {len(pairs)} pairs are clean"),
        flush=True,
    )


def measure_rows(options: argparse.Namespace, cpus: list[int]) -> None:
    for shape, sequences in ROWS[options.device]:
        measure(shape, sequences, options, cpus)


if __name__ == "__main__":
    sys.exit(compare(__doc__, ROOT / "build/bench/vs_generate_keel", list(ROWS), measure_rows))
