#!/usr/bin/env python3
"""Times one whole RL training step of Keel against TRL's GRPOTrainer on a CPU, alternating between the two.

Both workers stay alive; each makes one step when told to, and sleeps otherwise. README.md has the workload, the
protocol and how to read the result.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMPLETION_TOKENS = 8 * 8 * 40
STARTUP_SECONDS = 300.0
STEP_SECONDS = 300.0
MAX_SPIN_DRIFT = 0.05
MAX_OTHER_LOAD = 0.05
MAX_IDLE_LOAD = 0.05
MIN_CLEAN_PAIRS = 5
# Between two steps: longer than an OpenMP thread of the last worker spins before it goes to sleep.
SETTLE_SECONDS = 0.05
CLOCK_TICK = os.sysconf("SC_CLK_TCK")


class WorkerError(Exception):
    """A worker died, hung, or answered something that is not in the protocol."""


def physical_cores(count: int) -> list[int]:
    """`count` CPUs of this process on different cores: two hyper-threads of one core would be one core's speed."""
    chosen, seen = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = path.read_text().strip() if path.exists() else str(cpu)
        if core not in seen:
            seen.add(core)
            chosen.append(cpu)
    if len(chosen) < count:
        raise SystemExit(f"this process may use {len(chosen)} cores and --threads wants {count}; lower --threads")
    return chosen[:count]


