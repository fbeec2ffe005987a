"""Helpers of the program's tests: calls, small runs, and checks of their files.

The program is $KEEL_BINARY, or build/keel of this repository.
"""

import atexit
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from effort import count  # noqa: E402, F401  for the tests
from sections import sections  # noqa: E402, F401

KEEL = os.environ.get("KEEL_BINARY", str(ROOT / "build" / "keel"))
HANG = 600  # seconds; limits the waits of tests, so only a hang takes so long, even on a busy machine
QUICKSTART = str(ROOT / "examples" / "quickstart.yaml")

# A run of about a second: 8 supervised steps (5 + 3 noisy), 4 RL steps of 2 updates, an evaluation before and after, and
# a checkpoint of 100 KB every second step. One thread keeps the order of sums. The entropy bonus makes RL change weights,
# since so small a network seldom gets a reward.
SMALL = {
    "run.threads": 1,
    "model.hidden_size": 16,
    "model.heads": 2,
    "sft.steps": 8,
    "sft.noisy_steps": 3,
    "sft.stop_loss": 0,
    "sft.batch": 8,
    "train.steps": 4,
    "train.prompts_per_step": 4,
    "rollout.samples_per_prompt": 4,
    "train.sequences_per_update": 8,
    "objective.entropy_coefficient": -0.1,
    "eval.prompts": 10,
    "checkpoint.every": 2,
}

# Keys of metrics.jsonl that may differ between two runs of one configuration.
MEASURED = ("time/", "throughput/", "memory/")


def settings(**sections):
    """SMALL and further settings, such as run={"dir": x}, as key=value arguments."""
    values = dict(SMALL)
    for section, keys in sections.items():
        values.update({f"{section}.{key}": value for key, value in keys.items()})
    return [f"{key}={value}" for key, value in values.items()]


def eval_settings(**sections):
    """The same for `keel eval`, without the sampling settings of training."""
    return [setting for setting in settings(**sections) if not setting.startswith("rollout.samples_per_prompt=")]


def environment(**changes):
    """The environment of a call, without variables that change the output; None removes a variable."""
    result = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    for key, value in changes.items():
        result.pop(key, None)
        if value is not None:
            result[key] = value
    return result


class Started:
    """A call of the forking server (Ready), with the parts of subprocess.Popen that tests use. After the end, `memory` is the
    peak in MiB."""

    def __init__(self, command, answers, texts):
        self.args, self.answers, self.texts, self.returncode = command, answers, texts, None
        (self.pid,) = struct.unpack("i", os.read(answers, 4))

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self.answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            status, memory = struct.unpack("ll", os.read(self.answers, 16))
            os.close(self.answers)
            self.returncode, self.memory = os.waitstatus_to_exitcode(status), memory / 1024
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def communicate(self, timeout=None):
        self.wait(timeout)
        return tuple(text.result(timeout) for text in self.texts)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Ready:
    """A server with loaded libraries (ready.cpp), which forks a process for each call. Calls get the environment that the
    server was started with."""

    LIBRARY = pathlib.Path(KEEL).parent / "tests" / "libkeel_ready.so"
    MAX_REQUEST = 150_000  # bytes; a socket accepts about 200,000 at once

    def __init__(self):
        self.environment, self.pool = environment(), concurrent.futures.ThreadPoolExecutor(32)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        loaded = {"LD_PRELOAD": str(self.LIBRARY), "READY_SOCKET": str(theirs.fileno())}
        self.process = subprocess.Popen([KEEL], env={**self.environment, **loaded}, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        atexit.register(self.end)

    def end(self):
        self.socket.close()
        self.process.wait()

    def start(self, request, command, output):
        """Starts a call with its output in a file, or as strings of communicate()."""
        answers, answers_end = os.pipe()
        ends, texts = [], []
        if output is None:
            (out, out_end), (err, err_end) = os.pipe(), os.pipe()
            ends, texts = [out_end, err_end], [self.pool.submit(lambda end: open(end).read(), end) for end in (out, err)]
        nothing = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(self.socket, [request], [nothing, *(ends or 2 * [output.fileno()]), answers_end])
        for end in (nothing, *ends, answers_end):
            os.close(end)
        return Started(command, answers, texts)


_ready = []  # the server, started by the first call of this process


os.register_at_fork(after_in_child=_ready.clear)  # a child starts its own


def begin(arguments, cwd=None, env=None, output=None):
    """Starts the program with its output in a file, or as strings of communicate()."""
    command, env = [KEEL, *map(str, arguments)], env or environment()
    request = b"".join(os.fsencode(word) + b"\0" for word in (cwd or os.getcwd(), *command[1:]))
    if not _ready and Ready.LIBRARY.exists():
        _ready.append(Ready())
    if _ready and len(request) < Ready.MAX_REQUEST and env == _ready[0].environment:
        return _ready[0].start(request, command, output)
    return subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output or subprocess.PIPE,
                            stderr=output or subprocess.PIPE, text=True)


