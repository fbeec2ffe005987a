"""A resumed run has all that it needs to end with the same bits as one that was left alone.

That it does, wherever it was interrupted, is in tests/crash.
"""

import functools
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile

import own_files
import support
from support import keel, start_train, train, wait_for


def stops(*steps):
    """After which steps a run is stopped: one run after each of these in turn, or one run for each."""
    return support.count([steps], [(step,) for step in steps])


def train_in_parts(trained, steps, last):
    """Calls trained(*flags, steps=...) for each part of a run that is stopped after these steps and goes on to the last."""
    for number, step in enumerate((*steps, last)):
        trained(*(["--resume"] if number else []), steps=step)


class AskedToStop(support.Test):
    def test_a_second_signal_ends_the_run_at_once(self):
        run = self.folder / "run"
        process = start_train(run, sft={"steps": 2, "noisy_steps": 0}, eval={"prompts": 50000})
        self.assertTrue(wait_for(process, lambda: "self-test" in process.output.read_text()))
        process.send_signal(signal.SIGINT)
        self.assertTrue(wait_for(process, lambda: "once more to stop at once" in process.output.read_text()))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 75)
        self.assertNotIn("held-out accuracy", process.output.read_text())  # the evaluation was not waited for
        support.verify_checkpoint(run / "checkpoints" / "step-000002")

    def test_a_second_signal_before_anything_is_saved_does_not_promise_that_the_run_can_be_resumed(self):
        run = self.folder / "run"
        process = start_train(run, sft={"steps": 1000000, "noisy_steps": 0, "batch": 16384}, checkpoint={"every": 0})
        self.assertTrue(wait_for(process, lambda: (run / "metrics.jsonl").exists()))
        process.send_signal(signal.SIGINT)
        self.assertTrue(wait_for(process, lambda: "once more to stop at once" in process.output.read_text()))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), -signal.SIGTERM)
        self.assertEqual(support.checkpoints(run), [])


