"""Crash tests of runs, repeated as often as wanted: kills, faults, damage, full disks and signals.

    make test-crash                                   the whole: up to two hours on 2 busy cores, a quarter of one on 16
    make test-crash JOBS=16                           so many trials at the same time
    make test-crash KINDS="kills flips" KILLS=900     some kinds, other counts
    make test-crash KINDS=kills DEVICE=cuda           kills and signals of runs on a GPU, in bf16; PRECISION=fp16 in fp16
    tests/crash/run.py --short                        what `make test` runs
    tests/crash/run.py --trial 137 flips              one trial again; SEED=... where it was not 1

Each kind prints how often it tried (n), how often the program failed and, after no failure, the bound on the rate of
failures that n trials give with 95 % confidence (3/n). The end is 0 where nothing failed.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import damage
import disks
import faults
import interruptions
import resumptions
import trials
from trials import support

# Name, function, number of trials in the full form (None: all) and in the short form.
KINDS = {
    "kills": (interruptions.kills, 215, 6),
    "signals": (interruptions.signals, 100, 5),
    "resumptions": (resumptions.resumptions, None, 4),
    "faults": (faults.faults, None, support.count(6, 16)),
    "order": (faults.order, None, None),
    "short_calls": (faults.short_calls, 5, 1),
    "flips": (damage.flips, 1000, support.count(8, 16)),
    "truncations": (damage.truncations, 200, 8),
    "losses": (damage.losses, None, 4),
    "disks": (disks.disks, 60, 3),
}
ON_A_GPU = ("kills", "signals")  # the other kinds are about files, on any device
SHOWN = 10  # printed failures per kind
_found = []  # the trials of a kind, for the processes that are forked to run them


def attempt(kind, number, seed, folder):
    """Returns a trial's observations, its longest wait, and its error."""
    trial = trials.Trial(tempfile.mkdtemp(prefix=f"{kind}_{number}_", dir=folder), f"{seed} {kind} {number}")
    problem = None
    try:
        _found[number](trial)
    except Exception as error:  # an error of the harness is a failure too
        problem = f"{kind} {number}: {type(error).__name__ if not isinstance(error, AssertionError) else ''} {error}"
    shutil.rmtree(trial.folder, ignore_errors=True)
    return trial.seen, trial.seconds, problem


def try_kind(name, count, options, folder):
    """Runs the trials of a kind; returns whether all passed."""
    started = time.monotonic()
    (folder / name).mkdir()
    try:
        _found[:] = KINDS[name][0](folder / name, count)
    except trials.Skipped as reason:
        print(f"{name:12} skipped: {reason}", flush=True)
        return True
    except AssertionError as error:
        print(f"{name:12} not begun: {error}", flush=True)
        return False
    numbers = range(len(_found)) if options.trial is None else [options.trial]
    seen, problems, slowest = collections.Counter(), [], 0.0
    with contextlib.ExitStack() as stack:
        side_by_side = map
        if options.jobs > 1:
            # Processes watch their runs independently of each other; they are forked, so that they have the trials.
            pool = concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork"))
            side_by_side = stack.enter_context(pool).map
        one = functools.partial(attempt, name, seed=options.seed, folder=folder)
        for saw, seconds, problem in side_by_side(one, numbers):
            seen += saw
            slowest = max(slowest, seconds)
            if problem:
                problems.append(problem)
                if len(problems) <= SHOWN:
                    print(problem, "\n", flush=True)
    missed = seen.pop("missed", 0)
    n = sum(seen.values()) + len(problems)
    bound = f"< {3 / n:.2%}" if n and not problems else ""
    how = ", ".join(f"{what} {times}" for what, times in sorted(seen.items()))
    if slowest:
        how += f"; slowest stop {slowest:.1f} s"
    if missed:
        how += f"; {missed} missed their call"
    print(f"{name:12} {n:7} {len(problems):9} {bound:>9} {time.monotonic() - started:8.0f} s  {how}", flush=True)
    shutil.rmtree(folder / name, ignore_errors=True)
    return not problems


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=os.environ.get("KINDS", "").split() or list(KINDS), metavar="KIND")
    parser.add_argument("--short", action="store_true", help="small counts")
    parser.add_argument("--trial", type=int, help="only the trial of this number")
    parser.add_argument("--seed", default=os.environ.get("SEED", "1"))
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", "2")), help="trials at the same time")
    parser.add_argument("--device", default=os.environ.get("DEVICE", "cpu"), choices=("cpu", "cuda"), help="of kills and signals")
    parser.add_argument("--precision", default=os.environ.get("PRECISION", "auto"), help="of kills and signals: run.precision")
    options = parser.parse_args(arguments)
    if options.device != "cpu" and options.kinds == list(KINDS):
        options.kinds = list(ON_A_GPU)
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"{unknown[0]} is not a kind of trial; known are {', '.join(KINDS)}")
    elsewhere = [kind for kind in options.kinds if kind not in ON_A_GPU]
    if elsewhere and (options.device, options.precision) != ("cpu", "auto"):
        parser.error(f"{elsewhere[0]} is tried on a CPU in float32 alone; with --device or --precision name {' or '.join(ON_A_GPU)}")
    trials.compute_with(options.device, options.precision)
    if not os.access(support.KEEL, os.X_OK):
        print(f"{support.KEEL} is not there; build it, or set KEEL_BINARY")
        return 77
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup sets it, and the runs would inherit it
        signal.signal(signal.SIGHUP, lambda *_: None)
    print(f"seed {options.seed}, {options.jobs} at a time, {options.device}\nkind               n  failures   95 % of      time  what was seen")
    well = True
    with tempfile.TemporaryDirectory(prefix="keel_crash_") as folder:
        for kind in options.kinds:
            _, whole, short = KINDS[kind]
            count = os.environ.get(kind.upper())
            well &= try_kind(kind, int(count) if count else short if options.short else whole, options, pathlib.Path(folder))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
