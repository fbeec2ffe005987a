"""Full disks: too few bytes, too few inodes, or a file size limit. The run exits with 0, or with 4 and the path that it could not write.
Its saved files are valid, and with more space it continues to the same bits."""

import subprocess

import trials
from trials import require, support

# Runs in its own mount namespace, so nothing stays mounted. $1 is the folder of the disk, $2 its options, $3 those of a
# larger one; the rest is the command. The result of the first run is in code, said and stopped.
SCRIPT = """
    disk="$1"; small="$2"; large="$3"; shift 3
    mount -t tmpfs -o "$small" keel "$disk" || exit 77
    "$@" > "$disk.said" 2>&1
    echo "$?" > "$disk.code"
    if [ -d "$disk/run" ]; then cp -r "$disk/run" "$disk.stopped"; fi
    mount -o "remount,$large" "$disk" || exit 77
    flag=--overwrite
    if compgen -G "$disk/run/checkpoints/step-*[0-9]" > /dev/null; then flag=--resume; fi
    "$@" "$flag" && cp -r "$disk/run" "$disk.finished"
"""
LARGE = "size=256m,nr_inodes=100000"
NAMESPACES = (["unshare", "-m"], ["unshare", "-rm"])


def namespace():
    """The command for a mount namespace on this machine."""
    for unshare in NAMESPACES:
        tried = subprocess.run([*unshare, "mount", "-t", "tmpfs", "keel", "/mnt"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        if tried.returncode == 0:
            return unshare
    raise trials.Skipped("no disk can be mounted here (not root, and no user namespaces): " + tried.stderr.strip())


def small_disk(trial, unshare, whole, options):
    disk = trial.folder / "disk"
    disk.mkdir()
    command = [support.KEEL, "train", support.QUICKSTART, *support.settings(**trials.RUN), f"run.dir={disk / 'run'}"]
    again = subprocess.run([*unshare, "bash", "-c", SCRIPT, "bash", disk, options, LARGE, *map(str, command)],
                           env=support.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=support.HANG)
    require(again.returncode != 77, "cannot mount:", again.stderr)
    output, code = (trial.folder / "disk.said").read_text(), int((trial.folder / "disk.code").read_text())
    where = f"tmpfs of {options}: ended with {code}\n{output}"
    words = (f'"{disk}/run', "No space left on device", "free some space")
    require_clean_stop(trial, code, output, words, trial.folder / "disk.stopped", where)
    require(again.returncode == 0, where, "\nand then, with space:", trials.output(again))
    trials.require_finished(trial.folder / "disk.finished", whole)


def small_files(trial, whole, size):
    run = trial.folder / "run"
    result = support.train(run, prefix=["prlimit", f"--fsize={size}"], **trials.RUN)
    where = f"files of at most {size} bytes:\n{trials.output(result)}"
    words = (f'"{run}', "File too large", "ulimit -f")
    require_clean_stop(trial, result.returncode, result.stderr, words, run, where)
    again = support.train(run, trials.resume_flag(run), **trials.RUN)
    require(again.returncode == 0, where, "\nand then, without the limit:", trials.output(again))
    trials.require_finished(run, whole)


def require_clean_stop(trial, code, output, words, run, where):
    require(code in (0, 4), where)
    if code == 4:
        require("keel: cannot" in output and all(word in output for word in words), "the message is not;", words, where)
    left = [path.name for path in run.rglob("*.partial")]
    require(not left, "left behind:", left, where)
    for path in run.glob("*.jsonl"):
        require(path.read_bytes()[-1:] in (b"", b"\n"), path.name, "ends with half a line;", where)
    trials.require_sound(run)
    begun = "whole" if code == 0 else "with a checkpoint" if trials.newest(run) else "before the first checkpoint"
    trial.seen[begun] += 1


def disks(folder, count):
    """A third of the trials each: bytes and inodes from almost none to slightly more than enough, and file sizes."""
    unshare = namespace()
    whole = trials.unbroken(folder / "whole")
    files = [path for path in whole.rglob("*") if path.is_file()]
    # During a save, a run has one more checkpoint than it keeps.
    most = 1.5 * sum(path.stat().st_size for path in files)
    largest = 1.1 * max(path.stat().st_size for path in files)
    found = []
    for i in range(count):
        part = (i // 3 + 0.5) / max(1, count // 3)
        if i % 3 == 0:
            found.append(lambda t, size=int(part * most) // 4096 * 4096: small_disk(t, unshare, whole, f"size={max(size, 4096)}"))
        elif i % 3 == 1:
            inodes = max(2, int(part * 1.5 * len(list(whole.rglob("*")))))
            found.append(lambda t, inodes=inodes: small_disk(t, unshare, whole, f"size=256m,nr_inodes={inodes}"))
        else:
            found.append(lambda t, size=int(part * largest): small_files(t, whole, size))
    return found
