"""A resumed run ends with the same bits as an uninterrupted one. tests/crash checks this for interruptions at any moment."""

import functools
import json
import pathlib
import shutil
import signal
import tempfile

import support
from support import keel, start_train, train, wait_for


def stops(*steps):
    """The steps after which runs are stopped: one run at all of them in turn, or one run for each."""
    return support.count([steps], [(step,) for step in steps])


def train_in_parts(trained, steps, last):
    """Calls trained(*flags, steps=...) for each part of a run that is stopped after these steps and resumed to the end."""
    for number, step in enumerate((*steps, last)):
        trained(*(["--resume"] if number else []), steps=step)


class AskedToStop(support.Test):
    def test_a_second_signal_before_anything_is_saved_does_not_promise_that_the_run_can_be_resumed(self):
        run = self.folder / "run"
        process = start_train(run, sft={"steps": 1000000, "noisy_steps": 0, "batch": 16384}, checkpoint={"every": 0})
        self.assertTrue(wait_for(process, lambda: (run / "metrics.jsonl").exists()))
        process.send_signal(signal.SIGINT)
        self.assertTrue(wait_for(process, lambda: "send the signal again to stop at once" in process.output.read_text()))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), -signal.SIGTERM)
        self.assertEqual(support.checkpoints(run), [])


class Device(support.Test):
    def test_the_run_names_and_records_its_device_and_resume_keeps_it(self):
        if "cuda" in keel("--version").stdout:
            self.skipTest("there is a GPU")
        run = self.folder / "run"
        first = train(run, train={"steps": 1})
        self.assert_exit(first, 0)
        self.assertRegex(first.stdout, r"\Adevice: cpu \(")
        self.assertIn("\n  device: cpu\n", (run / "config.yaml").read_text())
        self.assert_exit(train(run, "--resume", train={"steps": 2}), 0)
        support.change_state(run / "checkpoints" / support.checkpoints(run)[-1], config={"run": {"device": "cuda"}})
        for device in ("auto", "cuda"):
            self.assert_refused(train(run, "--resume", run={"device": device}, train={"steps": 3}), 2,
                                f"run.device: the run in {run} used a GPU", "keel doctor", "model.path=")


