#!/usr/bin/env python3
"""A policy loss on a Hugging Face model, forward and backward: keel.hf.fused_policy_loss against TRL's own path (its fused LM head,
which keeps log-probabilities and computes logits again in the backward pass) and against Liger's fused GRPO loss, on the same
weights and completions, alternating. All make PPO's clip with a mean over tokens; their gradients must agree.

On a CPU in float32 with SmolLM2-135M's width and vocabulary, two of its layers, and 4 completions of 128 tokens; on a GPU
(--device cuda) in bf16 with Qwen2.5-0.5B's shape and 16 completions of 512 tokens. make build first.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from pairs import Worker, WorkerError, compare, mark_noise, run_pair, worker_environment  # noqa: E402

MAX_APART = {"cpu": 1e-4, "cuda": 0.1}  # TRL rounds its bf16 logits, Keel does not: the head's gradients differ by 5 %


def report(facts: dict, pairs: list[dict]) -> None:
    mark_noise(pairs)
    clean = [pair for pair in pairs if not pair["noise"]]
    used = clean or pairs

    def side(key: str, name: str) -> str:
        seconds, cores = (statistics.median(p[key][k] for p in used) for k in ("seconds", "cpu_seconds"))
        return f"{name} {seconds * 1e3:.0f} ms ({cores * 1e3:.0f} core ms), peak {max(p[key]['peak_bytes'] for p in pairs) / 2**20:.0f} MiB"

    time, work = (statistics.median(p["peer"][k] / p["keel"][k] for p in used) for k in ("seconds", "cpu_seconds"))
    print(f"ratio {time:.2f}, of processor time {work:.2f}   {side('keel', 'keel')}, {side('peer', facts['name'])} above model and batch   apart: "
          + ", ".join(f"{what} {difference:.1e}" for what, difference in facts["apart"].items())
          + ("" if len(clean) * 2 > len(pairs) else f"   NOISY: {len(clean)} of {len(pairs)} pairs are clean"), flush=True)


def measure(options: argparse.Namespace, cpus: list[int]) -> None:
    environment = worker_environment(options.threads, "passive")
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "build/python"), *filter(None, [os.environ.get("PYTHONPATH")])])
    workers: list[Worker] = []

    def start(name: str, kind: str, folder: str) -> Worker:
        command = [str(options.python), str(HERE / "worker.py"), kind, folder, options.device]
        workers.append(Worker(name, command, environment, {"peak_bytes"}))
        workers[-1].wait_ready()
        return workers[-1]

    with tempfile.TemporaryDirectory(prefix="vs_loss_") as folder:
        try:
            keel = start("keel", "keel", folder)
            for kind in ("trl", "liger"):
                peer = start("peer", kind, folder)  # compares itself with what Keel's side wrote
                if not peer.facts["apart"]["gradient"] <= MAX_APART[options.device]:
                    raise WorkerError(f"the gradients of keel and {peer.facts['name']} are {peer.facts['apart']['gradient']:.2g} apart; expected {MAX_APART[options.device]}")
                report(peer.facts, [run_pair(keel, peer, cpus) for _ in range(options.pairs)])
                workers.pop().close()
        finally:
            for worker in workers:
                worker.close()


if __name__ == "__main__":
    sys.exit(compare(__doc__, ROOT / ".deps/trl/bin/python", list(MAX_APART), measure))