def worker_environment(threads: int, wait_policy: str) -> dict[str, str]:
    """Both workers get exactly this: equal thread counts, and the same way of waiting between parallel regions."""
    counts = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"]
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    inherited = {name: value for name, value in os.environ.items() if name not in waiting}
    fixed = {name: str(threads) for name in counts} | {"OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "FALSE"}
    return inherited | fixed | (waiting if wait_policy == "passive" else {})


class Worker:
    """One side of the comparison: a process that answers each "step" line with one line of JSON."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]):
        self.name = name
        self.facts: dict = {}
        self.buffer = b""
        self.stderr = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, env=environment, bufsize=0
            )
        except OSError as error:
            raise WorkerError(f"{name}: cannot start {command[0]}: {error.strerror}") from error

    def wait_ready(self) -> None:
        """Blocks until the worker has warmed up, and keeps what it says about itself, if anything."""
        line = self.read_line(STARTUP_SECONDS)
        word, _, facts = line.partition(" ")
        if word != "ready":
            raise self.failure(f'answered {line!r} where "ready" was wanted')
        self.facts = self.parse(facts) if facts.strip() else {}

    def step(self) -> dict:
        """One training step, timed here so that one clock measures both sides."""
        cpu_before = self.cpu_seconds()
        started = time.perf_counter()
        try:
            self.process.stdin.write(b"step\n")
        except BrokenPipeError:
            raise self.failure("ended before it was told to") from None
        line = self.read_line(STEP_SECONDS)
        seconds = time.perf_counter() - started
        answer = self.parse(line)
        missing = {"seconds", "rollout_seconds", "train_seconds", "completion_tokens"} - answer.keys()
        if missing:
            raise self.failure(f"answered {line!r}, which lacks {', '.join(sorted(missing))}")
        if answer["completion_tokens"] != COMPLETION_TOKENS:
            raise self.failure(f"sampled {answer['completion_tokens']} tokens; the workload is {COMPLETION_TOKENS}")
        return {
            "seconds": seconds,
            "worker_seconds": answer["seconds"],
            "rollout_seconds": answer["rollout_seconds"],
            "train_seconds": answer["train_seconds"],
            "cpu_seconds": self.cpu_seconds() - cpu_before,
        }

    def read_line(self, timeout: float) -> str:
        deadline = time.monotonic() + timeout
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self.failure(f"gave no answer within {timeout:.0f} s")
            chunk = os.read(descriptor, 65536)
            if not chunk:
                raise self.failure("ended before it was told to")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode(errors="replace")

    def parse(self, text: str) -> dict:
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise self.failure(f"answered {text!r} where a JSON object was wanted")
        return value

    def cpu_seconds(self) -> float:
        """Processor time used so far by all threads of the worker."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICK

    def failure(self, what: str) -> WorkerError:
        """An error that ends the worker and carries the end of its standard error."""
        try:
            code = self.process.wait(timeout=1)  # one that is dying by itself has a status worth showing
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.stderr.seek(0)
        tail = self.stderr.read().decode(errors="replace").splitlines()[-40:]
        shown = "\n".join(f"  | {line}" for line in tail) or "  | (empty)"
        status = "" if code == -9 else f" (exit status {code})"
        return WorkerError(f"{self.name}: {what}{status}; its standard error ends with\n{shown}")

    def close(self) -> None:
        """Ends the worker by ending its input; a worker that does not follow is killed."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def busy_seconds(cpus: list[int]) -> float:
    """Time the given CPUs have spent on anything at all, time taken by a hypervisor included."""
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in {f"cpu{cpu}" for cpu in cpus}:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
            total += user + nice + system + irq + softirq + steal
    return total / CLOCK_TICK


def spin_seconds(threads: int) -> float:
    """Time of a fixed computation on every benchmark core at once: it grows when something else wants a core.
    Hashing a large buffer releases Python's lock, so the threads really run side by side. The best of three, because
    one hiccup of a few milliseconds says nothing about the seconds that a pair takes."""
    data = bytes(1 << 20)

    def spin() -> None:
        digest = hashlib.sha256()
        for _ in range(150):
            digest.update(data)

    times = []
    for _ in range(3):
        workers = [threading.Thread(target=spin) for _ in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        times.append(time.perf_counter() - started)
    return min(times)


def run_pair(keel: Worker, trl: Worker, cpus: list[int]) -> dict:
    """One step of each side, with the spin loop around them and an account of who else used the cores."""
    spin_before = spin_seconds(len(cpus))
    started, busy = time.perf_counter(), busy_seconds(cpus)
    result, idle_cpu = {}, {}
    for worker, waiting in ((keel, trl), (trl, keel)):
        time.sleep(SETTLE_SECONDS)
        waiting_cpu = waiting.cpu_seconds()
        result[worker.name] = worker.step()
        idle_cpu[waiting.name] = waiting.cpu_seconds() - waiting_cpu
    wall = time.perf_counter() - started
    own = sum(result[w.name]["cpu_seconds"] + idle_cpu[w.name] for w in (keel, trl))
    other = max(0.0, busy_seconds(cpus) - busy - own)
    return result | {
        "ratio": result["trl"]["seconds"] / result["keel"]["seconds"],
        "spin_before": spin_before,
        "spin_after": spin_seconds(len(cpus)),
        "other_load": other / (wall * len(cpus)),
        "idle_load": {
            "keel": idle_cpu["keel"] / result["trl"]["seconds"],
            "trl": idle_cpu["trl"] / result["keel"]["seconds"],
        },
    }


def mark_noise(pairs: list[dict]) -> None:
    """Gives each pair its reasons to be distrusted. The spin loop is compared within the pair: a machine that is evenly
    slower for a while slows both sides alike, and steady load from other programs is counted directly."""
    for pair in pairs:
        drift = pair["spin_after"] / pair["spin_before"] - 1
        reasons = []
        if abs(drift) > MAX_SPIN_DRIFT:
            reasons.append(f"spin loop moved {drift:+.0%}")
        if pair["other_load"] > MAX_OTHER_LOAD:
            reasons.append(f"other programs used {pair['other_load']:.0%} of the cores")
        for name, load in pair["idle_load"].items():
            # Counted in clock ticks, so a tick or two beside a short step is not evidence of a spinning thread.
            if load > MAX_IDLE_LOAD and load * pair["trl" if name == "keel" else "keel"]["seconds"] > 3 / CLOCK_TICK:
                reasons.append(f"{name} used {load:.0%} of a core while waiting")
        pair["noise"] = reasons


def summarize(pairs: list[dict]) -> dict:
    """Medians over the given pairs."""

    def median(side: str, key: str) -> float:
        return statistics.median(pair[side][key] for pair in pairs)

    keys = ("seconds", "rollout_seconds", "train_seconds", "cpu_seconds")
    sides = {side: {key: median(side, key) for key in keys} for side in ("keel", "trl")}
    for side in sides.values():
        side["completion_tokens_per_second"] = COMPLETION_TOKENS / side["seconds"]
    return {"pairs": len(pairs), "ratio": statistics.median(pair["ratio"] for pair in pairs)} | sides


def describe_machine(cpus: list[int]) -> dict:
    """What a reader needs to know about the machine to compare numbers."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model,
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "pinned_cpus": cpus,
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


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
    """Runs the whole comparison and returns everything that was measured."""
    cpus = physical_cores(options.threads)
    os.sched_setaffinity(0, cpus)  # inherited by both workers
    environment = worker_environment(options.threads, options.wait_policy)
    trl_command = [str(options.trl_python), str(HERE / "trl_worker.py")]
    workers: list[Worker] = []
    try:
        for name, command in (("keel", [str(options.keel)]), ("trl", trl_command)):
            workers.append(Worker(name, command, environment))
            workers[-1].wait_ready()  # one at a time: neither warms up beside the other
            print(f"{name}: ready {json.dumps(workers[-1].facts)}", flush=True)
        keel, trl = workers
        for _ in range(options.warmup):
            keel.step()
            trl.step()
        print("pair   keel s (rollout + train)     trl s (rollout + train)   ratio  spin ms   others")
        pairs = []
        for number in range(1, options.pairs + 1):
            pairs.append(run_pair(keel, trl, cpus))
            print_pair(number, pairs[-1])
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
    if result["noisy"]:
        print(f"NOISY RUN: fewer than {MIN_CLEAN_PAIRS} clean pairs; do not quote it, run again on an idle machine")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--keel", type=Path, default=ROOT / "build/bench/vs_trl_keel", help="Keel's worker program")
    parser.add_argument("--trl-python", type=Path, default=ROOT / ".deps/trl/bin/python", help="made by setup.sh")
    parser.add_argument("--pairs", type=int, default=7, help="measured pairs of steps")
    parser.add_argument("--warmup", type=int, default=2, help="unmeasured steps of each side")
    parser.add_argument("--threads", type=int, default=2, help="threads and cores of each side")
    parser.add_argument(
        "--wait-policy",
        choices=("passive", "default"),
        default="passive",
        help="OpenMP threads of both sides between parallel regions: sleep at once, or spin first as the library likes",
    )
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
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
