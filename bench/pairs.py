"""Alternating measurement of two worker programs, with a check for other load on the machine.

A worker prepares itself, prints "ready" and optionally a JSON object about itself, and answers each line "step" with one
line of JSON. It sleeps between steps.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

STARTUP_SECONDS = 300.0
STEP_SECONDS = 300.0
MAX_SPIN_DRIFT = 0.05
MAX_OTHER_LOAD = 0.05
MAX_IDLE_LOAD = 0.05
# The pause between two steps, longer than idle OpenMP threads spin.
SETTLE_SECONDS = 0.05
CLOCK_TICK = os.sysconf("SC_CLK_TCK")


class WorkerError(Exception):
    """A worker died, hung, or violated the protocol."""


def physical_cores(count: int) -> list[int]:
    """`count` CPUs of this process on different physical cores."""
    chosen, used = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = path.read_text().strip() if path.exists() else str(cpu)
        if core not in used:
            used.add(core)
            chosen.append(cpu)
    if len(chosen) < count:
        raise SystemExit(f"this process may use {len(chosen)} cores, but --threads is {count}; lower --threads")
    return chosen[:count]


def worker_environment(threads: int, wait_policy: str) -> dict[str, str]:
    """The environment of both workers: equal thread counts, and the same OpenMP wait policy."""
    counts = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"]
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    inherited = {name: value for name, value in os.environ.items() if name not in waiting}
    fixed = {name: str(threads) for name in counts} | {"OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "FALSE"}
    return inherited | fixed | (waiting if wait_policy == "passive" else {})


class Worker:
    """One side of the comparison: a process that answers each "step" line with one line of JSON, with these keys."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], answers: set[str]):
        self.name = name
        self.answers = answers
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
        """Waits until the worker is ready, and stores its description, if any."""
        line = self.read_line(STARTUP_SECONDS)
        word, _, facts = line.partition(" ")
        if word != "ready":
            raise self.failure(f'answered {line!r} instead of "ready"')
        self.facts = self.parse(facts) if facts.strip() else {}

    def step(self) -> dict:
        """One step, timed here so that both sides use the same clock."""
        cpu_before = self.cpu_seconds()
        started = time.perf_counter()
        try:
            self.process.stdin.write(b"step\n")
        except BrokenPipeError:
            raise self.failure("exited early") from None
        line = self.read_line(STEP_SECONDS)
        seconds = time.perf_counter() - started
        answer = self.parse(line)
        missing = self.answers - answer.keys()
        if missing:
            raise self.failure(f"answered {line!r}, which lacks {', '.join(sorted(missing))}")
        return answer | {"seconds": seconds, "cpu_seconds": self.cpu_seconds() - cpu_before}

    def read_line(self, timeout: float) -> str:
        deadline = time.monotonic() + timeout
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self.failure(f"gave no answer within {timeout:.0f} s")
            chunk = os.read(descriptor, 65536)
            if not chunk:
                raise self.failure("exited early")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode(errors="replace")

    def parse(self, text: str) -> dict:
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise self.failure(f"answered {text!r} instead of a JSON object")
        return value

    def cpu_seconds(self) -> float:
        """Processor time used so far by all threads of the worker."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICK

    def peak_bytes(self) -> int:
        """The peak memory of the worker since its start."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def failure(self, what: str) -> WorkerError:
        """Stops the worker and returns an error with the end of its standard error."""
        try:
            code = self.process.wait(timeout=1)  # a crashed worker has an exit status
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.stderr.seek(0)
        tail = self.stderr.read().decode(errors="replace").splitlines()[-40:]
        shown = "\n".join(f"  | {line}" for line in tail) or "  | (empty)"
        status = "" if code == -9 else f" (exit status {code})"
        return WorkerError(f"{self.name}: {what}{status}; its standard error ends with\n{shown}")

    def close(self) -> None:
        """Stops the worker by closing its input; kills it if it does not exit."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def busy_seconds(cpus: list[int]) -> float:
    """Busy time of these CPUs, including time stolen by a hypervisor."""
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in {f"cpu{cpu}" for cpu in cpus}:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
            total += user + nice + system + irq + softirq + steal
    return total / CLOCK_TICK


def spin_seconds(threads: int) -> float:
    """Time of a fixed computation on all benchmark cores at once, which grows with other load.
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


def run_pair(keel: Worker, peer: Worker, cpus: list[int]) -> dict:
    """One step of each side, with the spin loop before and after and the other load on the cores."""
    spin_before = spin_seconds(len(cpus))
    started, busy = time.perf_counter(), busy_seconds(cpus)
    result, idle_cpu = {}, {}
    for worker, waiting in ((keel, peer), (peer, keel)):
        time.sleep(SETTLE_SECONDS)
        waiting_cpu = waiting.cpu_seconds()
        result[worker.name] = worker.step()
        idle_cpu[waiting.name] = waiting.cpu_seconds() - waiting_cpu
    wall = time.perf_counter() - started
    own = sum(result[w.name]["cpu_seconds"] + idle_cpu[w.name] for w in (keel, peer))
    other = max(0.0, busy_seconds(cpus) - busy - own)
    return result | {
        "ratio": result[peer.name]["seconds"] / result["keel"]["seconds"],
        "spin_before": spin_before,
        "spin_after": spin_seconds(len(cpus)),
        "other_load": other / (wall * len(cpus)),
        "idle_load": {
            "keel": idle_cpu["keel"] / result[peer.name]["seconds"],
            peer.name: idle_cpu[peer.name] / result["keel"]["seconds"],
        },
    }


def mark_noise(pairs: list[dict]) -> None:
    """Adds to each pair the reasons why it is noisy. The spin loop is compared within the pair: a machine that is evenly
    slower for a while slows both sides alike, and steady load from other programs is counted directly."""
    for pair in pairs:
        drift = pair["spin_after"] / pair["spin_before"] - 1
        reasons = []
        if abs(drift) > MAX_SPIN_DRIFT:
            reasons.append(f"spin loop moved {drift:+.0%}")
        if pair["other_load"] > MAX_OTHER_LOAD:
            reasons.append(f"other programs used {pair['other_load']:.0%} of the cores")
        for name, load in pair["idle_load"].items():
            (other,) = pair["idle_load"].keys() - {name}
            # The resolution is a clock tick, so one or two ticks do not prove a spinning thread.
            if load > MAX_IDLE_LOAD and load * pair[other]["seconds"] > 3 / CLOCK_TICK:
                reasons.append(f"{name} used {load:.0%} of a core while waiting")
        pair["noise"] = reasons


def describe_machine(cpus: list[int]) -> dict:
    """A description of the machine."""
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


def compare(
    description: str, program: Path, devices: list[str], measure: Callable[[argparse.Namespace, list[int]], None]
) -> int:
    """The command line that compares the Keel worker `program` with transformers."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keel", type=Path, default=program, help="Keel's worker program")
    parser.add_argument("--python", type=Path, default=root / ".deps/trl/bin/python", help="Python with transformers")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=devices, default=devices[0])
    options = parser.parse_args()
    for needed, remedy in ((options.keel, "build it"), (options.python, "run bench/vs_trl/setup.sh")):
        if not os.access(needed, os.X_OK):
            parser.error(f"{needed} is not an executable file; {remedy} first")
    cpus = physical_cores(options.threads)
    os.sched_setaffinity(0, cpus)  # inherited by both workers
    machine = describe_machine(cpus)
    print(f"{machine['cpu']} ({machine['architecture']}), {options.threads} threads, {machine['date']}", flush=True)
    try:
        measure(options, cpus)
    except WorkerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
