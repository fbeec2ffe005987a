"""Run folders: which are rejected, replaced or continued; a rejection changes nothing."""

import fcntl
import hashlib
import json
import os
import shutil
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
        self.assertEqual(support.checkpoints(run)[-1], "step-000009")  # 8 of SFT, 1 of RL
        self.assertIn("seed: 3", (run / "config.yaml").read_text())

    def test_the_first_line_is_the_device(self):
        result = train(self.folder / "run", objective={"method": "ppo"}, train={"steps": 1})
        self.assert_exit(result, 0)
        self.assertTrue(result.stdout.startswith("device: cpu"), result.stdout)
        self.assertIn("objective.method ppo uses group advantages", result.stdout)

    def test_quickstart_replaces_only_its_own_run_in_its_own_place(self):
        short = [f"{key}={value}" for key, value in support.SMALL.items() if key.split(".")[0] in ("sft", "train", "rollout", "eval")]

        def quickstart(*arguments):
            return keel("quickstart", *short, *arguments, cwd=self.folder)

        mine, own = self.folder / "mine", self.folder / "runs" / "quickstart"
        self.assert_exit(train(mine, train={"steps": 1}), 0)
        before = tree(mine)
        self.assert_refused(quickstart("run.dir=mine"), 2, "mine", "another run", "--overwrite")
        self.assertEqual(tree(mine), before)
        mine.parent.joinpath("runs").mkdir()
        mine.rename(own)
        self.assert_refused(quickstart(), 2, "runs/quickstart", "another run")
        self.assertEqual(tree(own), before)
        self.assert_exit(quickstart("--overwrite", "run.seed=1"), 0)
        before = tree(own)
        for other in ("run.seed=2", "objective.method=drpo", "optimizer.lr=0.5"):
            self.assert_refused(quickstart(other), 2, "with other settings", "--overwrite")
        self.assertEqual(tree(own), before)
        again = quickstart("run.seed=1")  # a second time
        self.assert_exit(again, 0)
        self.assertIn("keel quickstart objective.method=grpo run.dir=runs/grpo ", again.stdout)
        self.assertIn("keel report runs/quickstart runs/grpo ", again.stdout)

        clip = quickstart("objective.method=grpo", "run.dir=runs/grpo")  # a link back to the first folder
        self.assert_exit(clip, 0)
        self.assertNotIn("keel quickstart", clip.stdout)
        self.assertIn("keel report runs/quickstart runs/grpo ", clip.stdout)
        self.assert_refused(keel("report", "runs/grpo", "runs/quickstart/../grpo", cwd=self.folder), 2, "the same run", "once")

    def test_a_run_that_failed_before_its_first_checkpoint_starts_again(self):
        run, reward = self.folder / "run", self.folder / "reward.py"
        sections = {"reward": {"functions": json.dumps([f"python:{reward}"]), "python": sys.executable}, "sft": {"steps": 0, "noisy_steps": 0}}
        reward.write_text("def reward(completions, **columns):\n    raise ValueError('no tea')\n")
        failed = train(run, **sections)
        self.assert_exit(failed, 5, "no tea", "reward.on_error")
        self.assertNotIn("--resume", failed.stderr)
        self.assertNotIn("continue", failed.stderr)
        self.assert_refused(train(run, "--resume", **sections), 3, "no valid checkpoint", "without --resume")
        reward.write_text("def reward(completions, **columns):\n    return [0.5] * len(completions)\n")
        again = train(run, **sections)
        self.assert_exit(again, 0, f"replacing the run in {run}, which ended before its first checkpoint")
        self.assertNotIn("no tea", (run / "log.txt").read_text())
        self.assert_refused(train(run, **sections), 2, "exists already", "--resume", "--overwrite")

    def test_a_run_whose_checkpoints_were_removed_is_replaced_only_when_asked_to(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        shutil.rmtree(run / "checkpoints")
        before = tree(run)
        refused = train(run, train={"steps": 1})
        self.assert_refused(refused, 2, "exists already, without a checkpoint", "--overwrite")
        self.assertNotIn("--resume", refused.stderr)
        self.assertEqual(tree(run), before)
        self.assert_refused(train(run, "--resume", train={"steps": 1}), 3, "no valid checkpoint", "--overwrite")

    def test_a_running_run_without_a_checkpoint_is_not_replaced(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "config.yaml").write_text("# The full, resolved configuration of this run.\n")
        descriptor = os.open(run, os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        before = tree(run)
        self.assert_refused(train(run), 2, "in use by another process")
        self.assertEqual(tree(run), before)

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
        self.assertIn("contains no run", train(run, "--overwrite").stderr)
        self.assert_refused(train(run / "thesis.tex", "--overwrite"), 2, "thesis.tex")
        self.assertEqual(tree(run), {"thesis.tex": b"ten years"})

    def test_a_configuration_file_alone_is_not_a_run(self):
        """Users also name their own file config.yaml and set run.dir to its folder."""
        run = self.folder / "project"
        run.mkdir()
        for name in ("config.yaml", "metrics.jsonl", "used.json", "log.txt"):
            (run / name).write_text('{"mine": 1}')
        before = tree(run)
        for flags in ((), ("--overwrite",)):
            self.assert_refused(train(run, *flags), 2, "contains no run", "another run.dir")
        self.assertEqual(tree(run), before)

    def test_an_overwrite_removes_only_files_of_the_run(self):
        run = self.folder / "run"
        short = {"train": {"steps": 1}, "reference": {"kl_coefficient": 0.05}}
        self.assert_exit(train(run, **short), 0)
        self.assert_exit(keel("report", run), 0)
        (run / "checkpoints").rename(run / "cp2")  # a user's copy
        (run / "checkpoints").mkdir()
        (run / "thesis.tex").write_text("ten years")
        (run / "checkpoints" / "step-000777").mkdir()
        for name in ("notes", "step-000777/mine", "step-000778"):
            (run / "checkpoints" / name).write_text("mine")
        shutil.copytree(run / "cp2" / "step-000009", run / "checkpoints" / "step-000900")  # a copy of the run's checkpoint
        (run / "checkpoints" / "step-000900" / "mine").write_text("mine")
        kept = {"thesis.tex", "cp2", "checkpoints/notes", "checkpoints/step-000777", "checkpoints/step-000778", "checkpoints/step-000900",
                "checkpoints/step-900000"}
        other = self.folder / "other"
        self.assert_exit(train(other, **short), 0)
        shutil.copytree(other / "checkpoints" / "step-000009", run / "checkpoints" / "step-900000")
        (run / "reference" / "paper.pdf").write_text("mine")
        for name in ("checkpoints/step-77/state.json", "checkpoints/step-78/manifest.json", "checkpoints/step-000099.partial/thesis.txt",
                     "checkpoints/step-000098.replaced/model.safetensors", "checkpoints/LATEST.partial/y",
                     "log.txt.damaged-notes", "metrics.jsonl.damagedx", "config.yaml.replaced", "report.html.notes"):
            (run / name).parent.mkdir(exist_ok=True)
            (run / name).write_text("mine")
            kept.add(os.path.dirname(name) if name.count("/") else name)
        before = {name: text for name, text in tree(run).items() if any(f"{name}/".startswith(f"{other}/") for other in kept)}
        self.assert_exit(train(run, "--overwrite", **short), 0)
        after = tree(run)
        self.assertEqual({name: after.get(name) for name in before}, before)
        self.assertEqual(after["reference.other/paper.pdf"], b"mine")  # an obstacle at a path of the new run is moved aside
        self.assertEqual(set(os.listdir(run / "checkpoints")), {"LATEST", "step-000008", "step-000009"} | {
            os.path.basename(name) for name in kept if name.startswith("checkpoints/")})
        self.assert_exit(train(run, "--resume", **{**short, "train": {"steps": 2}}), 0)
        self.assertEqual((run / "checkpoints" / "step-000778").read_text(), "mine")

    def test_an_overwrite_may_read_a_user_file_in_the_folder_but_no_file_of_the_run(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 0}), 0)
        config, rows = self.folder / "own.json", run / "rows.jsonl"
        rows.write_text('{"prompt": "<bos> 1 =", "answer": "1"}\n' * 4)
        own = {"model": {"path": str(shutil.copytree(run / "checkpoints" / support.checkpoints(run)[-1], self.folder / "model"))},
               "rollout": {"max_new_tokens": 4}, "train": {"steps": 1, "prompts_per_step": 2}, "run": {"dir": str(run), "threads": 1}}
        for file, code in ((run / "metrics.jsonl", 2), (rows, 0)):
            config.write_text(json.dumps({**own, "data": {"files": [str(file)]}}))
            result = keel("train", config, "--overwrite")
            self.assert_exit(result, code)
        self.assertTrue(rows.exists())

    def test_a_killed_overwrite_can_be_repeated(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "config.yaml").write_text("# The full, resolved configuration of this run.\n")  # config.yaml is removed last
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
        self.assert_exit(train(run, "--overwrite", train={"steps": 0}), 0)  # the folder is free again, even after a kill

    def test_an_unexpanded_tilde_is_refused(self):
        study = self.folder / "s.yaml"
        study.write_text("base: {train: {steps: 1}}\nvariants: {a: {}}\n")
        for setting, command in (("run.dir", ("train",)), ("study.dir", ("study", study))):
            refused = keel(*command, f"{setting}=~/x", cwd=self.folder)
            self.assert_refused(refused, 2, f"{setting} is ~/x", "$HOME/x", "./~/x")
        self.assertFalse((self.folder / "~").exists())
        self.assert_exit(train("./~/x", cwd=self.folder, train={"steps": 1}), 0)
        self.assertTrue((self.folder / "~" / "x" / "checkpoints").exists())

    def test_an_empty_folder_and_missing_parents_are_fine(self):
        (self.folder / "empty").mkdir()
        for run in (self.folder / "empty", self.folder / "a" / "b" / "c"):
            self.assert_exit(train(run, train={"steps": 0}, sft={"steps": 1, "noisy_steps": 0}), 0)

    def test_an_unwritable_path_is_named(self):
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


