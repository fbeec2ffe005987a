#!/usr/bin/env python3
"""The LM head, forward and backward: Keel against plain PyTorch (full logits, autograd) and against Liger's chunks, on
the same random hidden states, weight, targets and coefficients, alternating between Keel and a peer. Each side computes
the log-probability, log(1 - p) and entropy of every row and the gradients of hidden states and weight, which must agree.
Liger is the package `liger-kernel`, which returns only gradients, if it is installed and supports the device; otherwise
its algorithm in plain PyTorch.

On a CPU in float32 with 512 rows of SmolLM2-135M's head; on a GPU (--device cuda) in bf16 with gradients in float32 and
16,384 rows of Qwen2.5-0.5B's.
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

SHAPES = {"cpu": (4, 128, 576, 49_152), "cuda": (16, 1024, 896, 151_936)}  # sequences, tokens, width, vocabulary
# Max difference of statistics, relative 2-norm of gradients. Plain PyTorch rounds logits to bf16 on a GPU.
MAX_APART = {"cpu": (1e-4, 1e-4), "cuda": (0.25, 0.02)}
ANSWERS = {"seconds", "peak_bytes"}


def check(device: str, facts: dict) -> None:
    statistic, gradient = MAX_APART[device]
    for what, difference in facts["apart"].items():
        limit = gradient if what.endswith("gradient") else statistic
        if not difference <= limit:
            raise WorkerError(f"keel and {facts['name']} are {difference:.2g} apart in {what}; expected at most {limit}")


def report(title: str, facts: dict, pairs: list[dict]) -> None:
    mark_noise(pairs)
    clean = [pair for pair in pairs if not pair["noise"]]
    ratio = statistics.median(pair["ratio"] for pair in clean or pairs)

    def side(key: str, name: str) -> str:
        seconds, cores = (statistics.median(p[key][k] for p in clean or pairs) for k in ("seconds", "cpu_seconds"))
        peak = max(p[key]["peak_bytes"] for p in pairs) / 2**20
        return f"{name} {seconds * 1e3:.1f} ms ({cores * 1e3:.0f} core ms), peak {peak:.0f} MiB above the inputs"

    print(
        f"{title}: ratio {ratio:.2f}   {side('keel', 'keel')}, {side('peer', facts['name'])}   apart: "
        + ", ".join(f"{what} {difference:.1e}" for what, difference in facts["apart"].items())
        + ("" if len(clean) * 2 > len(pairs) else f"   NOISY: {len(clean)} of {len(pairs)} pairs are clean"),
        flush=True,
    )


def measure(options: argparse.Namespace, cpus: list[int]) -> None:
    sizes = SHAPES[options.device]
    title = "{} x {} rows, width {}, vocabulary {}".format(*sizes)
    environment = worker_environment(options.threads, "passive")
    workers: list[Worker] = []

    def start(name: str, command: list) -> Worker:
        workers.append(Worker(name, [str(word) for word in command], environment, ANSWERS))
        workers[-1].wait_ready()
        return workers[-1]

    with tempfile.TemporaryDirectory(prefix="vs_head_") as folder:
        try:
            keel = start("keel", [options.keel, *sizes, folder, options.threads, options.device])
            for name in ("torch", "liger"):
                command = [options.python, HERE / "torch_worker.py", name, folder, options.device]
                peer = start("peer", command)  # reads what Keel's side wrote
                if "apart" in peer.facts:
                    check(options.device, peer.facts)
                    report(title, peer.facts, [run_pair(keel, peer, cpus) for _ in range(options.pairs)])
                else:
                    print(f"{title}: {peer.facts['name']} runs out of memory", flush=True)
                workers.pop().close()
        finally:
            for worker in workers:
                worker.close()


if __name__ == "__main__":
    sys.exit(compare(__doc__, ROOT / "build/bench/vs_head_keel", list(SHAPES), measure))
