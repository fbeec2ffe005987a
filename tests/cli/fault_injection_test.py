"""Every system call of a save may fail or be the last one: the checkpoint before it stays sound.

strace makes single calls fail (ENOSPC) or kills the process at them.
"""

import re
import shutil
import subprocess

import support
from support import train

# Which of a family a machine has is its own: ARM has no rename, mkdir and unlink without "at".
CALLS = ("write", "fsync", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "ftruncate")
POSITIONS = 15  # of each kind of fault
TRAIN = {"train": {"steps": 2}, "eval": {"prompts": 0}, "checkpoint": {"every": 1}}


def strace(log, *options):
    return ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={','.join(CALLS)}", *options]


def calls_on(folder, log):
    """The calls of a trace that touch a folder: (name, how many of that name came before, plus 1)."""
    seen, found = {}, []
    for line in log.read_text(errors="replace").splitlines():
        call = re.match(r"\d+\s+(\w+)\(", line)
        if call:
            seen[call[1]] = seen.get(call[1], 0) + 1
            if str(folder) in line:
                found.append((call[1], seen[call[1]]))
    return found


def spread(items, count):
    return [items[i * len(items) // count] for i in range(count)] if len(items) > count else items


class FaultyCalls(support.Test):
    def setUp(self):
        super().setUp()
        if not shutil.which("strace") or subprocess.run(
                [*strace("/dev/null"), "true"], stderr=subprocess.DEVNULL).returncode != 0:
            print("no strace, or it may not trace here; that part is skipped", end=" ")
            self.skipTest("strace")
        self.base, self.whole = self.folder / "base", self.folder / "whole"
        self.assert_exit(train(self.base, **{**TRAIN, "train": {"steps": 1}}), 0)
        self.assert_exit(train(self.whole, **TRAIN), 0)
        self.run, self.log = self.folder / "run", self.folder / "log"
        self.fresh()
        self.assert_exit(train(self.run, "--resume", prefix=strace(self.log), **TRAIN), 0)
        self.calls = calls_on(self.run, self.log)
        self.assertGreater(len(self.calls), 40)
        families = {re.sub("at2?$", "", name) for name, _ in self.calls}
        self.assertLessEqual({"write", "fsync", "rename", "mkdir", "ftruncate"}, families)

    def fresh(self):
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.copytree(self.base, self.run)

    def assert_sound(self, where):
        names = support.checkpoints(self.run)
        self.assertIn("step-000009", names, where)
        for name in names:
            support.verify_checkpoint(self.run / "checkpoints" / name)

    def assert_resumes(self, where):
        result = train(self.run, "--resume", **TRAIN)
        self.assertEqual(result.returncode, 0, f"{where}\n{result.stdout}{result.stderr}")
        for name in self.final_files(self.whole):
            self.assertEqual((self.run / name).read_bytes(), (self.whole / name).read_bytes(), where)
        self.assertEqual([p.name for p in self.run.rglob("*.partial")], [], where)
        self.assertEqual((self.run / "checkpoints" / "LATEST").read_text(), "step-000010\n", where)

    def inject(self, fault, call, number):
        self.fresh()
        option = ["-e", f"inject={call}:{fault}:when={number}"]
        return train(self.run, "--resume", prefix=strace(self.log, *option), **TRAIN)

    def test_a_full_disk_at_any_of_them_ends_with_4_and_the_path(self):
        for i, (call, number) in enumerate(spread(self.calls, POSITIONS)):
            where = f"{call} number {number}"
            result = self.inject("error=ENOSPC", call, number)
            injected = next((line for line in self.log.read_text().splitlines() if "(INJECTED)" in line), "")
            self.assertIn(call, injected, where)
            if str(self.run) not in injected:
                continue  # how often the program prints depends on the clock, so that this was a write to its output
            self.assertEqual(result.returncode, 4, f"{where}\n{result.stdout}{result.stderr}")
            self.assertIn(str(self.run), result.stderr, where)
            self.assertIn("No space left on device", result.stderr, where)
            self.assert_sound(where)
            if i % 4 == 0:
                self.assert_resumes(where)

    def test_a_kill_at_any_of_them_leaves_a_sound_checkpoint(self):
        for i, (call, number) in enumerate(spread(self.calls, POSITIONS)):
            where = f"{call} number {number}"
            result = self.inject("signal=KILL", call, number)
            self.assertEqual(result.returncode, -9, f"{where}\n{result.stdout}{result.stderr}")
            self.assert_sound(where)
            if i % 4 == 2:
                self.assert_resumes(where)

    def test_a_replacement_that_is_killed_can_be_asked_for_again(self):
        files = sum(p.is_file() for p in self.base.rglob("*"))
        for number in (1, files - 3, files - 2, files - 1):  # the last ones lie in the run's folder itself
            self.fresh()
            prefix = ["strace", "-f", "-o", str(self.log), "-e", f"inject=unlink,unlinkat:signal=KILL:when={number}"]
            self.assertEqual(train(self.run, "--overwrite", prefix=prefix, **TRAIN).returncode, -9)
            self.assert_exit(train(self.run, "--overwrite", **TRAIN), 0)


if __name__ == "__main__":
    support.main()
