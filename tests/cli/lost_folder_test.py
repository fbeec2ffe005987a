"""A run whose folder is removed, moved or replaced while it goes on: it notices, touches nothing of another's, and loses nothing."""

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

# Long enough for something to happen to its folder, and no checkpoint but between the phases and at the end.
LONG = {"sft": {"steps": 12, "noisy_steps": 4}, "train": {"steps": 24}, "checkpoint": {"every": 0}}
LAST = LONG["sft"]["steps"] + LONG["train"]["steps"]


def rows(folder):
    path = pathlib.Path(folder) / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


class FolderThatIsLost(support.Test):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory(prefix="keel_cli_")
        cls.addClassCleanup(shared.cleanup)
        cls.shared = pathlib.Path(shared.name)

    def lose(self, lose, at_row=16, run="run", **sections):
        """A run whose folder something happens to, at once as it sees it, when it has written so many rows."""
        output, run = self.folder / f"{pathlib.Path(run).name}.output", self.folder / run
        sections = {**LONG, **sections, "run": {"dir": run}}
        process = support.start(output, "train", support.QUICKSTART, *support.settings(**sections))
        self.addCleanup(process.kill)
        self.assertTrue(support.wait_for(process, lambda: rows(run) >= at_row), process.output.read_text())
        process.run, self.process = run, process
        process.send_signal(signal.SIGSTOP)
        support.wait_for(process, lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        lose(run)
        process.send_signal(signal.SIGCONT)
        process.wait(timeout=60)
        process.text = process.output.read_text()
        return process

    def whole(self, **sections):
        """The run to which nothing happens, one for all tests."""
        whole = self.shared / re.sub(r"\W+", "_", f"whole {sections}")
        if not whole.exists():
            self.assert_exit(train(whole, **{**LONG, **sections}), 0)
        return whole

    def assert_rescued(self, process, saved_in, *parts, **sections):
        """Ended with 4, said so, and the command it names continues to the same bits."""
        self.assertEqual(process.returncode, 4, process.text)
        for part in (str(process.run), str(saved_in), *parts):
            self.assertIn(part, process.text)
        self.assertNotIn("internal error", process.text)
        command = shlex.split(re.search(r"continue with: keel (.*)", process.text)[1])
        self.assert_exit(keel(*command), 0)
        self.assert_same_run(saved_in, self.whole(**sections))
        step = int(re.search(r"up to step (\d+)", process.text)[1])
        self.assertLess(step, LAST)  # it did not go on to the end

    def rescued(self, process):
        return self.folder / f"{process.run.name}.rescued-{process.pid}"

    def test_a_removed_folder_is_noticed_at_the_next_step_and_the_run_is_saved_beside_it(self):
        for at_row in (4, 16):  # in the warm-up and in RL
            run = f"run {at_row}"
            process = self.lose(shutil.rmtree, at_row, run, reference={"kl_coefficient": 0.05})
            self.assert_rescued(process, self.rescued(process), "was removed while the run went on",
                                reference={"kl_coefficient": 0.05})
            self.assertFalse((self.folder / run).exists())

    def test_another_run_in_its_place_is_left_alone(self):
        def replace(run):
            shutil.rmtree(run)
            self.assert_exit(train(run, train={"steps": 2}), 0)
            self.before = tree(run)

        process = self.lose(replace)
        self.assert_rescued(process, self.rescued(process), "what has its name now is not this run's")
        self.assertEqual(tree(process.run), self.before)

    def test_two_runs_under_one_name_both_end_well(self):
        other = []

        def replace(run):
            run.rename(self.folder / "moved")
            other.append(support.start_train(run, **LONG))
            self.addCleanup(other[0].kill)

        process = self.lose(replace)
        self.assertEqual(other[0].wait(), 0, other[0].output.read_text())
        self.assert_rescued(process, self.folder / "moved", "moved to")
        self.assert_same_run(process.run, self.whole())

    def test_a_moved_folder_is_saved_where_it_is_now(self):
        process = self.lose(lambda run: run.rename(self.folder / "moved away"))
        self.assert_rescued(process, self.folder / "moved away", "was moved to")
        self.assertEqual(sorted(os.listdir(self.folder)), ["moved away", "run.output"])

    def test_a_link_to_the_moved_folder_is_the_folder(self):
        def link(run):
            run.rename(self.folder / "moved")
            run.symlink_to(self.folder / "moved")

        process = self.lose(link)
        self.assertEqual(process.returncode, 0, process.text)
        self.assert_same_run(self.folder / "moved", self.whole())

    def test_a_link_to_another_folder_is_not_followed(self):
        other = self.folder / "other"
        self.assert_exit(train(other, train={"steps": 1}), 0)
        before = tree(other)

        def link(run):
            run.rename(self.folder / "moved")
            run.symlink_to(other)

        process = self.lose(link)
        self.assert_rescued(process, self.folder / "moved", "moved to")
        self.assertEqual(tree(other), before)

    def test_rows_that_nobody_would_find_end_the_run_too(self):
        def remove(run):
            (run / "metrics.jsonl").unlink()

        def replace(run):  # as editors save
            (run / "new").write_text((run / "samples.jsonl").read_text())
            (run / "new").replace(run / "samples.jsonl")

        for number, (lose, name) in enumerate(((remove, "metrics.jsonl"), (replace, "samples.jsonl"))):
            process = self.lose(lose, run=f"run{number}")
            self.assert_rescued(process, self.rescued(process), name, "removed or replaced")

    def test_removed_checkpoints_are_saved_again(self):
        process = self.lose(lambda run: shutil.rmtree(run / "checkpoints"), reference={"kl_coefficient": 0.05})
        self.assertEqual(process.returncode, 0, process.text)
        self.assertIn("was removed while the run went on; saving again", process.text)
        self.assert_same_run(process.run, self.whole(reference={"kl_coefficient": 0.05}))

    def test_checkpoints_that_cannot_be_written_are_saved_elsewhere(self):
        def bury(run):
            (run / "checkpoints").rename(run / "cp2")
            (run / "checkpoints").write_text("in the way")

        def occupy(run):  # all names to come
            for step in range(17, LAST + 1):
                (run / "checkpoints" / f"step-{step:06}").write_text("mine")

        for number, lose in enumerate((bury, occupy)):
            process = self.lose(lose, run=f"run{number}", checkpoint={"every": 4})
            self.assert_rescued(process, self.rescued(process), "cannot be saved where it is", checkpoint={"every": 4})
        self.assertEqual((process.run / "checkpoints" / f"step-{LAST:06}").read_text(), "mine")
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": 1}}), 0)  # from the sound ones

    def test_a_folder_in_place_of_the_hint_for_people_hinders_nobody(self):
        def replace(run):
            (run / "checkpoints" / "LATEST").unlink()
            (run / "checkpoints" / "LATEST").mkdir()

        process = self.lose(replace)
        self.assertEqual(process.returncode, 0, process.text)
        self.assert_same_run(process.run, self.whole())
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": LONG["train"]["steps"] + 1}}), 0)

    def test_a_removed_configuration_is_written_again(self):
        def remove(run):
            self.config = (run / "config.yaml").read_text()
            (run / "config.yaml").unlink()

        process = self.lose(remove)
        self.assertEqual(process.returncode, 0, process.text)
        self.assertEqual((process.run / "config.yaml").read_text(), self.config)
        self.assertIn("config.yaml was removed while the run went on", (process.run / "log.txt").read_text())
        self.assert_same_run(process.run, self.whole())

    def test_what_is_no_file_and_has_a_files_name_is_moved_aside(self):
        names = ("log.txt", "config.yaml", "used.json", "report.html")

        def replace(run):
            self.config = (run / "config.yaml").read_text()
            for number, name in enumerate(names):
                (run / name).unlink(missing_ok=True)
                os.mkfifo(run / name) if number % 2 else (run / name).mkdir()

        process = self.lose(replace)
        self.assertEqual(process.returncode, 0, process.text)
        for name in names:
            self.assertTrue((process.run / name).is_file() or name == "used.json", name)  # that one when it is started again
            self.assertTrue((process.run / f"{name}.other").exists() and not (process.run / f"{name}.other").is_file(), name)
        self.assertEqual((process.run / "config.yaml").read_text(), self.config)
        self.assertIn("log.txt.other", (process.run / "log.txt").read_text())
        self.assert_same_run(process.run, self.whole())
        (process.run / "log.txt").unlink()
        (process.run / "log.txt").mkdir()
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": LONG["train"]["steps"] + 1}}), 0)
        self.assertTrue((process.run / "log.txt.other2").is_dir() and (process.run / "used.json").is_file())

    def test_links_that_lead_to_no_file_are_moved_aside(self):
        def link(run):
            for name, target in {"log.txt": "/there/is/no/disk", **{x: x for x in ("config.yaml", "used.json", "report.html")}}.items():
                (run / name).unlink(missing_ok=True)
                (run / name).symlink_to(target)
            for name in ("config.yaml.partial", "checkpoints/LATEST.partial"):
                (run / name / "precious").mkdir(parents=True)

        process = self.lose(link)
        self.assertEqual(process.returncode, 0, process.text)
        self.assert_same_run(process.run, self.whole())
        for name in ("log.txt", "config.yaml", "used.json", "report.html"):
            self.assertTrue((process.run / f"{name}.other").is_symlink(), name)
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": LONG["train"]["steps"] + 1}}), 0)
        for name in ("config.yaml.partial", "checkpoints/LATEST.partial"):
            self.assertTrue((process.run / name / "precious").exists(), name)

    def test_a_log_that_became_a_link_adds_nothing_to_what_it_leads_to(self):
        precious = self.folder / "precious.txt"
        precious.write_text("precious")

        def link(run):
            (run / "log.txt").unlink()
            (run / "log.txt").symlink_to(precious)

        process = self.lose(link)
        self.assertEqual(process.returncode, 0, process.text)
        (process.run / "log.txt").unlink()
        link_again = process.run / "log.txt"
        link_again.symlink_to(precious)
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": LONG["train"]["steps"] + 1}}), 0)
        self.assertEqual(precious.read_text(), "precious")
        self.assertTrue(link_again.is_file() and not link_again.is_symlink())

    def test_a_rescue_whose_name_is_taken_has_another(self):
        def take(run):
            for name in (f"run.rescued-{self.process.pid}", f"run.rescued-{self.process.pid}-2"):
                (self.folder / name).write_text("mine")
            shutil.rmtree(run)

        process = self.lose(take)
        self.assert_rescued(process, self.folder / f"run.rescued-{process.pid}-3")
        self.assertEqual((self.folder / f"run.rescued-{process.pid}").read_text(), "mine")

    def test_rows_that_were_spoiled_are_told_at_the_end(self):
        def tear(run):
            with open(run / "metrics.jsonl", "a") as file:
                file.write("# a note without an end")

        for number, (lose, name) in enumerate(((tear, "metrics.jsonl"), (lambda run: os.truncate(run / "metrics.jsonl", 0), "metrics.jsonl"),
                                               (lambda run: os.truncate(run / "samples.jsonl", 50), "samples.jsonl"))):
            process = self.lose(lose, run=f"run{number}")
            self.assertEqual(process.returncode, 0, process.text)
            self.assertRegex(process.text, rf"{name}: (line \d+ is not what was written there|it ends after line \d+)")

    def require_strace(self):
        probe = ["strace", "-f", "-e", "trace=none", "true"]
        if not shutil.which("strace") or subprocess.run(probe, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no strace, or it may not trace here")

    def test_what_the_disk_cannot_read_at_the_end_is_told(self):
        """A new run reads these for its end alone: rows are compared with what was written, then all is read for the report."""
        self.require_strace()
        for name, number in (("metrics.jsonl", 1), ("metrics.jsonl", 2), ("samples.jsonl", 1), ("config.yaml", 1)):
            run = self.folder / f"{name} {number}"
            result = train(run, prefix=["strace", "-f", "-o", "/dev/null", "-P", str(run / name), "-e", "trace=pread64",
                                        "-e", f"inject=pread64:error=EIO:when={number}"])
            self.assert_exit(result, 3)
            self.assertIn(f'keel: cannot read "{run / name}": Input/output error; check the disk', result.stderr)
            self.assertIn("but the run is whole", result.stderr)
            self.assertFalse((run / "report.html").exists())
            way_out = re.search(r"\(keel (report .*?)\), but", result.stderr)
            self.assertTrue(way_out, result.stderr)
            self.assert_exit(keel(*shlex.split(way_out[1])), 0)
            self.assertTrue((run / "report.html").exists())

    def test_checkpoints_that_are_not_the_runs_are_left_and_named(self):
        other = self.folder / "other"
        self.assert_exit(train(other, train={"steps": 1}), 0)

        def put(run):
            own = run / "checkpoints" / "step-000099"
            own.mkdir()
            (own / "model.safetensors").write_text("mine")
            shutil.copytree(other / "checkpoints" / support.checkpoints(other)[-1], run / "checkpoints" / "step-900000")

        process = self.lose(put, checkpoint={"every": 4})
        self.assertEqual(process.returncode, 0, process.text)
        self.assertEqual((process.run / "checkpoints" / "step-000099" / "model.safetensors").read_text(), "mine")
        self.assertTrue((process.run / "checkpoints" / "step-900000" / "state.json").exists())
        for name in ("step-000099", "step-900000"):
            self.assertEqual(process.text.count(f"{name} is not the run's, and was left as it is"), 1, process.text)
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": LONG["train"]["steps"] + 1}}), 0)

    def test_another_runs_checkpoints_in_place_of_its_own_are_left_alone(self):
        other = self.folder / "other"
        self.assert_exit(train(other, train={"steps": 1}), 0)
        before = tree(other)

        def link(run):
            (run / "checkpoints").rename(self.folder / "mine")
            (run / "checkpoints").symlink_to(other / "checkpoints")

        process = self.lose(link, checkpoint={"every": 4})
        self.assert_rescued(process, self.rescued(process), "is a checkpoint of another run", checkpoint={"every": 4})
        self.assertEqual(tree(other), before)

    def test_what_others_keep_among_the_checkpoints_is_left_and_named_once(self):
        def put(run):
            (run / "checkpoints" / "thesis.partial").mkdir()
            (run / "checkpoints" / "thesis.partial" / "chapter").write_text("mine")

        process = self.lose(put, checkpoint={"every": 4})
        self.assertEqual(process.returncode, 0, process.text)
        self.assertEqual((process.run / "checkpoints" / "thesis.partial" / "chapter").read_text(), "mine")
        self.assertEqual(process.text.count("thesis.partial is not the run's, and was left as it is"), 1, process.text)

    def test_a_reference_policy_that_is_not_what_was_written_is_written_again(self):
        kl = {"reference": {"kl_coefficient": 0.05}, "checkpoint": {"every": 4}}

        def put_file(run):
            shutil.rmtree(run / "reference")
            (run / "reference").write_text("mine")

        def put_folder(run):
            shutil.rmtree(run / "reference")
            (run / "reference").mkdir()
            (run / "reference" / "paper.pdf").write_text("mine")

        def flip(run):
            data = bytearray((run / "reference" / "model.safetensors").read_bytes())
            data[-1] ^= 1
            (run / "reference" / "model.safetensors").write_bytes(data)

        for number, (lose, told) in enumerate(((put_file, "was not the run's"), (put_folder, "was not the run's"), (flip, "was damaged"))):
            process = self.lose(lose, run=f"run{number}", **kl)
            self.assertEqual(process.returncode, 0, process.text)
            self.assertEqual(process.text.count(f"{process.run / 'reference'} {told}"), 1, process.text)
            if lose != flip:
                other = process.run / "reference.other"
                self.assertEqual((other / "paper.pdf" if other.is_dir() else other).read_text(), "mine")
            self.assert_exit(train(process.run, "--resume", **{**LONG, **kl, "train": {"steps": LONG["train"]["steps"] + 1}}), 0)

    def immutable(self, name):
        """A change to a run after which a file of it, or what is in its folder, may not be written."""
        def change(run):
            changed = subprocess.run(["chattr", "+i", run / name], stderr=subprocess.DEVNULL) if shutil.which("chattr") else None
            if not changed or changed.returncode != 0:
                self.skipTest("no file can be made immutable here")
            self.addCleanup(subprocess.run, ["chattr", "-i", run / name])

        return change

    def test_rows_that_may_not_be_written_any_more_are_rescued(self):
        for number, name in enumerate(("metrics.jsonl", "samples.jsonl")):
            process = self.lose(self.immutable(name), run=f"run{number}")
            self.assert_rescued(process, self.rescued(process), name, "Operation not permitted")

    def test_a_log_or_a_report_that_may_not_be_written_takes_nothing_from_the_run(self):
        for name, told in (("log.txt", "goes on without its log"), (".", "there is no report")):
            process = self.lose(self.immutable(name), run=f"run {name}")
            self.assertEqual(process.returncode, 0, process.text)
            self.assertEqual(process.text.count(told), 1, process.text)
            self.assert_same_run(process.run, self.whole())

    def test_a_removed_log_is_begun_anew(self):
        process = self.lose(lambda run: (run / "log.txt").unlink())
        self.assertEqual(process.returncode, 0, process.text)
        self.assertIn("removed or replaced while the run went on", (process.run / "log.txt").read_text())
        self.assert_same_run(process.run, self.whole())

    def test_where_nothing_can_be_saved_it_says_so(self):
        def bury(run):  # under a file, in which no folder can be made
            shutil.rmtree(run.parent)
            run.parent.write_text("")

        process = self.lose(bury, run="deep/run")
        self.assertEqual(process.returncode, 4, process.text)
        self.assertIn("could not be saved", process.text)
        self.assertIn("a file is in the way", process.text)

    def test_at_any_call_of_a_save_the_other_folder_stays_as_it_is(self):
        """The folder is swapped while a system call of a save waits: neither what comes before nor after touches it."""
        self.require_strace()
        other = self.folder / "other"
        self.assert_exit(train(other, train={"steps": 2}), 0)
        moments = [("renameat,renameat2,rename", 3), ("fsync", 12)]
        # A save has a thread of its own, which renames and removes so many files.
        moments += support.count([], [("mkdirat,mkdir", 2), ("unlinkat,unlink", 6), ("renameat,renameat2,rename", 9), ("unlinkat,unlink", 11)])
        for call, number in moments:
            run, log = self.folder / f"{call} {number}", self.folder / f"{call} {number} log"
            prefix = ["strace", "-f", "--seccomp-bpf", "-o", str(log), "-e", f"trace={call}",
                      "-e", f"inject={call}:delay_enter=2000000:when={number}"]

            def waits():  # a thread has called so often; what is in the log of the last call is its beginning
                calls = re.findall(rf"^(\d+) +(?:{call.replace(',', '|')})\(", log.read_text(), re.M) if log.exists() else []
                return max(collections.Counter(calls).values(), default=0) >= number

            process = subprocess.Popen([*prefix, support.KEEL, "train", support.QUICKSTART, *support.settings(
                run={"dir": run}, train={"steps": 40}, checkpoint={"every": 1, "keep": 1}, eval={"prompts": 0})],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(process.kill)
            self.assertTrue(support.wait_for(process, waits), call)
            run.rename(self.folder / f"{call} {number} moved")
            shutil.copytree(other, run)
            self.assertNotIn("(DELAYED)", log.read_text())  # which says that the call was let go
            text = process.communicate(timeout=120)[0]
            self.assertEqual(process.returncode, 4, f"{call} {number}\n{text}")
            self.assertIn("moved to", text)
            self.assertEqual(tree(run), tree(other), f"{call} {number}")


if __name__ == "__main__":
    support.main()