class Resume(support.Test):
    def test_without_a_run_or_a_checkpoint_is_a_bad_input(self):
        run = self.folder / "run"
        self.assert_refused(train(run, "--resume"), 3, str(run), "remove --resume")
        self.assertEqual(os.listdir(self.folder), [])
        run.mkdir()
        for text, way_out in (("", "remove --resume"), ("# The full, resolved configuration of this run.\n", "without --resume")):
            (run / "config.yaml").write_text(text)
            self.assert_refused(train(run, "--resume"), 3, str(run), "no valid checkpoint", way_out)
            self.assertEqual(tree(run), {"config.yaml": text.encode()})

    def test_resumes_from_the_newest_checkpoint_even_if_the_latest_link_changed(self):
        run, other = self.folder / "run", self.folder / "other"
        for folder in (run, other):
            self.assert_exit(train(folder, train={"steps": 1}, run={"seed": 1 if folder == other else 0}), 0)
        shutil.copytree(other / "checkpoints" / "step-000009", run / "checkpoints" / "step-900000")
        latest, used = run / "checkpoints" / "LATEST", (run / "used.json").read_text()
        for text in (None, "step-900000\n", f"../../other/checkpoints/step-000009", "x" * 5000, "step-000001"):
            latest.unlink(missing_ok=True) if text is None else latest.write_text(text)
            result = keel("convert", run, self.folder / "model")
            self.assert_exit(result, 0)
            self.assertIn("step-000009", result.stdout + result.stderr)
            self.assertEqual((self.folder / "model" / "model.safetensors").read_bytes(),
                             (run / "checkpoints" / "step-000009" / "model.safetensors").read_bytes())
            shutil.rmtree(self.folder / "model")
        (run / "used.json").unlink()
        for result in (keel("convert", run, self.folder / "model"), train(run, "--resume", train={"steps": 1})):
            self.assert_refused(result, 3, str(run / "checkpoints"), "no checkpoint of this run", "step-900000")
        (run / "used.json").write_text(used)
        self.assert_exit(train(run, "--resume", train={"steps": 2}), 0)
        self.assertEqual(latest.read_text(), "step-000010\n")

    def test_with_other_settings_names_them_and_changes_nothing(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        before = tree(run)
        result = train(run, "--resume", train={"steps": 1}, optimizer={"lr": 0.5}, run={"seed": 9})
        self.assert_refused(result, 2, "optimizer.lr: 0.0002 then, 0.5 now", "run.seed: 0 then, 9 now", "another run.dir")
        self.assertNotIn("train.steps", result.stderr)
        self.assertEqual(tree(run), before)

    def test_reports_a_changed_reward_file(self):
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

    def test_may_change_the_length_and_what_is_saved(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        result = train(run, "--resume", train={"steps": 2, "tokens_per_batch": 512},
                       checkpoint={"keep": 1, "every": 0}, record={"samples_per_step": 1}, run={"threads": 2})
        self.assert_exit(result, 0)
        self.assertIn("train.tokens_per_batch: 16384 then, 512 now", result.stdout)
        self.assertIn("run.threads: 1 then, 2 now", (run / "log.txt").read_text())
        self.assertEqual(support.checkpoints(run), ["step-000010"])
        self.assertIn("  steps: 2\n", (run / "config.yaml").read_text())  # prints the current settings


class Report(support.Test):
    def test_of_a_missing_or_broken_run_is_a_bad_input(self):
        self.assert_refused(keel("report", self.folder / "none"), 3, "none", "not a run folder")
        run = self.folder / "run"
        run.mkdir()
        self.assert_refused(keel("report", run), 3, str(run), "metrics.jsonl")
        (run / "metrics.jsonl").write_text('{"phase": "rl", "step": 1}\nnot json\n{"phase": "rl", "step": 2}\n')
        self.assert_refused(keel("report", run), 3, "metrics.jsonl", "2")
        self.assertEqual(os.listdir(run), ["metrics.jsonl"])

    def test_of_changed_rows_warns(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        result = keel("report", run)
        self.assertNotIn("warning", result.stdout + result.stderr)
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        lines[2] = lines[2].replace('"sft/loss":', '"sft/loss":9', 1)
        (run / "metrics.jsonl").write_text("".join(lines))
        result = keel("report", run)
        self.assert_exit(result, 0)
        for part in ("metrics.jsonl", "line 3 ", "the report shows the changed rows"):
            self.assertIn(part, result.stdout + result.stderr)

    def test_of_a_fallen_held_out_score_warns(self):
        run = self.folder / "run"
        run.mkdir()
        evaluations = [(0, 0.45, 0.41, 0.49), (20, 0.40, 0.36, 0.44), (40, 0.31, 0.27, 0.35)]  # step, mean, interval
        for last, warned in ((2, False), (3, True)):  # only the last interval is below the one before
            rows = [{"phase": "eval", "step": step, "eval/accuracy": mean, "eval/low": low, "eval/high": high}
                    for step, mean, low, high in evaluations[:last]]
            (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            result = keel("report", run)
            self.assert_exit(result, 0)
            fall = "warning: run: Held-out accuracy fell from 40.0 % [36.0 %, 44.0 %] at step 20 to 31.0 % [27.0 %, 35.0 %] at step 40\n"
            self.assertEqual(result.stderr, fall if warned else "")

    def test_over_a_runs_data_or_the_curve_is_refused(self):
        run, link = self.folder / "run", self.folder / "link"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        before = tree(run)
        link.symlink_to(run)
        for option in ("-o", "--curve"):
            for name in ("metrics.jsonl", "config.yaml", "checkpoints/LATEST"):
                self.assert_refused(keel("report", run, option, run / name), 2, name, "did not write it")
        self.assert_refused(keel("report", run, "--curve", link / "report.html"), 2, "is where the report goes")
        self.assertEqual(tree(run), before)

    def test_replaces_an_earlier_one_and_nothing_else(self):
        run, page, picture = (self.folder / name for name in ("run", "page.html", "curve.svg"))
        self.assert_exit(train(run, train={"steps": 1}), 0)
        for _ in range(2):
            self.assert_exit(keel("report", run, "-o", page, "--curve", picture), 0)
        written = page.read_text(), picture.read_text()
        for there in ("mine", "<!doctype html>\n<html><body>mine</body></html>", "<svg xmlns='http://www.w3.org/2000/svg'></svg>"):
            own = self.folder / "own"
            own.write_text(there)
            self.assert_refused(keel("report", run, "-o", own, "--curve", picture), 2, str(own), "did not write it")
            self.assert_refused(keel("report", run, "-o", page, "--curve", own), 2, str(own), "did not write it")
            self.assertEqual(own.read_text(), there)
        self.assert_refused(keel("report", run, "-o", picture), 2, str(picture), "did not write it")
        self.assertEqual((page.read_text(), picture.read_text()), written)
        stream = self.folder / "stdout"  # like /dev/stdout, which is a link to a regular file here
        stream.symlink_to("/proc/self/fd/1")
        with open(self.folder / "said", "w") as said:
            result = subprocess.run([support.KEEL, "report", run, "-o", stream], stdout=said, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("a special file has that name", result.stderr)
        self.assertTrue(stream.is_symlink())

    def test_keeps_files_of_others(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        (self.folder / "r.html.partial").write_text("precious")
        (self.folder / "model.partial").mkdir()
        (self.folder / "model.partial" / "thesis.txt").write_text("precious")
        self.assert_exit(keel("report", run, "-o", self.folder / "r.html"), 0)
        self.assert_exit(keel("convert", run, self.folder / "model"), 0)
        self.assertEqual((self.folder / "r.html.partial").read_text(), "precious")
        self.assertEqual((self.folder / "model.partial" / "thesis.txt").read_text(), "precious")
        self.assertEqual(sorted(os.listdir(self.folder)), ["model", "model.partial", "r.html", "r.html.partial", "run"])

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
