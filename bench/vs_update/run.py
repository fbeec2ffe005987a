#!/usr/bin/env python3
"""One update (forward, backward, clipping, AdamW): Keel against a plain PyTorch loop on transformers' model, on the same
random weights and tokens, alternating between the two. The losses must agree.

On a CPU in float32 with 64 sequences of 56 tokens of a model of 3.2 M parameters; on a GPU (--device cuda) with float32
masters and products in bf16, 16 sequences of 1,024 tokens of Qwen2.5-0.5B's shape.
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

ROWS = {"cpu": ("3.2M", 64, 56), "cuda": ("0.5B", 16, 1024)}


def measure(options: argparse.Namespace, cpus: list[int]) -> None:
    shape, sequences, tokens = ROWS[options.device]
    environment = worker_environment(options.threads, "passive")
    with tempfile.TemporaryDirectory(prefix="vs_update_") as folder:
        sizes = [str(sequences), str(tokens)]
        commands = {
            "keel": [str(options.keel), shape, *sizes, folder, str(options.threads), options.device],
            "hf": [str(options.python), str(HERE / "hf_worker.py"), *sizes, folder, options.device],
        }
        workers: list[Worker] = []
        try:
            for name, command in commands.items():
                workers.append(Worker(name, command, environment, {"seconds", "loss", "peak_bytes"}))
                workers[-1].wait_ready()  # one at a time: the second reads what the first wrote
            pairs = [run_pair(*workers, cpus) for _ in range(options.pairs)]
        finally:
            for worker in workers:
                worker.close()
    apart = max(abs(pair["keel"]["loss"] / pair["hf"]["loss"] - 1) for pair in pairs)
    if apart > (1e-4 if options.device == "cpu" else 1e-2):
        raise WorkerError(f"the losses are {apart:.2g} apart: {pairs[0]['keel']['loss']} and {pairs[0]['hf']['loss']}")
    mark_noise(pairs)
    clean = [pair for pair in pairs if not pair["noise"]]
    ratio = statistics.median(pair["ratio"] for pair in clean or pairs)
    middle = {n: statistics.median(p[n]["seconds"] for p in clean or pairs) for n in commands}
    cores = {n: statistics.median(p[n]["cpu_seconds"] for p in clean or pairs) for n in commands}
    peak = {n: max(p[n]["peak_bytes"] for p in pairs) / 2**30 for n in commands}
    print(
        f"{shape}, {sequences} x {tokens} tokens: ratio {ratio:.2f}   "
        + ", ".join(
            f"{name} {middle[n] * 1e3:.1f} ms ({cores[n] * 1e3:.0f} core ms), peak {peak[n]:.2f} GiB"
            for n, name in (("keel", "keel"), ("hf", "transformers"))
        )
        + f"   losses {apart:.1e} apart"
        + ("" if len(clean) * 2 > len(pairs) else f"   NOISY: {len(clean)} of {len(pairs)} pairs are clean"),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(compare(__doc__, ROOT / "build/bench/vs_update_keel", list(ROWS), measure))
