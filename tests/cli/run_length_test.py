"""The length of a run in steps or epochs, and its learning rate schedule."""

import json
import shutil

import own_files
import support


class RunLength(own_files.Test):
    """20 rows, of which "rollout" has 4 that are too long; 3 prompts in a step."""

    def rates(self, run):
        return [row["optimizer/lr"] for row in support.metrics(self.folder / run) if row["phase"] == "rl"]

    def in_passes(self, run, *flags, epochs=2, **more):
        more.setdefault("train", {}).update({"steps": None, "data_epochs": epochs})
        configuration = self.configuration(run, eval={"prompts": 0}, checkpoint={"every": 1, "keep": 99}, **more)
        values = json.loads(configuration.read_text())
        values["train"] = {key: value for key, value in values["train"].items() if value is not None}
        configuration.write_text(json.dumps(values))
        return support.keel("train", configuration, *flags)

    def test_epochs_are_converted_to_steps(self):
        for result in (self.in_passes("run", "--explain"), self.in_passes("run")):
            self.assert_exit(result, 0)
            self.assertIn("14 steps (train.data_epochs 2 over 20 prompts)", result.stdout)  # 40 / 3
        self.assertEqual(len(self.rates("run")), 14)
        recorded = (self.folder / "run" / "config.yaml").read_text()
        self.assertIn("steps: 14", recorded)
        self.assertRegex(recorded, r"data_epochs: 2\b")

    def test_skipped_prompts_do_not_count(self):
        rows = [json.loads(line) for line in self.data.read_text().splitlines()]
        for row in rows[:5]:
            row["prompt"] += " 1 + 1 =" * 9
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = self.in_passes("run", "--explain", epochs=0.5, data={"max_prompt_tokens": 9})
        self.assert_exit(result, 0)
        self.assertIn("3 steps (train.data_epochs 0.5 over 15 prompts)", result.stdout)  # 7.5 / 3

    def test_a_fractional_epoch_is_not_rounded_up_by_its_last_bit(self):
        lines = self.data.read_text().splitlines()
        self.data.write_text("".join(line + "\n" for line in (lines + lines)[:25]))
        result = self.in_passes("run", "--explain", epochs=0.28, train={"prompts_per_step": 1, "sequences_per_update": 0})
        self.assert_exit(result, 0)
        self.assertIn("7 steps (train.data_epochs 0.28 over 25 prompts)", result.stdout)  # 7.000000000000001

    def test_a_run_in_epochs_resumes_to_the_same_bits_and_for_more_epochs(self):
        schedule = {"optimizer": {"schedule": "cosine", "schedule_per": "step", "warmup_updates": 0.1}, "train": {"sequences_per_update": 2}}
        self.assert_exit(self.in_passes("whole", epochs=1, **schedule), 0)
        self.assertEqual(len(self.rates("whole")), 7)
        stopped = shutil.copytree(self.folder / "whole", self.folder / "stopped")
        for name in support.checkpoints(stopped)[-3:]:
            shutil.rmtree(stopped / "checkpoints" / name)
        # With the user's file, or with the run's config.yaml, which also has the steps.
        left = shutil.copytree(stopped, self.folder / "left")
        self.assert_exit(self.in_passes("stopped", "--resume", epochs=1, **schedule), 0)
        self.assert_same_run(stopped, self.folder / "whole")
        self.assert_exit(support.keel("train", left / "config.yaml", "--resume", f"run.dir={left}"), 0)
        self.assert_same_run(left, self.folder / "whole")
        more = support.keel("train", left / "config.yaml", "--resume", f"run.dir={left}", "train.data_epochs=2")
        self.assert_exit(more, 0, "train.data_epochs: 1.0 then, 2.0 now", "train.steps: 7 then, 14 now")
        self.assertEqual(len(self.rates("left")), 14)

    def test_contradicting_steps_and_epochs_are_refused(self):
        both = self.configuration("both", train={"steps": 5, "data_epochs": 2})
        self.assert_refused(support.keel("train", both), 2, "train.steps is 5", "over 20 prompts gives 14 steps", "remove one of the two")
        self.assert_refused(support.keel("train", both, "--explain"), 2, "train.steps is 5")
        typed = support.keel("train", both, "--explain", "train.steps=2")
        self.assert_exit(typed, 0, "2 steps, 1 pass")
        task = support.train(self.folder / "task", train={"data_epochs": 2})
        self.assert_refused(task, 2, "train.data_epochs is 2", "without end", "set train.steps")

    def test_epochs_are_those_over_the_data(self):
        configuration = self.configuration("run")
        for key in ("epochs", "data.epochs", "run.epochs"):
            self.assert_refused(support.keel("train", configuration, f"{key}=3"), 2, "train.data_epochs (Epochs over the training prompts")
        self.assert_refused(support.keel("train", configuration, "--epochs=3"), 2, "as train.data_epochs=VALUE or train.epochs=VALUE")

    def test_a_schedule_continues_on_the_curve_of_its_new_length(self):
        sections = {"optimizer": {"lr": 0.01, "schedule": "linear"}, "eval": {"prompts": 0}, "checkpoint": {"every": 1}}

        def trained(steps, *flags):
            result = self.train("run", *flags, **sections, train={"steps": steps})
            self.assert_exit(result, 0)
            return result.stdout

        self.assertIn("learning rate 0.01, no warm-up, then linear down to 0 at update 2", trained(2))
        text = trained(4, "--resume")
        self.assertIn("train.steps: 2 then, 4 now", text)
        self.assertEqual(self.rates("run"), [0.01, 0.005, 0.005, 0.0025])  # (2 - u) / 2, then (4 - u) / 4


if __name__ == "__main__":
    support.main()
