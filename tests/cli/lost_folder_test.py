"""A run whose folder is moved, replaced, removed or locked while it trains: it writes only to its own folder."""

import collections
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile

import support
from support import keel, train, tree

# Long enough to change its folder meanwhile, with a checkpoint in SFT and some in RL.
LONG = {"sft": {"steps": 12, "noisy_steps": 4}, "train": {"steps": 24}, "checkpoint": {"every": 4}}
LAST = LONG["sft"]["steps"] + LONG["train"]["steps"]


def rows(folder):
    path = pathlib.Path(folder) / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


class LostFolder(support.Test):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory(prefix="keel_cli_")
        cls.addClassCleanup(shared.cleanup)
        cls.whole, cls.other = pathlib.Path(shared.name) / "whole", pathlib.Path(shared.name) / "other"
        for run, sections in ((cls.whole, LONG), (cls.other, {"train": {"steps": 2}, "run": {"seed": 1}})):
            result = train(run, **sections)
            assert result.returncode == 0, result.stderr

    def lose(self, lose, at_row=16, run="run", then=signal.SIGCONT, **sections):
        """Runs a training whose folder is changed once it has written `at_row` rows."""
        output, run = self.folder / f"{pathlib.Path(run).name}.output", self.folder / run
        sections = {**LONG, **sections, "run": {"dir": run}}
        process = support.start(output, "train", support.QUICKSTART, *support.settings(**sections))
        self.addCleanup(process.kill)
        self.assertTrue(support.wait_for(process, lambda: rows(run) >= at_row), process.output.read_text())
        process.run = run
        process.send_signal(signal.SIGSTOP)
        self.assertTrue(support.wait_for(process, lambda: support.state_of(process.pid) == "T"), "it ended too early")
        lose(run)
        process.send_signal(then)
        process.send_signal(signal.SIGCONT)
        process.wait(support.HANG)
        process.text = process.output.read_text()
        return process

    def assert_lost(self, process, *parts):
        """Expects exit code 4 and a message. Returns the last complete checkpoint, the number of lost steps and the printed command."""
        self.assertEqual(process.returncode, 4, process.text)
        for part in parts:
            self.assertIn(part, process.text)
        self.assertNotIn("internal error", process.text)
        left = re.search(r"last complete checkpoint is (\S+); steps lost after it: (\d+)\. Continue with: keel (.*)", process.text)
        self.assertTrue(left, process.text)
        support.verify_checkpoint(left[1])
        self.assertEqual(left[1], str(process.run / "checkpoints" / support.checkpoints(process.run)[-1]))
        self.assertLess(int(left[2]), LAST - 4)
        return shlex.split(left[3])

    def assert_same_weights(self, run):
        for name in self.final_files(self.whole):
            self.assertEqual((run / name).read_bytes(), (self.whole / name).read_bytes(), name)

    def test_a_run_follows_its_moved_folder(self):
        moved, second = self.folder / "moved away", []

        def leave_nothing(run):
            run.rename(moved)

        def put_another_run(run):
            run.rename(moved)
            shutil.copytree(self.other, run, symlinks=True)

        def link_to_another_run(run):
            run.rename(moved)
            run.symlink_to(self.other)

        def start_another_run(run):
            run.rename(moved)
            second.append(support.start_train(run, **LONG))
            self.addCleanup(second[0].kill)

        before = tree(self.other)
        for lose in (leave_nothing, put_another_run, link_to_another_run, start_another_run):
            process = self.lose(lose)
            self.assertEqual(process.returncode, 0, process.text)
            self.assert_same_run(moved, self.whole)
            self.assertIn(f"{moved}/report.html", process.text)
            self.assertTrue((moved / "report.html").exists())
            if lose is leave_nothing:
                self.assertEqual(sorted(os.listdir(self.folder)), ["moved away", "run.output"])
            elif lose is start_another_run:
                self.assertEqual(second[0].wait(), 0, second[0].output.read_text())
                self.assert_same_run(process.run, self.whole)
            else:
                self.assertEqual(tree(process.run), before)
                self.assertEqual(tree(self.other), before)
            process.run.unlink() if process.run.is_symlink() else shutil.rmtree(process.run, ignore_errors=True)
            shutil.rmtree(moved)

    def test_an_interrupt_after_a_move_names_the_command_for_the_new_place(self):
        process = self.lose(lambda run: run.rename(self.folder / "moved"), then=signal.SIGTERM)
        self.assertEqual(process.returncode, 75, process.text)
        command = shlex.split(re.search(r"continue with: keel (.*)", process.text)[1])
        self.assertIn(f"run.dir={self.folder}/moved", command)
        self.assert_exit(keel(*command), 0)
        self.assert_same_run(self.folder / "moved", self.whole)

    def test_a_removed_folder_stops_the_run_and_is_not_recreated(self):
        for at_row in (4, 16):  # during SFT and during RL
            process = self.lose(shutil.rmtree, at_row, f"run{at_row}")
            self.assertEqual(process.returncode, 4, process.text)
            self.assertRegex(process.text, rf"{process.run} was removed during the run\. No complete checkpoint is left: all \d+ steps are lost")
            self.assertFalse(process.run.exists())

    def test_another_run_at_the_path_of_a_removed_one_is_untouched(self):
        def replace(run):
            shutil.rmtree(run)
            shutil.copytree(self.other, run, symlinks=True)

        process = self.lose(replace)
        self.assertEqual(process.returncode, 4, process.text)
        self.assertIn("was removed during the run", process.text)
        self.assertEqual(tree(process.run), tree(self.other))

    def test_removed_or_replaced_rows_stop_the_run_which_resumes_from_its_last_checkpoint(self):
        def replace(run):  # as editors save
            (run / "new").write_text((run / "samples.jsonl").read_text())
            (run / "new").replace(run / "samples.jsonl")

        for number, (lose, name) in enumerate(((lambda run: (run / "metrics.jsonl").unlink(), "metrics.jsonl"), (replace, "samples.jsonl"))):
            process = self.lose(lose, run=f"run{number}")
            command = self.assert_lost(process, f"{process.run / name} was removed or replaced")
            self.assertEqual("--damaged-rows" in command, name == "metrics.jsonl")
            self.assert_exit(keel(*command), 0)
            self.assert_same_weights(process.run)

    def test_an_unwritable_folder_stops_the_run_which_resumes_later(self):
        def bury(run):
            (run / "checkpoints").rename(run / "cp2")
            (run / "checkpoints").write_text("in the way")

        def dig_out(run):
            (run / "checkpoints").unlink()
            (run / "cp2").rename(run / "checkpoints")

        process = self.lose(bury)
        self.assertEqual(process.returncode, 4, process.text)
        self.assertIn("a file is in the way", process.text)
        self.assertIn("No complete checkpoint is left", process.text)
        dig_out(process.run)
        self.assert_exit(train(process.run, "--resume", **LONG), 0)
        self.assert_same_run(process.run, self.whole)

    def immutable(self, *names):
        """Makes the files of a run, or the content of its folders, unwritable even for root."""
        def change(run):
            paths = [run / name for name in names]
            changed = subprocess.run(["chattr", "+i", *paths], stderr=subprocess.DEVNULL) if shutil.which("chattr") else None
            if not changed or changed.returncode != 0:
                self.skipTest("no file can be made immutable here")
            self.addCleanup(subprocess.run, ["chattr", "-i", *paths], stderr=subprocess.DEVNULL)

        return change

    def test_rows_or_checkpoints_that_may_not_be_written_end_the_run(self):
        for number, name in enumerate(("metrics.jsonl", "log.txt", "checkpoints")):
            process = self.lose(self.immutable(name), run=f"run{number}")
            command = self.assert_lost(process, name, "Operation not permitted")
            subprocess.run(["chattr", "-i", process.run / name], check=True)
            self.assert_exit(keel(*command), 0)
            self.assert_same_run(process.run, self.whole)

    def test_another_runs_checkpoints_in_place_of_its_own_are_left_alone(self):
        before = tree(self.other)

        def link(run):
            (run / "checkpoints").rename(self.folder / "mine")
            (run / "checkpoints").symlink_to(self.other / "checkpoints")

        process = self.lose(link)
        self.assertEqual(process.returncode, 4, process.text)
        self.assertIn("is a checkpoint of another run", process.text)
        self.assertEqual(tree(self.other), before)

    def test_removed_checkpoints_are_followed_by_the_next_ones(self):
        process = self.lose(lambda run: shutil.rmtree(run / "checkpoints"))
        self.assertEqual(process.returncode, 0, process.text)
        self.assert_same_run(process.run, self.whole)

    def test_other_files_among_the_checkpoints_stay(self):
        mine = ("step-000099/model.safetensors", "thesis.partial/chapter", f"step-{LAST:06}/notes", "step-000016/notes")

        def put(run):
            for name in mine:
                (run / "checkpoints" / name).parent.mkdir(exist_ok=True)
                (run / "checkpoints" / name).write_text("mine")
            shutil.copytree(self.other / "checkpoints" / support.checkpoints(self.other)[-1], run / "checkpoints" / "step-900000")

        process = self.lose(put, at_row=22)
        self.assertEqual(process.returncode, 0, process.text)
        for name in mine:  # the file with the name of the new checkpoint was moved aside
            at = name.replace(f"step-{LAST:06}", f"step-{LAST:06}.other")
            self.assertEqual((process.run / "checkpoints" / at).read_text(), "mine", name)
        self.assertTrue((process.run / "checkpoints" / "step-900000" / "state.json").exists())
        self.assert_same_weights(process.run)
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": LONG["train"]["steps"] + 1}}), 0)

    def test_a_log_that_is_a_link_adds_nothing_to_what_it_leads_to(self):
        run, precious = self.folder / "run", self.folder / "precious.txt"
        precious.write_text("precious")
        self.assert_exit(train(run, train={"steps": 1}), 0)
        (run / "log.txt").unlink()
        (run / "log.txt").symlink_to(precious)
        self.assert_refused(train(run, "--resume", train={"steps": 2}), 2, "log.txt")
        self.assertEqual(precious.read_text(), "precious")

    def test_damaged_rows_are_reported_at_the_end(self):
        def tear(run):
            with open(run / "metrics.jsonl", "a") as file:
                file.write("# a note without an end")

        for number, (lose, name) in enumerate(((tear, "metrics.jsonl"), (lambda run: os.truncate(run / "metrics.jsonl", 0), "metrics.jsonl"),
                                               (lambda run: os.truncate(run / "samples.jsonl", 50), "samples.jsonl"))):
            process = self.lose(lose, run=f"run{number}")
            self.assertEqual(process.returncode, 0, process.text)
            self.assertRegex(process.text, rf"{name}: (line \d+ was changed|it ends after line \d+)")

    def require_strace(self):
        probe = ["strace", "-f", "-e", "trace=none", "true"]
        if not shutil.which("strace") or subprocess.run(probe, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no strace, or it may not trace here")

    def test_unreadable_files_at_the_end_are_reported(self):
        """A new run reads these files only at its end: it compares the rows with those it wrote, then reads everything for the report."""
        self.require_strace()
        for name, number in (("metrics.jsonl", 1), ("metrics.jsonl", 2), ("samples.jsonl", 1), ("config.yaml", 1)):
            run = self.folder / f"{name} {number}"
            result = train(run, prefix=["strace", "-f", "-o", "/dev/null", "-P", str(run / name), "-e", "trace=pread64",
                                        "-e", f"inject=pread64:error=EIO:when={number}"])
            self.assert_exit(result, 3)
            self.assertIn(f'keel: cannot read "{run / name}": Input/output error; check the disk', result.stderr)
            self.assertIn("the run is complete", result.stderr)
            self.assertFalse((run / "report.html").exists())
            way_out = re.search(r"run keel (report .*?); the run", result.stderr)
            self.assertTrue(way_out, result.stderr)
            self.assert_exit(keel(*shlex.split(way_out[1])), 0)
            self.assertTrue((run / "report.html").exists())

    def test_at_any_call_of_a_save_the_other_folder_stays_as_it_is(self):
        """Swaps the folder while a system call of a save waits: the run touches neither the old nor the new folder."""
        self.require_strace()
        moments = [("renameat,renameat2,rename", 3), ("fsync", 12)]
        # A save has its own thread, which renames and removes files.
        moments += support.count([], [("mkdirat,mkdir", 2), ("unlinkat,unlink", 6), ("renameat,renameat2,rename", 9), ("unlinkat,unlink", 11)])
        for call, number in moments:
            run, log = self.folder / f"{call} {number}", self.folder / f"{call} {number} log"
            strace = ["strace", "-f", "-o", str(log), "-e", f"trace={call}",
                      "-e", f"inject={call}:delay_enter={2 * support.HANG}000000:when={number}", "-p"]

            def waits():  # the thread has made this many calls; the log of the last one only has its beginning
                calls = re.findall(rf"^(\d+) +(?:{call.replace(',', '|')})\(", log.read_text(), re.M) if log.exists() else []
                return max(collections.Counter(calls).values(), default=0) >= number

            command = [support.KEEL, "train", support.QUICKSTART, *support.settings(
                run={"dir": run}, train={"steps": 8}, checkpoint={"every": 1, "keep": 1}, eval={"prompts": 0})]
            process = subprocess.Popen(["sh", "-c", 'read line && exec "$@"', "sh", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
            self.addCleanup(process.kill)
            tracer = subprocess.Popen([*strace, str(process.pid)], stderr=subprocess.PIPE, text=True)
            self.addCleanup(tracer.kill)
            if "attached" not in tracer.stderr.readline():
                self.skipTest("strace may not attach to a process here")
            process.stdin.write("start\n")
            process.stdin.flush()
            self.assertTrue(support.wait_for(process, waits), call)
            moved = self.folder / f"{call} {number} moved"
            run.rename(moved)
            shutil.copytree(self.other, run, symlinks=True)
            tracer.terminate()  # releases this call, and delays no other
            text = process.communicate(timeout=support.HANG)[0]
            self.assertEqual(process.returncode, 0, f"{call} {number}\n{text}")
            self.assertEqual(support.checkpoints(moved), ["step-000016"])
            support.verify_checkpoint(moved / "checkpoints" / "step-000016")
            self.assertEqual(tree(run), tree(self.other), f"{call} {number}")


if __name__ == "__main__":
    support.main()
