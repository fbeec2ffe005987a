#!/usr/bin/env python3
"""Times one whole RL training step of Keel against TRL's GRPOTrainer on a CPU, alternating between the two.

Both workers stay alive; each makes one step when told to, and sleeps otherwise. README.md has the workload, the
protocol and how to read the result.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from pairs import Worker, WorkerError, describe_machine, mark_noise, physical_cores, run_pair, worker_environment  # noqa: E402

COMPLETION_TOKENS = 8 * 8 * 40
MIN_CLEAN_PAIRS = 5
ANSWERS = {"seconds", "rollout_seconds", "train_seconds", "completion_tokens"}


def summarize(pairs: list[dict]) -> dict:
    """Medians over these pairs."""

    def median(side: str, key: str) -> float:
        return statistics.median(pair[side][key] for pair in pairs)

    keys = ("seconds", "rollout_seconds", "train_seconds", "cpu_seconds")
    sides = {side: {key: median(side, key) for key in keys} for side in ("keel", "trl")}
    for side in sides.values():
        side["completion_tokens_per_second"] = COMPLETION_TOKENS / side["seconds"]
    return {"pairs": len(pairs), "ratio": statistics.median(pair["ratio"] for pair in pairs)} | sides


def print_pair(number: int, pair: dict) -> None:
    sides = " ".join(
        f"{pair[s]['seconds']:8.3f} ({pair[s]['rollout_seconds']:6.3f} +{pair[s]['train_seconds']:6.3f})"
        for s in ("keel", "trl")
    )
    spins = f"{pair['spin_before'] * 1e3:5.0f} {pair['spin_after'] * 1e3:5.0f}"
    print(f"{number:4d} {sides} {pair['ratio']:7.2f} {spins} {pair['other_load']:6.1%}", flush=True)


def print_summary(title: str, summary: dict) -> None:
    print(f"{title} ({summary['pairs']} pairs):")
    for side in ("keel", "trl"):
        s = summary[side]
        print(
            f"  {side:5s} {s['seconds']:.3f} s a step (rollout {s['rollout_seconds']:.3f}, train "
            f"{s['train_seconds']:.3f}), {s['completion_tokens_per_second']:.0f} completion tokens/s, "
            f"{s['cpu_seconds']:.2f} core seconds"
        )
    print(f"  median of the pairs' ratios trl/keel: {summary['ratio']:.2f}")


def compare(options: argparse.Namespace) -> dict:
    """Runs the comparison and returns all measurements."""
    cpus = physical_cores(options.threads)
    os.sched_setaffinity(0, cpus)  # inherited by both workers
    environment = worker_environment(options.threads, options.wait_policy)
    trl_command = [str(options.trl_python), str(HERE / "trl_worker.py")]
    workers: list[Worker] = []
    try:
        for name, command in (("keel", [str(options.keel)]), ("trl", trl_command)):
            workers.append(Worker(name, command, environment, ANSWERS))
            workers[-1].wait_ready()  # one at a time, so that warm-ups do not overlap
            print(f"{name}: ready {json.dumps(workers[-1].facts)}", flush=True)
        keel, trl = workers
        for _ in range(options.warmup):
            keel.step()
            trl.step()
        print("pair   keel s (rollout + train)     trl s (rollout + train)   ratio  spin ms   others")
        pairs = []
        for number in range(1, options.pairs + 1):
            pairs.append(run_pair(keel, trl, cpus))
            for name in ("keel", "trl"):
                if pairs[-1][name]["completion_tokens"] != COMPLETION_TOKENS:
                    raise WorkerError(f"{name}: sampled another number of tokens than the workload's {COMPLETION_TOKENS}")
            print_pair(number, pairs[-1])
        peak = {worker.name: worker.peak_bytes() for worker in workers}
    finally:
        for worker in workers:
            worker.close()

    mark_noise(pairs)
    clean = [pair for pair in pairs if not pair["noise"]]
    return {
        "machine": describe_machine(cpus),
        "keel": {"command": str(options.keel)} | keel.facts,
        "trl": trl.facts,
        "threads": options.threads,
        "wait_policy": options.wait_policy,
        "completion_tokens": COMPLETION_TOKENS,
        "pairs": pairs,
        "peak_bytes": peak,
        "all": summarize(pairs),
        "clean": summarize(clean) if clean else None,
        "noisy": len(clean) < MIN_CLEAN_PAIRS,
    }


def print_result(result: dict) -> None:
    machine = result["machine"]
    print(
        f"machine: {machine['cpu']} ({machine['architecture']}), {machine['cores']} CPUs, pinned to "
        f"{machine['pinned_cpus']}, {machine['memory_gib']} GiB, Linux {machine['kernel']}, {machine['date']}"
    )
    for number, pair in enumerate(result["pairs"], 1):
        if pair["noise"]:
            print(f"noisy pair {number}: {'; '.join(pair['noise'])}")
    print_summary("all pairs", result["all"])
    if result["clean"] and result["clean"]["pairs"] < result["all"]["pairs"]:
        print_summary("clean pairs", result["clean"])
    keel, trl = (result["peak_bytes"][side] / 2**20 for side in ("keel", "trl"))
    print(f"peak memory keel {keel:.0f} MiB, trl {trl:.0f} MiB, ratio {trl / keel:.2f}")
    if result["noisy"]:
        print(f"NOISY RUN: fewer than {MIN_CLEAN_PAIRS} clean pairs; do not quote it, run again on an idle machine")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--keel", type=Path, default=ROOT / "build/bench/vs_trl_keel", help="Keel's worker program")
    parser.add_argument("--trl-python", type=Path, default=ROOT / ".deps/trl/bin/python", help="created by setup.sh")
    parser.add_argument("--pairs", type=int, default=7, help="measured pairs of steps")
    parser.add_argument("--warmup", type=int, default=2, help="unmeasured steps of each side")
    parser.add_argument("--threads", type=int, default=2, help="threads and cores of each side")
    parser.add_argument(
        "--wait-policy",
        choices=("passive", "default"),
        default="passive",
        help="OpenMP threads between parallel regions: sleep at once, or spin first (library default)",
    )
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    options = parser.parse_args()
    if options.pairs < 1 or options.threads < 1 or options.warmup < 0:
        parser.error("--pairs and --threads must be at least 1, --warmup at least 0")
    for program, remedy in ((options.keel, "build it"), (options.trl_python, "run bench/vs_trl/setup.sh")):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is not an executable file; {remedy} first")
    try:
        result = compare(options)
    except WorkerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print_result(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
