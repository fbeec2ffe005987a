"""Every system call on a run's folder may fail, be interrupted, write partially, or be the last one. strace makes single calls fail or
kills the process at them, while a run starts, continues and saves, and while one is replaced. A preloaded library (stingy.c) makes all
reads and writes partial. The order of the calls of a save must leave a complete checkpoint after a power cut between any two of them."""

import collections
import functools
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import typing

import trials
from trials import require, support

# Machines have different variants of a call: ARM has no rename, mkdir and unlink without "at".
CALLS = ("openat", "close", "read", "pread64", "write", "fsync", "ftruncate", "rename", "renameat", "renameat2", "mkdir",
         "mkdirat", "unlink", "unlinkat", "rmdir", "getdents64", "symlink", "symlinkat")
KILL, FULL, BROKEN, INTERRUPTED = "signal=KILL", "error=ENOSPC", "error=EIO", "error=EINTR"
WORDS = {FULL: "No space left on device", BROKEN: "Input/output error", INTERRUPTED: "Interrupted system call"}
# The faults of each call; "create" is an openat that creates. Kills at read-only calls are covered by the random kills.
FAULTS = {"write": (KILL, FULL, BROKEN, INTERRUPTED), "fsync": (KILL, FULL, BROKEN, INTERRUPTED),
          "ftruncate": (KILL, FULL, BROKEN, INTERRUPTED), "create": (KILL, FULL, BROKEN, INTERRUPTED),
          "rename": (KILL, FULL, BROKEN), "symlink": (KILL, FULL, BROKEN), "mkdir": (KILL, FULL, BROKEN), "unlink": (KILL, BROKEN),
          "rmdir": (KILL, BROKEN), "openat": (BROKEN, INTERRUPTED), "read": (BROKEN, INTERRUPTED),
          "pread64": (BROKEN, INTERRUPTED), "getdents64": (BROKEN,), "close": (BROKEN, INTERRUPTED)}
WRITING = ("write", "fsync", "ftruncate", "create", "rename", "symlink", "mkdir")  # failures of these must be reported
READING, RECORDED = ("openat", "read", "pread64"), (".jsonl", "/config.yaml", "/used.json")  # and of these on recorded files
# One or two of three steps with their saves, two evaluations and the report.
TRAIN = {"sft": {"steps": 2, "noisy_steps": 0}, "train": {"steps": 3}, "eval": {"prompts": 4},
         "checkpoint": {"every": 1, "keep": 2, "best_metric": "auto", "background": "false"},
         "record": {"tensorboard": "true"}}
# A second thread saves, and a third one samples with staleness 1.
BESIDE = {**TRAIN, "checkpoint": {**TRAIN["checkpoint"], "background": "true"}, "rollout": {"staleness": 1}}


def strace(log, *options):
    return ["strace", "-f", "-y", "-o", str(log), "-e", f"trace=?{',?'.join(CALLS)}", *options]


