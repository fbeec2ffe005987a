"""Where a run may live: what is refused, what is replaced, what is continued, and that refusals change nothing."""

import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys

import support
from support import keel, train, tree


class FolderOfARun(support.Test):
    def test_an_existing_run_is_continued_or_replaced_only_when_asked_to(self):
        run = self.folder / "run"
        self.assert_exit(train(run), 0)
        before = tree(run)
        self.assert_refused(train(run), 2, str(run), "exists already", "--resume", "--overwrite")
        self.assertEqual(tree(run), before)

        self.assert_exit(train(run, "--resume"), 0)
        after = tree(run)
        self.assertEqual({n: b for n, b in after.items() if n.startswith("checkpoints")},
                         {n: b for n, b in before.items() if n.startswith("checkpoints")})

        self.assert_exit(train(run, "--overwrite", run={"seed": 3}, train={"steps": 1}), 0)
        self.assertEqual(support.checkpoints(run)[-1], "step-000009")  # 8 of the warm-up, 1 of RL
        self.assertIn("seed: 3", (run / "config.yaml").read_text())

    def test_a_refused_overwrite_leaves_the_old_run(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 0}, sft={"steps": 1, "noisy_steps": 0}), 0)
        before = tree(run)
        for sections in ({"model": {"heads": 3}}, {"model": {"hidden_size": 1 << 20}}, {"train": {"steps": -1}}):
            self.assert_exit(train(run, "--overwrite", **sections), 2)
            self.assertEqual(tree(run), before)

    def test_a_folder_that_holds_no_run_is_never_replaced(self):
        run = self.folder / "precious"
        run.mkdir()
        (run / "thesis.tex").write_text("ten years")
        for flags in ((), ("--overwrite",)):
            self.assert_refused(train(run, *flags), 2, str(run))
            self.assertEqual(tree(run), {"thesis.tex": b"ten years"})
        self.assertIn("holds no run", train(run, "--overwrite").stderr)
        self.assert_refused(train(run / "thesis.tex", "--overwrite"), 2, "thesis.tex")
        self.assertEqual(tree(run), {"thesis.tex": b"ten years"})

    def test_an_overwrite_removes_nothing_that_is_not_the_runs(self):
        run = self.folder / "run"
        short = {"train": {"steps": 1}, "reference": {"kl_coefficient": 0.05}}
        self.assert_exit(train(run, **short), 0)
        self.assert_exit(keel("report", run), 0)
        (run / "checkpoints").rename(run / "cp2")  # to keep them, say
        (run / "checkpoints").mkdir()
        (run / "thesis.tex").write_text("ten years")
        (run / "checkpoints" / "step-000777").mkdir()
        for name in ("notes", "step-000777/mine", "step-000778"):
            (run / "checkpoints" / name).write_text("mine")
        shutil.copytree(run / "cp2" / "step-000009", run / "checkpoints" / "step-000900")  # a checkpoint, and the run's
        (run / "checkpoints" / "step-000901.partial").mkdir()
        others = {"thesis.tex", "cp2", "checkpoints/notes", "checkpoints/step-000777", "checkpoints/step-000778"}
        before = {name: text for name, text in tree(run).items() if any(f"{name}/".startswith(f"{other}/") for other in others)}
        self.assert_exit(train(run, "--overwrite", **short), 0)
        after = tree(run)
        self.assertEqual({name: after.get(name) for name in before}, before)
        log = (run / "log.txt").read_text()
        for other in others:
            self.assertIn(f"{other} is not a run's", log)
        self.assertEqual(sorted(os.listdir(run / "checkpoints")),
                         ["LATEST", "notes", "step-000008", "step-000009", "step-000777", "step-000778"])
        self.assert_exit(train(run, "--resume", **{**short, "train": {"steps": 2}}), 0)
        self.assertEqual((run / "checkpoints" / "step-000778").read_text(), "mine")

    def test_an_overwrite_that_was_killed_half_way_can_be_asked_for_again(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "config.yaml").write_text("# removed last\n")  # all that is left of a run then
        self.assert_exit(train(run, "--overwrite", train={"steps": 0}), 0)

    def test_belongs_to_one_process_at_a_time(self):
        run = self.folder / "run"
        first = support.start_train(run, train={"steps": 100000})
        try:
            self.assertTrue(support.wait_for(first, lambda: len(support.checkpoints(run)) > 0))
            for flag in ("--resume", "--overwrite"):
                self.assert_refused(train(run, flag, train={"steps": 100000}), 2, "in use by another process")
            self.assertIsNone(first.poll())
        finally:
            first.kill()
            first.wait()
        self.assert_exit(train(run, "--overwrite", train={"steps": 0}), 0)  # free again, even after a kill

    def test_an_empty_folder_and_missing_parents_are_fine(self):
        (self.folder / "empty").mkdir()
        for run in (self.folder / "empty", self.folder / "a" / "b" / "c"):
            self.assert_exit(train(run, train={"steps": 0}, sft={"steps": 1, "noisy_steps": 0}), 0)

    def test_a_place_that_cannot_be_written_is_named(self):
        self.assert_refused(train("/dev/null/x"), 2, "/dev/null", "choose another folder")
        self.assert_refused(train(self.folder / ("n" * 300)), 2, "nnn", "File name too long")
        (self.folder / "file").write_text("")
        self.assert_refused(train(self.folder / "file" / "run"), 2, "a file is in the way")
        self.assertEqual(os.listdir(self.folder), ["file"])

    def test_a_folder_without_permission_is_named(self):
        locked = self.folder / "locked"
        locked.mkdir()
        hidden = self.folder / "hidden"
        hidden.mkdir()
        locked.chmod(0o555)
        hidden.chmod(0o700 if os.geteuid() == 0 else 0o000)
        self.addCleanup(locked.chmod, 0o755)
        self.addCleanup(hidden.chmod, 0o755)
        prefix = []
        if os.geteuid() == 0:  # root may write anywhere
            prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            self.folder.chmod(0o755)
            tried = shutil.which("setpriv") and subprocess.run(
                [*prefix, support.KEEL, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if not tried or tried.returncode != 0:
                self.skipTest("cannot run the program as another user")
        for run in (locked / "run", hidden / "a" / "run"):
            result = train(run, prefix=prefix)
            self.assert_refused(result, 2, str(run.parent), "Permission denied", "permissions")
        self.assertEqual(os.listdir(locked) + os.listdir(hidden) if os.geteuid() == 0 else [], [])


# Long enough for something to happen to its folder, and no checkpoint but between the phases and at the end.
LONG = {"sft": {"steps": 12, "noisy_steps": 4}, "train": {"steps": 40}, "checkpoint": {"every": 0}}


def rows(folder):
    path = pathlib.Path(folder) / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


class FolderThatIsLost(support.Test):
    """What happens to a run's folder while it goes on: it notices, touches nothing of another's, and loses nothing."""

    def lose(self, lose, at_row=16, run="run", **sections):
        """A run whose folder something happens to, at once as it sees it, when it has written so many rows."""
        output, run = self.folder / f"{pathlib.Path(run).name}.output", self.folder / run
        sections = {**LONG, **sections, "run": {"dir": run}}
        process = support.start(output, "train", support.QUICKSTART, *support.settings(**sections))
        self.addCleanup(process.kill)
        self.assertTrue(support.wait_for(process, lambda: rows(run) >= at_row), process.output.read_text())
        process.run = run
        process.send_signal(signal.SIGSTOP)
        support.wait_for(process, lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        lose(run)
        process.send_signal(signal.SIGCONT)
        process.wait(timeout=60)
        process.text = process.output.read_text()
        return process

    def whole(self, **sections):
        whole = self.folder / "whole"
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
        self.assertLess(step, 12 + 40)  # it did not go on to the end

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
        self.assertEqual(sorted(os.listdir(self.folder)), ["moved away", "run.output", "whole"])

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
            for step in range(17, 12 + 40 + 1):
                (run / "checkpoints" / f"step-{step:06}").write_text("mine")

        for number, lose in enumerate((bury, occupy)):
            process = self.lose(lose, run=f"run{number}", checkpoint={"every": 4})
            self.assert_rescued(process, self.rescued(process), "cannot be saved where it is", checkpoint={"every": 4})
        self.assertEqual((process.run / "checkpoints" / "step-000052").read_text(), "mine")
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": 1}}), 0)  # from the sound ones

    def test_a_folder_in_place_of_the_hint_for_people_hinders_nobody(self):
        def replace(run):
            (run / "checkpoints" / "LATEST").unlink()
            (run / "checkpoints" / "LATEST").mkdir()

        process = self.lose(replace)
        self.assertEqual(process.returncode, 0, process.text)
        self.assert_same_run(process.run, self.whole())
        self.assert_exit(train(process.run, "--resume", **{**LONG, "train": {"steps": 41}}), 0)

    def test_a_removed_configuration_is_written_again(self):
        def remove(run):
            self.config = (run / "config.yaml").read_text()
            (run / "config.yaml").unlink()

        process = self.lose(remove)
        self.assertEqual(process.returncode, 0, process.text)
        self.assertEqual((process.run / "config.yaml").read_text(), self.config)
        self.assertIn("config.yaml was removed while the run went on", (process.run / "log.txt").read_text())
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
        probe = ["strace", "-f", "-e", "trace=none", "true"]
        if not shutil.which("strace") or subprocess.run(probe, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no strace, or it may not trace here")
        other = self.folder / "other"
        self.assert_exit(train(other, train={"steps": 2}), 0)
        for call, number in (("mkdirat,mkdir", 2), ("renameat,renameat2,rename", 3), ("renameat,renameat2,rename", 9),
                             ("unlinkat,unlink", 6), ("unlinkat,unlink", 30), ("fsync", 12)):
            run, log = self.folder / f"{call} {number}", self.folder / f"{call} {number} log"
            prefix = ["strace", "-f", "-o", str(log), "-e", f"inject={call}:delay_enter=3000000:when={number}"]
            process = subprocess.Popen([*prefix, support.KEEL, "train", support.QUICKSTART, *support.settings(
                run={"dir": run}, train={"steps": 40}, checkpoint={"every": 1, "keep": 1}, eval={"prompts": 0})],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(process.kill)
            self.assertTrue(support.wait_for(process, lambda: log.exists() and "(DELAYED)" in log.read_text()), call)
            run.rename(self.folder / f"{call} {number} moved")
            shutil.copytree(other, run)
            text = process.communicate(timeout=120)[0]
            self.assertEqual(process.returncode, 4, f"{call} {number}\n{text}")
            self.assertIn("moved to", text)
            self.assertEqual(tree(run), tree(other), f"{call} {number}")


class Resume(support.Test):
    def test_without_a_run_or_a_checkpoint_is_a_bad_input(self):
        run = self.folder / "run"
        self.assert_refused(train(run, "--resume"), 3, str(run), "leave out --resume")
        self.assertEqual(os.listdir(self.folder), [])
        run.mkdir()
        (run / "config.yaml").write_text("")
        self.assert_refused(train(run, "--resume"), 3, str(run), "no sound checkpoint", "--overwrite")
        self.assertEqual(tree(run), {"config.yaml": b""})

    def test_with_other_settings_names_them_and_changes_nothing(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        before = tree(run)
        result = train(run, "--resume", train={"steps": 1}, optimizer={"lr": 0.5}, run={"seed": 9})
        self.assert_refused(result, 2, "optimizer.lr: 0.0002 then, 0.5 now", "run.seed: 0 then, 9 now", "another run.dir")
        self.assertNotIn("train.steps", result.stderr)
        self.assertEqual(tree(run), before)

    def test_tells_of_a_reward_file_that_was_changed(self):
        run, file = self.folder / "run", self.folder / "reward.py"
        reward = {"functions": json.dumps([f"python:{file}"]), "python": sys.executable}
        file.write_text("def reward(completions, **kwargs): return [0.5] * len(completions)\n")
        self.assert_exit(train(run, reward=reward, train={"steps": 1}), 0)
        same = train(run, "--resume", reward=reward, train={"steps": 2})
        self.assertNotIn("was changed", same.stdout + same.stderr)
        before = hashlib.sha256(file.read_bytes()).hexdigest()
        file.write_text("def reward(completions, **kwargs): return [9.5] * len(completions)\n")
        after = hashlib.sha256(file.read_bytes()).hexdigest()
        changed = train(run, "--resume", reward=reward, train={"steps": 3})
        self.assert_exit(changed, 0)
        for text in (changed.stdout + changed.stderr, (run / "log.txt").read_text()):
            for part in (str(file), "was changed", before, after):
                self.assertIn(part, text)

    def test_may_change_how_long_it_goes_on_and_what_is_saved(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        result = train(run, "--resume", train={"steps": 2, "tokens_per_batch": 512, "agreement_limit": 0.5},
                       checkpoint={"keep": 1, "every": 0}, record={"samples_per_step": 1}, run={"threads": 2})
        self.assert_exit(result, 0)
        self.assertIn("train.tokens_per_batch: 16384 then, 512 now", result.stdout)
        self.assertIn("run.threads: 1 then, 2 now", (run / "log.txt").read_text())
        self.assertEqual(support.checkpoints(run), ["step-000010"])
        self.assertIn("  steps: 2\n", (run / "config.yaml").read_text())  # says what holds now


class Report(support.Test):
    def test_of_a_missing_or_broken_run_is_a_bad_input(self):
        self.assert_refused(keel("report", self.folder / "none"), 3, "none", "not a run folder")
        run = self.folder / "run"
        run.mkdir()
        self.assert_refused(keel("report", run), 3, str(run), "metrics.jsonl")
        (run / "metrics.jsonl").write_text('{"phase": "rl", "step": 1}\nnot json\n{"phase": "rl", "step": 2}\n')
        self.assert_refused(keel("report", run), 3, "metrics.jsonl", "2")
        self.assertEqual(os.listdir(run), ["metrics.jsonl"])

    def test_of_rows_that_were_changed_says_so(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        result = keel("report", run)
        self.assertNotIn("warning", result.stdout + result.stderr)
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        lines[2] = lines[2].replace('"sft/loss":', '"sft/loss":9', 1)
        (run / "metrics.jsonl").write_text("".join(lines))
        result = keel("report", run)
        self.assert_exit(result, 0)
        for part in ("metrics.jsonl", "line 3 ", "the report shows the rows as they are now"):
            self.assertIn(part, result.stdout + result.stderr)

    def test_that_cannot_be_written_names_the_path(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text('{"phase": "rl", "step": 1, "updates": 1, "reward/mean": 0.5}\n')
        output = self.folder / "no" / "r.html"
        self.assert_refused(keel("report", run, "-o", output), 2, str(output))
        self.assert_exit(keel("report", run), 0)
        self.assertTrue((run / "report.html").exists())


if __name__ == "__main__":
    support.main()