class WithMoreThanWeights(support.Test):
    """Runs with state besides the weights: the reference policy and adapted thresholds."""

    EXTRA = {"objective": {"parameters": '["target_kept=0.8"]'}, "reference": {"kl_coefficient": 0.05},
             "optimizer": {"lr": 0.01}, "eval": {"prompts": 0}}

    def trained(self, run, *flags, steps):
        self.assert_exit(train(run, *flags, **{**self.EXTRA, "train": {"steps": steps}}), 0)

    def test_it_resumes_to_the_same_bits(self):
        whole = self.folder / "whole"
        self.trained(whole, steps=6)
        reference = (whole / "reference" / "model.safetensors").read_bytes()
        rl = [row for row in support.metrics(whole) if row["phase"] == "rl"]
        deltas = [row["trust_region/delta_high"] for row in rl]
        self.assertEqual(deltas[0], 0.2)
        self.assertEqual(len(set(deltas)), 6)  # the thresholds moved in every step
        self.assertTrue(all(row["optimizer/grad_norm"] > 0 and row["policy/kl_reference"] > 0 for row in rl))
        self.assertGreater(rl[-1]["policy/kl_reference"], 0.01)
        for steps in stops(0, 1, 4):  # 0: only SFT
            run = self.folder / f"after {steps}"
            train_in_parts(functools.partial(self.trained, run), steps, 6)
            self.assert_same_run(run, whole)
            self.assertEqual((run / "reference" / "model.safetensors").read_bytes(), reference)
            self.assertEqual([p.name for p in run.rglob("*.partial")], [])

    def test_the_reference_is_the_policy_after_sft_and_a_model_folder(self):
        run = self.folder / "run"
        self.trained(run, steps=0)
        last = run / "checkpoints" / support.checkpoints(run)[-1]
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            self.assertEqual((run / "reference" / name).read_bytes(), (last / name).read_bytes(), name)

    def adapted(self, run, *flags, steps, **more):
        sections = {**self.EXTRA, "lora": {"rank": 2}, "train": {"steps": steps, "sequences_per_update": 0}, **more}
        self.assert_exit(train(run, *flags, **sections), 0)

    def first_pull(self, run):
        return [row["policy/kl_reference"] for row in support.metrics(run) if row["phase"] == "rl"]

    def test_an_adapters_reference_is_its_initial_state_and_not_a_second_model(self):
        fresh = {"sft": {"steps": 0, "noisy_steps": 0}}
        trained = {"sft": {"steps": 30, "noisy_steps": 3, "lr": 0.01}}
        for name, more, files in (("fresh", fresh, {"manifest.json"}),
                                  ("trained", trained, {"manifest.json", "adapter_config.json", "adapter_model.safetensors"})):
            whole = self.folder / name
            self.adapted(whole, steps=4, **more)
            self.assertEqual({p.name for p in (whole / "reference").iterdir()}, files)
            pulls = self.first_pull(whole)
            self.assertEqual(pulls[0], 0)  # one update per step: the first one sees the policy with which RL starts
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
                before = support.tree(run)
                sections = {**self.EXTRA, "lora": {"rank": 2}, "train": {"steps": 2, "sequences_per_update": 0}}
                self.assert_refused(train(run, "--resume", **sections), 3, "reference", name, "--overwrite")
                self.assertEqual(support.tree(run), before)
            path.write_bytes(data)
        self.adapted(run, "--resume", steps=2)

    def test_a_run_without_kl_has_no_reference(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        self.assertFalse((run / "reference").exists())


class WithASamplerBehind(support.Test):
    """Batches in flight at a checkpoint are sampled again, with the weights that they were sampled with. SFT is long enough for rewards
    that differ."""

    EXTRA = {"task": {"steps": 1, "modulus": 2}, "sft": {"steps": 60, "noisy_steps": 3, "lr": 0.01}, "eval": {"prompts": 0},
             "optimizer": {"lr": 0.01}, "checkpoint": {"every": 31}}

    def trained(self, run, *flags, steps, **more):
        self.assert_exit(train(run, *flags, **{**self.EXTRA, **more, "train": {"steps": steps}}), 0)

    def test_it_resumes_to_the_same_bits(self):
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
            else:  # two updates per step
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
    """A checkpoint also has the critic, its moments and its number of updates; the policy waits for the critic in two of six steps. A
    critic learns from rewards, so SFT is long enough for some."""

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
            self.assertEqual([row["updates"] for row in rl], [70, 70, 72, 74, 76, 78])  # 70 of SFT
            self.assertNotEqual(rl[-1]["critic/value_mean"], 0)
            for steps in stops(0, 3, 4):  # 0: only SFT
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


class Rows(support.Test):
    """A resumed run finds its rows unchanged, or names the difference."""

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

    def test_changed_missing_emptied_and_shortened_rows_are_named_and_nothing_changes(self):
        for name in ("metrics.jsonl", "samples.jsonl"):
            lines = self.sound[name].splitlines(keepends=True)
            damages = [(None, "it is missing"), (b"".join(lines[1:] + lines[:1]), "line 1 was changed"),
                       *((b"".join(lines[:kept]), f"it ends after line {kept} of {len(lines)}") for kept in (0, 1, len(lines) - 1))]
            for data, message in damages:
                (self.run / name).unlink() if data is None else (self.run / name).write_bytes(data)
                before = support.tree(self.run)
                self.assert_refused(self.resumed(), 3, f"{name}: {message}", "--damaged-rows")
                self.assertEqual(support.tree(self.run), before)
            (self.run / name).write_bytes(self.sound[name])
        self.assert_exit(self.resumed(), 0)
        metrics = support.metrics(self.run)  # the shorter run also evaluated at its end
        self.assertEqual([row for row in metrics if (row["phase"], row["step"]) != ("eval", 10)], support.metrics(self.whole))

    def test_resuming_with_damaged_rows_keeps_the_old_file(self):
        damaged = self.sound["metrics.jsonl"].replace(b'"step":3', b'"step":7', 1)
        self.assertNotEqual(damaged, self.sound["metrics.jsonl"])
        (self.run / "metrics.jsonl").write_bytes(damaged)
        (self.run / "samples.jsonl").unlink()
        result = self.resumed("--damaged-rows")
        self.assert_exit(result, 0)
        self.assertIn("metrics.jsonl: line 3 was changed", result.stdout)
        self.assertIn("samples.jsonl: it is missing", result.stdout)
        self.assertEqual((self.run / "metrics.jsonl.damaged").read_bytes(), damaged)
        self.assertIn("line 3 was", (self.run / "log.txt").read_text())
        kept = [row["step"] for row in support.metrics(self.run) if row["phase"] == "sft"]
        self.assertEqual(kept, [1, 2, 4, 5, 6, 7, 8])
        for name in self.final_files(self.whole):
            self.assertEqual((self.run / name).read_bytes(), (self.whole / name).read_bytes(), name)
        self.assert_exit(train(self.run, "--resume", train={"steps": 5}), 0)  # it is as valid as any other
        self.assert_refused(train(self.folder / "new", "--damaged-rows"), 2, "--resume")

    def test_a_damaged_log_does_not_block_resumption(self):
        def write(data):
            return lambda path: path.write_bytes(data)

        log = self.sound["log.txt"]
        for damage, message in ((lambda path: path.unlink(), "log.txt: it is missing"), (write(b""), "log.txt: it ends after line 0"),
                             (write(log[:50]), "log.txt: it ends after line"), (write(b"\0" * 10), "log.txt: it ends after line 0"),
                             (write(log.replace(b"loss", b"LOSS", 1)),
                              f"log.txt: line {log[:log.index(b'loss')].count(bytes([10])) + 1} was changed")):
            damage(self.run / "log.txt")
            result = self.resumed()
            self.assert_exit(result, 0)
            self.assertIn(message, result.stdout)
            text = (self.run / "log.txt").read_text()
            self.assertIn(message, text)
            self.assertIn("RL 4/4", text)
            for name in self.final_files(self.whole):
                self.assertEqual((self.run / name).read_bytes(), (self.whole / name).read_bytes(), name)
            self.restore()

class Finished(support.Test):
    def test_a_finished_run_is_unchanged_and_continues_with_more_steps(self):
        whole, run = self.folder / "whole", self.folder / "run"
        self.assert_exit(train(whole, train={"steps": 6}), 0)
        self.assert_exit(train(run, train={"steps": 4}), 0)
        before = {name: (run / name).read_bytes() for name in self.final_files(run)}
        rows_before = support.metrics(run)
        for _ in range(2):
            result = train(run, "--resume", train={"steps": 4})
            self.assert_exit(result, 0, f"The run in {run} was already finished at step 12, so nothing is trained", "train.steps")
            for text in ("  method  ", "  time    "):  # nothing else looks like a new run
                self.assertNotIn(text, result.stdout)
            self.assertEqual({name: (run / name).read_bytes() for name in before}, before)
            self.assertEqual(support.metrics(run), rows_before)

        result = train(run, "--resume", train={"steps": 6})
        self.assert_exit(result, 0, "  method  ")
        self.assertNotIn("already finished", result.stdout)
        for name in self.final_files(whole):
            self.assertEqual((run / name).read_bytes(), (whole / name).read_bytes(), name)
        # The shorter run evaluated at its end, step 12; everything else is equal.
        extra = [row for row in support.metrics(run) if (row["phase"], row["step"]) == ("eval", 12)]
        self.assertEqual(len(extra), 1)
        self.assertEqual([row for row in support.metrics(run) if row not in extra], support.metrics(whole))

    def test_a_newer_setting_does_not_block_resumption(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 4}), 0)
        last = run / "checkpoints" / support.checkpoints(run)[-1]
        support.change_state(last, unset=["optimizer.beta1"])
        self.assert_refused(train(run, "--resume", train={"steps": 6}, optimizer={"beta1": 0.5}), 2, "optimizer.beta1: absent then, 0.5 now")
        self.assert_exit(train(run, "--resume", train={"steps": 6}), 0)


class DamagedCheckpoints(support.Test):
    def test_without_a_valid_checkpoint_resumption_is_refused_and_nothing_changes(self):
        run = self.folder / "run"
        self.assert_exit(train(run), 0)
        older, newest = support.checkpoints(run)
        path = run / "checkpoints" / newest / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        (run / "checkpoints" / older / "state.json").unlink()
        before = support.tree(run)
        result = train(run, "--resume")
        self.assert_refused(result, 3, str(run), "no valid checkpoint", "--overwrite")
        self.assertIn(f"{newest} is damaged (model.safetensors has ", result.stdout)
        self.assertIn(f"{older} is damaged (state.json is missing", result.stdout)
        self.assertEqual(support.tree(run), before)

    def test_no_command_loads_a_damaged_checkpoint_unless_its_manifest_is_removed(self):
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