def call(arguments, cwd=None, env=None, timeout=HANG):
    """Runs the program. The result has returncode, stdout and stderr (strings), and memory, the peak in MiB."""
    process = begin(arguments, cwd, env)
    try:
        texts = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    result = subprocess.CompletedProcess(process.args, process.returncode, *texts)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # of this or an earlier child
    result.memory = getattr(process, "memory", peak)
    return result


def keel(*arguments, cwd=None, env=None, timeout=HANG, **options):
    """Runs the program. The result has returncode, stdout and stderr (strings)."""
    if not options:
        return call(arguments, cwd, env, timeout)
    return subprocess.run([KEEL, *map(str, arguments)], cwd=cwd, env=env or environment(), timeout=timeout,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def train(run, /, *flags, config=QUICKSTART, prefix=(), cwd=None, **sections):
    """keel train of a small run in the folder `run`; `prefix` is a command that starts it."""
    sections["run"] = {**sections.get("run", {}), "dir": run}
    arguments = ["train", str(config), *settings(**sections), *flags]
    if not prefix:
        return call(arguments, cwd)
    return subprocess.run([*prefix, KEEL, *arguments], cwd=cwd, env=environment(), timeout=HANG, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start(output, *arguments):
    """Starts the program in the background, with its output in a file; returns the process."""
    with open(output, "w") as file:
        process = begin(arguments, output=file)
    process.output = pathlib.Path(output)
    return process


def start_train(run, /, *flags, **sections):
    """Like train(), in the background with its output in a file next to the run."""
    sections["run"] = {**sections.get("run", {}), "dir": run}
    return start(f"{run}.output", "train", QUICKSTART, *settings(**sections), *flags)


def wait_for(process, condition, pause=0.002):
    """Waits for the condition. Returns False if the process ends before."""
    while process.poll() is None:
        if condition():
            return True
        if pause:
            time.sleep(pause)
    return False


def state_of(process):
    """The letter of /proc for the state of this process: R for running, S for sleeping, T for stopped, Z for a zombie. It is Z for a process
    that is gone."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


class Descendants:
    """The descendants of this process, which becomes a child subreaper. Create it before they start."""

    def __init__(self, root=None):
        self.root = root or os.getpid()
        ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

    def all(self):
        """The running ones, without zombies."""
        parents = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2] if entry.name.isdigit() else "Z0"
            except OSError:
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
        found = {self.root}
        while more := {process for process, parent in parents.items() if parent in found} - found:
            found |= more
        return found - {self.root}

    def running(self, words):
        """Those whose command line contains these bytes."""
        return [process for process in self.all() if words in self.command(process)]

    @staticmethod
    def command(process):
        try:
            return pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            return b""


def read_jsonl(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def metrics(run):
    """The rows of metrics.jsonl without measured times."""
    return [{k: v for k, v in row.items() if not k.startswith(MEASURED)}
            for row in read_jsonl(pathlib.Path(run) / "metrics.jsonl")]


def checkpoints(run):
    """Names of the finished checkpoints, oldest first."""
    folder = pathlib.Path(run) / "checkpoints"
    return sorted(p.name for p in folder.glob("step-*") if re.fullmatch(r"step-\d+", p.name)) if folder.exists() else []


def tree(folder):
    """All files below a folder with their bytes."""
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def final_files(run):
    """Weights and moments of the last checkpoint: model, optimizer and critic, if any."""
    last = pathlib.Path(run) / "checkpoints" / checkpoints(run)[-1]
    return sorted(str(path.relative_to(run)) for path in last.rglob("*.safetensors"))


def difference(run, other):
    """The first bitwise difference of two runs in metrics (without times), samples, weights and optimizer state of the last
    checkpoints; None if there is none."""
    rows, wanted = metrics(run), metrics(other)
    for row, expected in zip(rows, wanted):
        if row != expected:
            return f"metrics.jsonl has the row\n{row}, expected\n{expected}"
    if len(rows) != len(wanted):
        return f"metrics.jsonl has {len(rows)} rows, expected {len(wanted)}"
    for name in ("samples.jsonl", *final_files(other)):
        path = pathlib.Path(run) / name
        if not path.exists() or path.read_bytes() != (pathlib.Path(other) / name).read_bytes():
            return f"{name} differs"
    return None


def _crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc32c_table()


def crc32c(data):
    """CRC-32C by its definition, independent of the program."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return f"{value ^ 0xFFFFFFFF:08x}"


def verify_checkpoint(folder):
    """Raises AssertionError unless every file matches the manifest."""
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {"manifest.json"}
    assert names == set(manifest["files"]), (folder, names)
    assert {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"} <= names, names
    for name, entry in manifest["files"].items():
        data = (folder / name).read_bytes()
        assert len(data) == entry["bytes"], (folder, name)
        assert crc32c(data) == entry["crc32c"], (folder, name)


def change_state(checkpoint, without=(), format=None, config=None, unset=(), **fields):
    """Changes a checkpoint's state and settings ({section: {key: value}}), and writes a matching manifest, optionally with another
    format number. `unset` removes settings, as if an older program had written the checkpoint."""
    checkpoint = pathlib.Path(checkpoint)
    state = json.loads((checkpoint / "state.json").read_text())
    state["state"].update(fields)
    for name in without:
        del state["state"][name]
    for section, key in (name.split(".") for name in unset):
        del state["config"][section][key]
    for section, values in (config or {}).items():
        state["config"][section].update(values)
    (checkpoint / "state.json").write_text(json.dumps(state))
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["format"] = format or manifest["format"]
    data = (checkpoint / "state.json").read_bytes()
    manifest["files"]["state.json"] = {"bytes": len(data), "crc32c": crc32c(data)}
    del manifest["crc32c"]
    manifest["crc32c"] = crc32c(json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode())
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


class Test(unittest.TestCase):
    """A test with its own temporary folder."""

    maxDiff = 2000
    final_files = staticmethod(final_files)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keel_cli_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def assert_exit(self, result, code, *parts):
        """Checks the exit code, and every part in stdout (stderr if the code is not 0)."""
        self.assertEqual(result.returncode, code, f"{result.stdout[-1500:]}\n{result.stderr[-1500:]}")
        for part in parts:
            self.assertIn(part, result.stderr if code else result.stdout)

    def assert_refused(self, result, code, *parts):
        """Checks the exit code and a single message on stderr, after the device, that starts with the program's name and has
        every part."""
        self.assert_exit(result, code)
        self.assertRegex(result.stderr, r"^(device: .*\n)?keel: ")
        self.assertNotIn("internal error", result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def assert_same_run(self, run, other):
        self.assertIsNone(difference(run, other))


class _Timed(unittest.TextTestResult):
    """Prints the time of each test."""

    def startTest(self, test):
        self.started = time.perf_counter()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.stream.writeln(f"    {time.perf_counter() - self.started:.1f} s")


def main():
    if not os.access(KEEL, os.X_OK):
        print(f"{KEEL} is not there; build it, or set KEEL_BINARY")
        sys.exit(77)
    unittest.main(verbosity=2, testRunner=unittest.TextTestRunner(verbosity=2, resultclass=_Timed))
