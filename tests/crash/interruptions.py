"""Kills (SIGKILL) and signals (SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGXCPU) at any moment of a run. A killed run keeps every finished
checkpoint and continues to the same bits. A run that gets another signal saves, prints the command to continue and exits with 75; that
command leads to the same bits."""

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import trials
from trials import require, support

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGXCPU)
MAX_KILLS = 4  # of one run


class Moments:
    """When to send the signal. Each function waits for its moment of a process and returns False if the process ended first."""

    def __init__(self, folder):
        started = time.monotonic()
        process = support.start_train(folder / "whole", **trials.RUN)
        self.whole = folder / "whole"
        support.wait_for(process, self.whole.exists)
        self.start_up = time.monotonic() - started
        require(process.wait() == 0, "the unbroken run:", process.output.read_text())
        self.duration = time.monotonic() - started

    @staticmethod
    def after(process, seconds):
        end = time.monotonic() + seconds
        return support.wait_for(process, lambda: time.monotonic() >= end, pause=0.0005)

    def any_time(self, process, run, draws):
        return self.after(process, draws.uniform(0, self.duration))

    def start(self, process, run, draws):
        return self.after(process, draws.uniform(0, self.start_up))

    def steps(self, process, run, draws):
        """During a step, or the evaluation after it."""
        wanted = rows(run) + draws.randint(1, 6)
        return support.wait_for(process, lambda: rows(run) >= wanted) and self.after(process, draws.uniform(0, 0.05))

    def save(self, process, run, draws):
        """While a checkpoint is written, not always the first."""
        for _ in range(draws.randint(1, 3)):
            if not (support.wait_for(process, lambda: not half_written(run), pause=0.0002) and
                    support.wait_for(process, lambda: half_written(run), pause=0.0002)):
                return False
        return self.after(process, draws.uniform(0, 0.004))


def rows(run):
    return trials.read(run / "metrics.jsonl").count(b"\n")


def half_written(run):
    try:
        return any(name.endswith(".partial") for name in os.listdir(run / "checkpoints"))
    except OSError:  # missing, or being replaced
        return False


def struck(trial, moments, name, process, run, number):
    """Whether the signal hit the running process at that moment. Checks that saved checkpoints stay."""
    if not getattr(moments, name)(process, run, trial.draws):
        return False
    saved, sent = trials.newest(run), time.monotonic()
    process.send_signal(number)
    try:
        code = process.wait(timeout=support.HANG)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{name}: still there {support.HANG} s after it was asked to stop") from None
    trial.waited(time.monotonic() - sent)
    trials.require_sound(run)
    require(trials.newest(run) >= saved, f"{saved} was finished and is gone")
    return code != 0


def begin(run, flags):
    """Starts or continues a run, from the newest checkpoint if there is one."""
    process = support.start_train(run, *flags, **trials.RUN)
    process.expected = f"resumed from {run}/checkpoints/{trials.newest(run)}\n" if "--resume" in flags else ""
    return process


def require_end(process, run, whole):
    code, output = process.wait(), process.output.read_text()
    require(code == 0, "the run that was left alone ended with", code, output)
    require(process.expected in output, "expected", process.expected, "in", output)
    trials.require_finished(run, whole)


def killed_run(trial, moments, run, wanted):
    """One run with at most this many kills; returns their number."""
    flags, kills = (), 0
    while True:
        process = begin(run, flags)
        name = trial.draws.choice(("any_time", "steps", "save"))
        if kills == wanted or not struck(trial, moments, name, process, run, signal.SIGKILL):
            require_end(process, run, moments.whole)
            return kills
        require(process.returncode == -signal.SIGKILL, "ended with", process.returncode, process.output.read_text())
        kills += 1
        trial.seen[name.replace("_", " ")] += 1
        flags = (trials.resume_flag(run),)


def kills(folder, count):
    moments = Moments(folder)

    def trial_of(wanted):
        def kill(trial):
            left, runs = wanted, 0
            while left > 0:
                runs += 1
                require(runs < 20, "runs end before they can be killed")
                left -= killed_run(trial, moments, trial.folder / f"run{runs}", left)
        return kill

    planned = []
    for wanted in itertools.cycle(range(1, MAX_KILLS + 1)):
        if count <= 0:
            return planned
        planned.append(trial_of(min(wanted, count)))
        count -= wanted


def stopped_run(trial, moments, half, number, run):
    """Sends the signal once to a new or resumed run; the printed command then leads to the same bits. False if the signal came too late,
    or before the program handled signals."""
    if trial.draws.random() < 1 / 3:
        shutil.copytree(half, run)
    resumed = run.exists()
    process = begin(run, ("--resume",) if resumed else ())
    name = trial.draws.choice(("any_time", "start", "steps", "save"))
    if not struck(trial, moments, name, process, run, number):
        require_end(process, run, moments.whole)
        return False
    output, written = process.output.read_text(), run.exists() and any(run.iterdir())
    where = f"{signal.Signals(number).name} ({name}{', resumed' if resumed else ''}):"
    if process.returncode == -number and (not written or resumed and not output):
        # Nothing is lost: the program was still loading or preparing.
        trial.seen["before there was a run"] += 1
        return False
    require(process.returncode == 75, where, "ended with", process.returncode, output)
    saved = re.search(r"interrupted at step (\d+); saved (.*)\n(continue with: keel (.*))", output)
    require(saved or resumed, where, "the run does not print what it saved and how to continue:", output)
    if saved:
        path = f"{run}/checkpoints/{trials.newest(run)}"
        require(saved[2] == path and path.endswith(f"-{int(saved[1]):06d}"), where, f"{path} is the newest", output)
        result = support.keel(*shlex.split(saved[4]))
    else:
        result = support.train(run, "--resume", **trials.RUN)
    require(result.returncode == 0, where, output, trials.output(result))
    trials.require_finished(run, moments.whole)
    trial.seen[signal.Signals(number).name] += 1
    return True


def signals(folder, count):
    moments = Moments(folder)
    half = trials.stopped(folder / "half", 3, support.QUICKSTART, *support.settings(**trials.RUN))

    def trial_of(number):
        def ask_to_stop(trial):
            runs = (trial.folder / f"run {i}" for i in range(20))  # a path with a space
            require(any(stopped_run(trial, moments, half, number, run) for run in runs), "no signal finds its run")
        return ask_to_stop

    return [trial_of(SIGNALS[i % len(SIGNALS)]) for i in range(count)]
