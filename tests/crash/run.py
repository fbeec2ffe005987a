"""What a run must bear, tried as often as wanted: kills, faults, damage, full disks and signals.

    make test-crash                                   the whole: up to two hours on 2 busy cores, a quarter of one on 16
    make test-crash JOBS=16                           so many trials at the same time
    make test-crash KINDS="kills flips" KILLS=900     some kinds, other counts
    tests/crash/run.py --short                        what `make test` runs
    tests/crash/run.py --trial 137 flips              one trial again; SEED=... where it was not 1

Each kind prints how often it tried (n), how often the program failed and, after no failure, the bound on the rate of
failures that n trials give with 95 % confidence (3/n). The end is 0 where nothing failed.
"""

import argparse
import collections
import concurrent.futures
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

# Name, function, count of the whole (None: all there are) and of the short form.
KINDS = {
    "kills": (interruptions.kills, 215, 6),
    "signals": (interruptions.signals, 100, 5),
    "resumptions": (resumptions.resumptions, None, 4),
    "faults": (faults.faults, None, support.count(10, 16)),
    "order": (faults.order, None, None),
    "short_calls": (faults.short_calls, 5, 1),
    "flips": (damage.flips, 1000, support.count(12, 16)),
    "truncations": (damage.truncations, 200, 8),
    "losses": (damage.losses, None, 4),
    "disks": (disks.disks, 60, 3),
}
SHOWN = 10  # failures of a kind that are printed in full


def attempt(kind, number, trial_function, seed, folder):
    trial = trials.Trial(tempfile.mkdtemp(prefix=f"{kind}_{number}_", dir=folder), f"{seed} {kind} {number}")
    problem = None
    try:
        trial_function(trial)
    except Exception as error:  # a failure of the harness is one too
        problem = f"{kind} {number}: {type(error).__name__ if not isinstance(error, AssertionError) else ''} {error}"
    shutil.rmtree(trial.folder, ignore_errors=True)
    return trial, problem


def try_kind(name, count, options, folder):
    """Runs a kind's trials; returns whether all was well."""
    started = time.monotonic()
    (folder / name).mkdir()
    try:
        found = list(enumerate(KINDS[name][0](folder / name, count)))
    except trials.Skipped as reason:
        print(f"{name:12} skipped: {reason}", flush=True)
        return True
    except AssertionError as error:
        print(f"{name:12} not begun: {error}", flush=True)
        return False
    if options.trial is not None:
        found = [found[options.trial]]
    seen, problems, slowest = collections.Counter(), [], 0.0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for trial, problem in pool.map(lambda item: attempt(name, *item, options.seed, folder), found):
            seen += trial.seen
            slowest = max(slowest, trial.seconds)
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
    options = parser.parse_args(arguments)
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"{unknown[0]} is no kind of trial; known are {', '.join(KINDS)}")
    if not os.access(support.KEEL, os.X_OK):
        print(f"{support.KEEL} is not there; build it, or set KEEL_BINARY")
        return 77
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # by nohup, and the runs would inherit it
        signal.signal(signal.SIGHUP, lambda *_: None)
    print(f"seed {options.seed}, {options.jobs} at a time\nkind               n  failures   95 % of      time  what was seen")
    well = True
    with tempfile.TemporaryDirectory(prefix="keel_crash_") as folder:
        for kind in options.kinds:
            _, whole, short = KINDS[kind]
            count = os.environ.get(kind.upper())
            well &= try_kind(kind, int(count) if count else short if options.short else whole, options, pathlib.Path(folder))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