def require_strace():
    if not shutil.which("strace") or subprocess.run(
            [*strace("/dev/null"), "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise trials.Skipped("no strace, or it may not trace here")


def lines_of(log):
    """The calls of a trace, each joined into one line: strace splits calls that another thread interrupts."""
    begun = {}
    for line in log.read_text(errors="replace").splitlines():
        thread, resumed = line.split(" ", 1)[0], re.search(r"<\.\.\. \w+ resumed>(.*)", line)
        if line.endswith("<unfinished ...>"):
            begun[thread] = line.removesuffix("<unfinished ...>")
        else:
            yield begun.pop(thread, "") + resumed[1] if resumed else line


def followed(line):
    """The name of a traced call and its line, with names relative to a folder made absolute."""
    call = re.match(r"\d+\s+(\w+)\(", line)
    if not call or not re.search("at2?$", call[1]):
        return call and call[1], line
    whole = lambda name: f'"{os.path.normpath(os.path.join(name[1], name[2]))}"'
    return call[1], re.sub(r'(?:\d+|AT_FDCWD)<([^>]*)>, "([^"]*)"', whole, line)


def kind_of(name):
    """The kind of a call, with or without "at"."""
    return re.sub("(?<!open)at2?$", "", name)


class Call(typing.NamedTuple):
    name: str
    number: int  # index among the calls of this name in its thread, from 1, as in strace
    path: str
    kind: str  # its key in FAULTS
    thread: str


def calls_on(folder, lines):
    """The calls in the lines of a trace that touch a folder."""
    seen, found = collections.Counter(), []
    for line in lines:
        thread, (name, line) = line.split()[0], followed(line)
        if not name:
            continue
        seen[thread, name] += 1
        path = re.search(rf'{re.escape(str(folder))}(?=[/">])[^">]*', line)
        if path:
            kind = "create" if name == "openat" and "O_CREAT" in line else kind_of(name)
            found.append(Call(name, seen[thread, name], path[0], kind, thread))
    return found


def without_repetitions(calls):
    """Keeps the first, a middle and the last of consecutive equal calls on the same file."""
    kept = []
    for _, group in itertools.groupby(calls, lambda call: (call.name, call.path)):
        alike = list(group)
        kept += [alike[i] for i in sorted({0, len(alike) // 2, len(alike) - 1})]
    return kept


class Scenario:
    """A command to run with faults, and a copy of its folder from before."""

    def __init__(self, folder, flag, before=None, settings=TRAIN):
        self.folder, self.flag, self.before, self.settings = folder, flag, before, settings
        self.whole, self.log = folder / "run", folder / "log"

    def copy_to(self, run):
        if self.before:
            shutil.copytree(self.before, run)

    def train(self, run, log, *options):
        flags = [self.flag] if self.flag else []
        return support.train(run, *flags, prefix=strace(log, *options), **self.settings)

    def play(self):
        """Runs without a fault, for the expected result and the list of calls."""
        self.folder.mkdir()
        self.copy_to(self.whole)
        result = self.train(self.whole, self.log)
        require(result.returncode == 0, trials.output(result))

    def calls(self):
        found = calls_on(self.whole, lines_of(self.log))
        require({"write", "fsync", "rename", "symlink", "create"} <= {call.kind for call in found}, "calls not seen:", found)
        if self.settings is BESIDE:
            # The fault hits the call of this number in each thread. The first thread opens, reads and closes many files at
            # its start, so low numbers would hit one of those.
            save = [call for call in found if call.thread != found[0].thread and call.kind in (*WRITING, "unlink", "rmdir")]
            require(save, "no call of another thread")
            return [call for call in save if call.kind != "create"]
        if self.flag == "--resume":
            return found
        # Later calls equal those of a continued run: only the start, and removals before it, differ.
        if self.flag == "--overwrite":
            return [call for call in found if call.kind in ("unlink", "rmdir")]
        return list(itertools.takewhile(lambda call: not call.path.endswith("/checkpoints/LATEST.partial"), found))


def fault_trial(scenario, fault, call):
    def inject(trial):
        for attempt in range(4):
            run, log = trial.folder / f"run{attempt}", trial.folder / "log"
            scenario.copy_to(run)
            result = scenario.train(run, log, "-e", f"inject={call.name}:{fault}:when={call.number}")
            lines = [line for line in lines_of(log) if "(INJECTED)" in line]
            hit = calls_on(run, lines)
            # The number of printed lines depends on time, so the call may have been a write to the output.
            if hit or (fault == KILL and result.returncode == -9):
                break
        else:
            trial.seen["missed"] += 1
            return
        # strace counts per thread: a write to the output may have had the same number.
        unprinted = {int(found[1]) for line in lines if (found := re.match(r"\d+\s+write\(([12])<", line))}
        try:
            bear(trial, scenario, fault, hit, run, result, unprinted)
        except AssertionError as error:
            where = f"{scenario.folder.name}, {fault} at {call.name} number {call.number} ({call.path}) {lines}"
            raise AssertionError(f"{where}\n{error}\n{trials.output(result)}") from None
    return inject


def bear(trial, scenario, fault, hit, run, result, unprinted):
    """Checks the reaction to the faults and continues the run. `unprinted`: writes to the output failed, too."""
    code = result.returncode
    if fault == KILL:
        require(code == -9, "not killed")
    elif fault == INTERRUPTED:
        # The system restarts writes to the output (SA_RESTART); the program would report a partial one.
        require(code == 0 or (unprinted and code == 4), "an interrupted call is to be made again")
    elif any(call.kind in WRITING for call in hit):
        require(code == 4, "expected 4")
    else:  # an unreadable file counts as damaged; a file that cannot be removed may stay
        require(code in (0, 3, 4), "expected 0, 3 or 4")
        recorded = [call for call in hit if call.kind in READING and call.path.endswith(RECORDED)]
        require(code != 0 or not recorded, "read in part without a word")
    if code in (3, 4) and fault != INTERRUPTED and 2 not in unprinted:
        require(re.match(r"(device: .*\n)?keel: ", result.stderr), "no message")
        require(str(run) in result.stderr and WORDS[fault] in result.stderr, "neither the path nor the system's words")
    flag = "--overwrite"
    if scenario.flag != "--overwrite":  # otherwise the old run is partly removed
        trials.require_sound(run)
        require(not scenario.before or trials.newest(run) >= trials.newest(scenario.before), "a checkpoint is gone")
        flag = trials.resume_flag(run)
    if code != 0:
        again = support.train(run, flag, **scenario.settings)
        require(again.returncode == 0, f"and then {flag}:", trials.output(again))
    trials.require_finished(run, scenario.whole)
    trial.seen[f"{fault.partition('=')[2]} {'borne' if code == 0 else 'stopped'}"] += 1


@functools.cache
def scenarios(folder):
    require_strace()
    folder.mkdir()
    # Two steps remain: a background save of the second to last, and one at the end.
    half, beside = (trials.stopped(folder / name, 1, support.QUICKSTART, *support.settings(**settings), most=1)
                    for name, settings in (("half", TRAIN), ("half beside", BESIDE)))
    for run in (half, beside):
        (run / "checkpoints" / "best").unlink()  # so that a continued run creates the link
    found = [Scenario(folder / "a run that starts", None), Scenario(folder / "a run that continues", "--resume", half),
             Scenario(folder / "a run that replaces one", "--overwrite", half),
             Scenario(folder / "a run that saves in the background", "--resume", beside, BESIDE)]
    for scenario in found:
        scenario.play()
    return found


def faults(folder, count):
    places = [(scenario, fault, call) for scenario in scenarios(folder.parent / "scenarios")
              for call in without_repetitions(scenario.calls()) for fault in FAULTS[call.kind]]
    if count and count < len(places):
        places = random.Random(0).sample(places, count)
    return [fault_trial(*place) for place in places]


def order(folder, count):
    """A trial is the trace of a scenario; it counts the renames of files and folders."""

    def check(scenario):
        def read(trial):
            trial.seen["renames"] += Order(scenario.whole, scenario.log).renames
        return read

    return [check(scenario) for scenario in scenarios(folder.parent / "scenarios")][:count]


class Order:
    """Follows a trace: a file is on the disk before it gets its final name, and that name is on the disk before the next rename."""

    def __init__(self, run, log):
        self.run, self.renames = str(run), 0
        self.rows, self.synced = collections.Counter(), {}  # writes to each row file, and those before its last fsync
        self.at_save = {}  # synced writes when a checkpoint was renamed
        self.unsynced = set()  # files and folders with changes that a power cut may undo
        self.new_names = set()  # the renamed ones
        for line in lines_of(log):
            name, line = followed(line)
            if name and self.run in line and not re.search(r"= -1 E", line):
                self.follow(kind_of(name), line.partition("(")[2], line)
        require(self.renames > 0, "no renames in", log)
        require(not self.new_names, "names that a power cut may undo:", self.new_names)
        self.check_rows(pathlib.Path(run))

    def check_rows(self, run):
        """A checkpoint requires its rows to be on the disk before it: one write each; later writes may follow."""
        for name, synced in self.at_save.items():
            manifest = trials.read(run / "checkpoints" / name / "manifest.json")
            for key, digits in json.loads(manifest)["lines_crc32c"].items() if manifest else ():
                path = run / ("log.txt" if key == "log" else f"{key}.jsonl")
                later = self.rows[str(path)] - synced.get(str(path), 0)
                require(len(digits) // 8 <= path.read_bytes().count(b"\n") - later, path, "was not on the disk before", name)

    def follow(self, call, rest, line):
        descriptor = re.match(r"\d+<([^>]*)>", rest)
        paths = [path for path in re.findall(r'"([^"]*)"', rest) if path.startswith(self.run)]
        if call in ("write", "ftruncate") and descriptor:
            self.unsynced.add(descriptor[1])
            self.rows[descriptor[1]] += call == "write"
        elif call == "fsync":
            self.unsynced.discard(descriptor[1])
            self.synced[descriptor[1]] = self.rows[descriptor[1]]
            self.new_names = {path for path in self.new_names if os.path.dirname(path) != descriptor[1]}
        elif call == "mkdir" or (call == "openat" and "O_CREAT" in rest):
            self.unsynced.add(os.path.dirname(paths[0]))
        elif call == "rename":
            self.rename(*paths, line)

    def rename(self, source, target, line):
        inside = {path for path in self.unsynced if f"{path}/".startswith(f"{source}/")}
        require(not inside, "not on the disk before it gets its name:", inside, line)
        require(not self.new_names, "a name that a power cut may undo before the next is given:", self.new_names, line)
        if re.search(r"/step-\d+$", target):
            self.at_save[os.path.basename(target)] = dict(self.synced)
        self.renames += 1
        self.unsynced |= {os.path.dirname(source), os.path.dirname(target)}
        self.new_names.add(target)


def compiled_stingy(folder):
    library = folder / "stingy.so"
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise trials.Skipped("no C compiler")
    source = pathlib.Path(__file__).with_name("stingy.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source, "-ldl"], check=True)
    return library


def short_calls(folder, count):
    """A trial is a run whose reads and writes are all partial or first interrupted (EINTR)."""
    library, whole = compiled_stingy(folder), trials.unbroken(folder / "whole", **BESIDE)

    def starve(trial):
        run, report = trial.folder / "run", trial.folder / "report"
        for flags, steps in (((), 1), (("--resume",), TRAIN["train"]["steps"])):
            prefix = ["env", f"LD_PRELOAD={library}", f"STINGY_FOLDER={run}", f"STINGY_REPORT={report}",
                      f"STINGY_SEED={trial.draws.randrange(1 << 30)}"]
            result = support.train(run, *flags, prefix=prefix, **{**BESIDE, "train": {"steps": steps}})
            require(result.returncode == 0, trials.output(result))
            for line in report.read_text().splitlines():
                name, times = line.split()
                trial.seen[name] += int(times)
        for name in support.final_files(whole):
            require((run / name).read_bytes() == (whole / name).read_bytes(), name, "differs")

    return [starve] * count