class WithMoreThanWeights(support.Test):
    """What a run must remember beside its own weights: the reference policy, and thresholds that moved."""

    EXTRA = {"objective": {"adapt_target_kept": 0.8, "adapt_rate": 0.5}, "reference": {"kl_coefficient": 0.05},
             "optimizer": {"lr": 0.01}, "eval": {"prompts": 0}}

    def trained(self, run, *flags, steps):
        self.assert_exit(train(run, *flags, **{**self.EXTRA, "train": {"steps": steps}}), 0)

    def test_it_goes_on_to_the_same_bits(self):
        whole = self.folder / "whole"
        self.trained(whole, steps=6)
        reference = (whole / "reference" / "model.safetensors").read_bytes()
        rl = [row for row in support.metrics(whole) if row["phase"] == "rl"]
        deltas = [row["trust_region/delta_high"] for row in rl]
        self.assertEqual(deltas[0], 0.15)
        self.assertEqual(len(set(deltas)), 6)  # they moved, every time
        self.assertTrue(all(row["optimizer/grad_norm"] > 0 and row["policy/kl_reference"] > 0 for row in rl))
        self.assertGreater(rl[-1]["policy/kl_reference"], 0.01)
        for steps in stops(0, 1, 4):  # 0: only the warm-up
            run = self.folder / f"after {steps}"
            train_in_parts(functools.partial(self.trained, run), steps, 6)
            self.assert_same_run(run, whole)
            self.assertEqual((run / "reference" / "model.safetensors").read_bytes(), reference)
            self.assertEqual([p.name for p in run.rglob("*.partial")], [])

    def test_the_reference_is_the_policy_after_the_warm_up_and_a_model_folder(self):
        run = self.folder / "run"
        self.trained(run, steps=0)
        last = run / "checkpoints" / support.checkpoints(run)[-1]
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            self.assertEqual((run / "reference" / name).read_bytes(), (last / name).read_bytes(), name)

    def test_a_damaged_reference_is_refused_and_nothing_changes(self):
        run = self.folder / "run"
        self.trained(run, steps=2)
        path = run / "reference" / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        before = support.tree(run)
        result = train(run, "--resume", **{**self.EXTRA, "train": {"steps": 3}})
        self.assert_refused(result, 3, "reference", "model.safetensors has another checksum", "--overwrite")
        self.assertEqual(support.tree(run), before)

    def adapted(self, run, *flags, steps, **more):
        sections = {**self.EXTRA, "lora": {"rank": 2}, "train": {"steps": steps, "sequences_per_update": 0}, **more}
        self.assert_exit(train(run, *flags, **sections), 0)

    def first_pull(self, run):
        return [row["policy/kl_reference"] for row in support.metrics(run) if row["phase"] == "rl"]

    def test_an_adapters_reference_is_its_own_beginning_and_no_second_model(self):
        fresh = {"sft": {"steps": 0, "noisy_steps": 0}}
        trained = {"sft": {"steps": 30, "noisy_steps": 3, "lr": 0.01}}
        for name, more, files in (("fresh", fresh, {"manifest.json"}),
                                  ("trained", trained, {"manifest.json", "adapter_config.json", "adapter_model.safetensors"})):
            whole = self.folder / name
            self.adapted(whole, steps=4, **more)
            self.assertEqual({p.name for p in (whole / "reference").iterdir()}, files)
            pulls = self.first_pull(whole)
            self.assertEqual(pulls[0], 0)  # one update in a step: the first sees the policy that RL starts from
            self.assertGreater(min(pulls[1:]), 0)
            for steps in stops(0, 1, 3):
                run = self.folder / f"{name} after {steps}"
                train_in_parts(functools.partial(self.adapted, run, **more), steps, 4)
                self.assert_same_run(run, whole)

    def test_a_damaged_reference_of_an_adapter_is_refused(self):
        run = self.folder / "run"
        self.adapted(run, steps=1)
        for name in ("adapter_model.safetensors", "adapter_config.json", "manifest.json"):
            path = run / "reference" / name
            data = path.read_bytes()
            for damage in (lambda: path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]), path.unlink):
                damage()
                sections = {**self.EXTRA, "lora": {"rank": 2}, "train": {"steps": 2, "sequences_per_update": 0}}
                self.assert_refused(train(run, "--resume", **sections), 3, "reference", name, "--overwrite")
            path.write_bytes(data)
        self.adapted(run, "--resume", steps=2)

    def test_a_run_without_a_pull_has_no_reference(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        self.assertFalse((run / "reference").exists())


class WithASamplerBehind(support.Test):
    """Batches that are under way at a checkpoint are sampled again, with the weights that they were sampled with. The warm-up is long
    enough for rewards that differ."""

    EXTRA = {"task": {"steps": 1, "modulus": 2}, "sft": {"steps": 60, "noisy_steps": 3, "lr": 0.01}, "eval": {"prompts": 0},
             "optimizer": {"lr": 0.01}, "checkpoint": {"every": 31}}

    def trained(self, run, *flags, steps, **more):
        self.assert_exit(train(run, *flags, **{**self.EXTRA, **more, "train": {"steps": steps}}), 0)

    def test_it_goes_on_to_the_same_bits(self):
        for name, more in (("all weights", {"rollout": {"staleness": 1}, "objective": {"method": "tis"}}),
                           ("an adapter", {"rollout": {"staleness": 1}, "lora": {"rank": 2}}),
                           ("groups dropped", {"rollout": {"staleness": 2, "dynamic_sampling": True, "max_batches": 2}})):
            whole = self.folder / name
            self.trained(whole, steps=5, **more)
            rl = [row for row in support.metrics(whole) if row["phase"] == "rl"]
            self.assertTrue(any(row["policy/kl_behavior"] > 1e-4 for row in rl))
            if name == "groups dropped":
                self.assertGreater(sum(row["rollout/groups_dropped"] for row in rl), 0)
                self.assertGreater(min(row["rollout/groups"] for row in rl), 0)
            else:  # two updates in a step
                self.assertEqual([row["rollout/staleness"] for row in rl], [0, 2, 2, 2, 2])
            for steps in stops(*support.count((1, 3), range(5))):
                run = self.folder / f"{name} after {steps}"
                train_in_parts(functools.partial(self.trained, run, **more), steps, 5)
                self.assert_same_run(run, whole)
                shutil.rmtree(run)

    def test_another_staleness_would_be_another_run(self):
        run = self.folder / "run"
        self.trained(run, steps=1, rollout={"staleness": 1})
        result = train(run, "--resume", **self.EXTRA, rollout={"staleness": 2}, train={"steps": 2})
        self.assert_refused(result, 2, "rollout.staleness: 1 then, 2 now")


class WithCritic(support.Test):
    """The critic, its moments and its count of updates come back too; the policy waits for it for two of six steps. A
    critic learns from rewards, so the warm-up is long enough for some."""

    EXTRA = {"task": {"steps": 1, "modulus": 2}, "sft": {"steps": 70, "lr": 0.01, "batch": 32}, "eval": {"prompts": 0},
             "objective": {"method": "ppo_gae", "entropy_coefficient": 0}, "checkpoint": {"every": 36}}

    def trained(self, run, body, *flags, steps):
        result = train(run, *flags, **self.EXTRA, train={"steps": steps},
                       critic={"body": body, "warmup_steps": 2, "lr": 0.01})
        self.assert_exit(result, 0)
        return result.stdout

    def test_a_resumed_run_has_the_same_critic(self):
        for body, files in (("shared", {"critic.safetensors"}),
                            ("separate", {"critic/config.json", "critic/model.safetensors"})):
            whole = self.folder / body
            self.trained(whole, body, steps=6)
            last = whole / "checkpoints" / support.checkpoints(whole)[-1]
            support.verify_checkpoint(last)
            self.assertLessEqual(files, set(json.loads((last / "manifest.json").read_text())["files"]))
            rl = [row for row in support.metrics(whole) if row["phase"] == "rl"]
            self.assertTrue(all(row["critic/grad_norm"] > 0 and row["critic/lr"] == 0.01 for row in rl))
            self.assertEqual([row["updates"] for row in rl], [70, 70, 72, 74, 76, 78])  # 70 of the supervised warm-up
            self.assertNotEqual(rl[-1]["critic/value_mean"], 0)
            for steps in stops(0, 3, 4):  # 0: only the supervised warm-up
                run = self.folder / f"{body} after {steps}"
                train_in_parts(functools.partial(self.trained, run, body), steps, 6)
                self.assert_same_run(run, whole)

    def test_a_damaged_critic_is_a_damaged_checkpoint(self):
        for body, file in (("shared", "critic.safetensors"), ("separate", "critic/model.safetensors")):
            whole, run = self.folder / body, self.folder / f"{body} damaged"
            self.trained(whole, body, steps=4)
            shutil.copytree(whole, run)
            older, newest = support.checkpoints(run)
            path = run / "checkpoints" / newest / file
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
            output = self.trained(run, body, "--resume", steps=4)
            self.assertIn(f"{newest} is damaged ({file} has another checksum", output)
            self.assertIn(f"resumed from {run}/checkpoints/{older}", output)
            self.assert_same_run(run, whole)


class Elsewhere(support.Test):
    def test_a_run_is_resumed_by_its_configuration_from_any_folder(self):
        (self.folder / "a").mkdir()
        (self.folder / "b").mkdir()
        self.assert_exit(train("runs/x", cwd=self.folder / "a", train={"steps": 1}), 0)
        config = self.folder / "a" / "runs" / "x" / "config.yaml"
        self.assertIn(f"dir: {self.folder}/a/runs/x\n", config.read_text())
        result = keel("train", "../a/runs/x/config.yaml", "--resume", "train.steps=2", cwd=self.folder / "b")
        self.assert_exit(result, 0)
        self.assertEqual(support.checkpoints(self.folder / "a" / "runs" / "x")[-1], "step-000010")
        self.assertFalse((self.folder / "b" / "runs").exists())

    def test_reward_files_are_found_from_any_folder(self):
        start, other = self.folder / "it's a folder", self.folder / "b"
        start.mkdir()
        other.mkdir()
        (start / "mine.py").write_text("def reward(completions, **columns):\n    return [len(c) % 3 / 2 for c in completions]\n")
        (start / "answer.py").write_text("import json, sys\nprint('words', open(sys.argv[1]).read(), file=sys.stderr)\n"
                                         "for line in sys.stdin:\n"
                                         "    row = json.loads(line)\n"
                                         "    print(json.dumps([0.5] * len(row['completions'])), flush=True)\n")
        (start / "words.txt").write_text("w")
        (start / "python").symlink_to(sys.executable)
        functions = ["python:mine.py:reward @chains", "exec:python3 answer.py ./words.txt", "task"]
        rewards = {"functions": json.dumps(functions), "python": "./python"}
        whole = {"cwd": start, "reward": rewards, "train": {"steps": 3}}
        self.assert_exit(train("whole", **whole), 0)
        self.assert_exit(train("run", **{**whole, "train": {"steps": 2}}), 0)
        config = (start / "run" / "config.yaml").read_text()
        for name in ("mine.py", "python"):  # the others' words are quoted
            self.assertIn(f"{start}/{name}", config)
        self.assert_exit(keel("train", start / "run" / "config.yaml", "--resume", "train.steps=3", cwd=other), 0)
        rl = [row for row in support.metrics(start / "whole") if row["phase"] == "rl"]
        self.assertEqual([key for key in rl[0] if key.startswith("reward/function/")],
                         [f"reward/function/{function}" for function in
                          ("python:mine.py:reward @chains", "exec:python3 answer.py words.txt", "task")])
        self.assertEqual([row for row in support.metrics(start / "run") if row["phase"] == "rl"], rl)
        for name in self.final_files(start / "whole"):
            self.assertEqual((start / "run" / name).read_bytes(), (start / "whole" / name).read_bytes(), name)
        # From the folder that it was started in, by the names that were given then.
        self.assert_exit(train("run", "--resume", **{**whole, "train": {"steps": 4}}), 0)

    def test_a_run_that_was_moved_says_what_to_set(self):
        self.assert_exit(train(self.folder / "old", train={"steps": 1}), 0)
        (self.folder / "old").rename(self.folder / "new")
        config = self.folder / "new" / "config.yaml"
        result = keel("train", config, "--resume", "train.steps=2")
        self.assert_refused(result, 3, f"{self.folder}/old", "run.dir=FOLDER", "moved")
        self.assert_exit(keel("train", config, "--resume", "train.steps=2", f"run.dir={self.folder}/new"), 0)


class MovedProject(own_files.Test):
    def test_a_run_follows_its_files_to_another_place(self):
        def place(folder):
            return (f"model.path={folder / self.model.name}", f'data.files=["{folder / self.data.name}"]',
                    f'data.eval_files=["{folder / self.data.name}"]', f'reward.functions=["python:{folder / self.reward.name}:compute_score"]')

        project, new = self.folder / "project", self.folder / "new"
        project.mkdir()
        for path in (self.model, self.data, self.reward):
            path.rename(project / path.name)
        for name, sections in (("whole weights", {}), ("adapter", {"lora": {"rank": 2}})):
            with self.subTest(name):
                self.assert_exit(self.train("run", *place(project), "train.steps=1", "--overwrite", **sections), 0)
                project.rename(new)
                config = self.folder / "run" / "config.yaml"
                self.assert_exit(keel("train", config, "--resume", "train.steps=2", *place(new)), 0)
                # What is in them must still be the same.
                rows = (new / self.data.name).read_text()
                (new / self.data.name).write_text(rows.replace("sums", "SUMS"))
                self.assert_refused(keel("train", config, "--resume", "train.steps=3"), 3, "data.files: the rows are not those")
                (new / self.data.name).write_text(rows)
                other = keel("train", config, "--resume", "train.steps=3", f'data.files=["{self.folder}/other.jsonl"]')
                self.assert_refused(other, 2, "data.files", "other settings")
                new.rename(project)

    def test_another_reward_is_no_moved_file(self):
        judge = self.write("judge.py", "import json, sys\nfor line in sys.stdin:\n    print(json.dumps([1] * len(json.loads(line)"
                           "['completions'])), flush=True)\n")
        other = shutil.copy(judge, self.folder / "other.py")
        for then, now in (("pattern:.*</think>.*</answer>", "pattern:.*</b>OTHER</answer>"),
                          (f"exec:python3 {judge} {self.data}", f"exec:python3 {other} {self.data}"),
                          (f"exec:python3 {judge} --scale 1 {self.data}", f"exec:python3 {judge} --scale 9 {self.data}")):
            with self.subTest(then):
                self.assert_exit(self.train("run", "train.steps=1", "--overwrite", reward={"functions": [then]}), 0)
                resumed = self.train("run", "train.steps=2", "--resume", reward={"functions": [now]})
                self.assert_refused(resumed, 2, "reward.functions", "other settings")
                self.assert_exit(self.train("run", "train.steps=2", "--resume", reward={"functions": [then]}), 0)

    def test_another_reward_file_of_the_same_name_is_told_by_its_content(self):
        self.assert_exit(self.train("run", "train.steps=1"), 0)
        there = self.folder / "there"
        there.mkdir()
        now = {"functions": [f"python:{shutil.copy(self.reward, there)}:compute_score"]}
        moved = self.train("run", "train.steps=2", "--resume", reward=now)
        self.assert_exit(moved, 0)
        self.assertNotIn("is another than", moved.stdout)
        (self.folder / "other").mkdir()
        other = self.write("other/reward.py", self.reward.read_text().replace("/ 10", "/ 20"))
        changed = self.train("run", "train.steps=3", "--resume", reward={"functions": [f"python:{other}:compute_score"]})
        self.assert_exit(changed, 0)
        self.assertRegex(changed.stdout, f"reward file {other} is another than {there}/reward.py: sha256:[0-9a-f]+ when the run was last "
                                         "started, sha256:[0-9a-f]+ now")

    def test_another_adapter_of_the_same_name_is_no_moved_adapter(self):
        adapters = []
        for number, name in enumerate(("one", "two")):
            self.assert_exit(self.train(name, "train.steps=1", f"run.seed={number}", lora={"rank": 2}), 0)
            adapter = self.folder / name / "checkpoints" / support.checkpoints(self.folder / name)[-1] / "adapter"
            adapters.append(shutil.copytree(adapter, self.folder / f"in {name}" / "mine"))
        self.assert_exit(self.train("run", "train.steps=1", lora={"adapter": str(adapters[0])}), 0)
        moved = shutil.copytree(adapters[0], self.folder / "moved" / "mine")
        self.assert_exit(self.train("run", "train.steps=2", "--resume", lora={"adapter": str(moved)}), 0)
        self.assert_refused(self.train("run", "train.steps=3", "--resume", lora={"adapter": str(adapters[1])}), 2, "lora.adapter",
                            str(adapters[1]), "other weights than what the run was started from", str(moved))

    def test_another_model_of_the_same_name_is_no_moved_model(self):
        self.assert_exit(self.train("run", "train.steps=1"), 0)
        there = self.folder / "there" / self.model.name
        shutil.copytree(self.model, there)
        self.assert_exit(self.train("run", "train.steps=2", f"model.path={there}", "--resume"), 0)
        other = self.folder / "elsewhere" / self.model.name
        shutil.copytree(self.folder / "run" / "checkpoints" / support.checkpoints(self.folder / "run")[-1], other)
        self.assert_refused(self.train("run", "train.steps=3", f"model.path={other}", "--resume"), 2, "model.path", str(other), "other weights")


class Rows(support.Test):
    """What a run has written about itself is what it finds again, or it says where it is not."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="keel_cli_")
        cls.addClassCleanup(folder.cleanup)
        cls.whole, cls.run_of_two = (pathlib.Path(folder.name) / name for name in ("whole", "run"))
        for run, steps in ((cls.whole, 4), (cls.run_of_two, 2)):
            result = train(run, train={"steps": steps})
            assert result.returncode == 0, result.stderr

    def setUp(self):
        super().setUp()
        self.run = shutil.copytree(self.run_of_two, self.folder / "run", symlinks=True)
        self.sound = support.tree(self.run)

    def resumed(self, *flags):
        return train(self.run, "--resume", *flags, train={"steps": 4})

    def restore(self):
        shutil.rmtree(self.run)
        for name, data in self.sound.items():
            path = self.run / name
            if data is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def test_every_flipped_bit_is_named_by_file_and_line_and_nothing_changes(self):
        draws = random.Random(3)
        for name in ("metrics.jsonl", "samples.jsonl"):
            data = self.sound[name]
            for _ in range(12):
                at = draws.randrange(len(data) - 1)
                flipped = bytearray(data)
                flipped[at] ^= 1 << draws.randrange(8)
                (self.run / name).write_bytes(flipped)
                before = support.tree(self.run)
                line = data[:at].count(b"\n") + 1
                self.assert_refused(self.resumed(), 3, f"{name}: line {line} is not what was written there", "--damaged-rows")
                self.assertEqual(support.tree(self.run), before)
            (self.run / name).write_bytes(data)
        self.assert_exit(self.resumed(), 0)
        metrics = support.metrics(self.run)  # the shorter run also measured at its end
        self.assertEqual([row for row in metrics if (row["phase"], row["step"]) != ("eval", 10)], support.metrics(self.whole))

    def test_missing_emptied_and_shortened_rows_are_named(self):
        for name in ("metrics.jsonl", "samples.jsonl"):
            lines = self.sound[name].splitlines(keepends=True)
            (self.run / name).unlink()
            self.assert_refused(self.resumed(), 3, f"{name}: it is missing")
            for kept in (0, 1, len(lines) - 1):
                (self.run / name).write_bytes(b"".join(lines[:kept]))
                self.assert_refused(self.resumed(), 3, f"{name}: it ends after line {kept} of {len(lines)}")
            (self.run / name).write_bytes(b"".join(lines[1:] + lines[:1]))
            self.assert_refused(self.resumed(), 3, f"{name}: line 1 is not what was written there")
            (self.run / name).write_bytes(self.sound[name])

    def test_the_way_out_loses_nothing(self):
        damaged = self.sound["metrics.jsonl"].replace(b'"step":3', b'"step":7', 1)
        self.assertNotEqual(damaged, self.sound["metrics.jsonl"])
        (self.run / "metrics.jsonl").write_bytes(damaged)
        (self.run / "samples.jsonl").unlink()
        result = self.resumed("--damaged-rows")
        self.assert_exit(result, 0)
        self.assertIn("metrics.jsonl: line 3 is not what was written there", result.stdout)
        self.assertIn("samples.jsonl: it is missing", result.stdout)
        self.assertEqual((self.run / "metrics.jsonl.damaged").read_bytes(), damaged)
        self.assertIn("line 3 is not", (self.run / "log.txt").read_text())
        kept = [row["step"] for row in support.metrics(self.run) if row["phase"] == "sft"]
        self.assertEqual(kept, [1, 2, 4, 5, 6, 7, 8])
        for name in self.final_files(self.whole):
            self.assertEqual((self.run / name).read_bytes(), (self.whole / name).read_bytes(), name)
        self.assert_exit(train(self.run, "--resume", train={"steps": 5}), 0)  # as sound as any other
        self.assert_refused(train(self.folder / "new", "--damaged-rows"), 2, "--resume")

    def test_a_log_is_nobodys_data(self):
        def write(data):
            return lambda path: path.write_bytes(data)

        log = self.sound["log.txt"]
        for damage, told in ((lambda path: path.unlink(), "log.txt: it is missing"), (write(b""), "log.txt: it ends after line 0"),
                             (write(log[:50]), "log.txt: it ends after line"), (write(b"\0" * 10), "log.txt: it ends after line 0"),
                             (write(log.replace(b"loss", b"LOSS", 1)), "log.txt: line 1 is not what was written there")):
            damage(self.run / "log.txt")
            result = self.resumed()
            self.assert_exit(result, 0)
            self.assertIn(told, result.stdout)
            text = (self.run / "log.txt").read_text()
            self.assertIn(told, text)
            self.assertIn("RL 4/4", text)
            for name in self.final_files(self.whole):
                self.assertEqual((self.run / name).read_bytes(), (self.whole / name).read_bytes(), name)
            self.restore()

    def test_a_damaged_manifest_is_a_damaged_checkpoint(self):
        path = self.run / "checkpoints" / support.checkpoints(self.run)[-1] / "manifest.json"
        data = path.read_bytes()
        draws = random.Random(4)
        for at in sorted(draws.sample(range(len(data)), support.count(5, 12))):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << draws.randrange(8)]) + data[at + 1:])
            result = self.resumed()
            self.assert_exit(result, 0)
            self.assertIn("is damaged", result.stdout, at)
            self.restore()


class Finished(support.Test):
    def test_a_finished_run_is_left_as_it_is_and_goes_on_when_asked_for_more(self):
        whole, run = self.folder / "whole", self.folder / "run"
        self.assert_exit(train(whole, train={"steps": 6}), 0)
        self.assert_exit(train(run, train={"steps": 4}), 0)
        before = {name: (run / name).read_bytes() for name in self.final_files(run)}
        rows_before = support.metrics(run)
        for _ in range(2):
            self.assert_exit(train(run, "--resume", train={"steps": 4}), 0)
            self.assertEqual({name: (run / name).read_bytes() for name in before}, before)
            self.assertEqual(support.metrics(run), rows_before)

        self.assert_exit(train(run, "--resume", train={"steps": 6}), 0)
        for name in self.final_files(whole):
            self.assertEqual((run / name).read_bytes(), (whole / name).read_bytes(), name)
        # The shorter run measured its accuracy at its end, step 12; all else is the same.
        extra = [row for row in support.metrics(run) if (row["phase"], row["step"]) == ("eval", 12)]
        self.assertEqual(len(extra), 1)
        self.assertEqual([row for row in support.metrics(run) if row not in extra], support.metrics(whole))


class DamagedCheckpoints(support.Test):
    def test_without_a_sound_one_a_run_is_refused_and_nothing_changes(self):
        run = self.folder / "run"
        self.assert_exit(train(run), 0)
        older, newest = support.checkpoints(run)
        path = run / "checkpoints" / newest / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        (run / "checkpoints" / older / "state.json").unlink()
        before = support.tree(run)
        result = train(run, "--resume")
        self.assert_refused(result, 3, str(run), "no sound checkpoint", "--overwrite")
        self.assertIn(f"{newest} is damaged (model.safetensors has ", result.stdout)
        self.assertIn(f"{older} is damaged (state.json is missing", result.stdout)
        self.assertEqual(support.tree(run), before)

    def test_no_command_loads_one_and_what_was_changed_on_purpose_is_loaded_without_its_manifest(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 0}, eval={"prompts": 0}), 0)
        model = run / "checkpoints" / support.checkpoints(run)[-1]
        path = model / "generation_config.json"
        path.write_text(path.read_text().replace('"temperature": 1.0', '"temperature": 0.9'))
        config = self.folder / "next.json"
        config.write_text(json.dumps({"model": str(model), "sft": {"steps": 0}, "train": {"steps": 0},
                                      "eval": {"prompts": 0}, "run": {"dir": str(self.folder / "next")}}))
        commands = (("generate", "--model", model, "--prompt", "<bos>"), ("train", config),
                    ("eval", support.QUICKSTART, "--model", model, "eval.prompts=2"))
        for command in commands:
            self.assert_refused(keel(*command), 3, str(model), "generation_config.json has another checksum", "manifest.json")
        self.assertFalse((self.folder / "next").exists())
        (model / "manifest.json").unlink()
        for command in commands:
            self.assert_exit(keel(*command), 0)


if __name__ == "__main__":
    support.main()
