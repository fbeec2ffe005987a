"""Background checkpoints, and the best checkpoint."""

import json
import os
import shutil
import sys

import support
from support import keel, train

RUN = {"sft": {"steps": 6, "noisy_steps": 2}, "train": {"steps": 6}, "eval": {"every": 1, "prompts": 12},
       "checkpoint": {"every": 1, "keep": 2}, "reference": {"kl_coefficient": 0.05}}


# Counts the evaluation prompts, which have four samples.
OUTAGE = """
seen = 0
def reward(completions, **columns):
    global seen
    seen += len(completions) == 4
    rewards = [len(text) % 3 for text in completions]
    return [None, *rewards[1:]] if len(completions) == 4 and seen > 4 else rewards
"""

# While the file exists, fails in the third step: the earlier calls are for four prompts each, and ten evaluation prompts.
FAILING = """
import os
calls = 0
def reward(completions, **columns):
    global calls
    calls += 1
    if os.path.exists("BAD") and (calls > 10 + 8 + 1 or os.path.getsize("BAD")):
        open("BAD", "w").write("also when it is started again")
        raise RuntimeError("out of order")
    return [len(text) % 3 for text in completions]
"""


def with_checkpoint(**options):
    return {**RUN, "checkpoint": {**RUN["checkpoint"], **options}}


def waited(run, key):
    return sum(row.get(key, 0) for row in support.read_jsonl(run / "metrics.jsonl"))


class Saving(support.Test):
    def test_background_and_foreground_saves_are_equal(self):
        beside, waiting = self.folder / "beside", self.folder / "waiting"
        self.assert_exit(train(beside, **RUN), 0)
        self.assert_exit(train(waiting, **with_checkpoint(background="false")), 0)
        self.assert_same_run(beside, waiting)
        self.assertEqual(support.checkpoints(beside), support.checkpoints(waiting))
        for name in support.checkpoints(beside):
            support.verify_checkpoint(beside / "checkpoints" / name)
            for file in ("model.safetensors", "optimizer.safetensors", "config.json", "tokenizer.json"):
                self.assertEqual((beside / "checkpoints" / name / file).read_bytes(),
                                 (waiting / "checkpoints" / name / file).read_bytes(), f"{name}/{file}")
            lines, wanted = (json.loads((run / "checkpoints" / name / "manifest.json").read_text())["lines_crc32c"]
                             for run in (beside, waiting))
            self.assertEqual({k: len(v) for k, v in lines.items()}, {k: len(v) for k, v in wanted.items()})
        self.assertGreater(waited(beside, "time/checkpoint_write"), 0)
        # A foreground save waits for the whole write.
        self.assertGreaterEqual(waited(waiting, "time/checkpoint"), waited(waiting, "time/checkpoint_write"))

    def test_a_failed_background_save_stops_the_run_after_the_step(self):
        for background in ("true", "false"):
            run = self.folder / f"run {background}"
            result = train(run, prefix=["prlimit", "--fsize=8000"], **with_checkpoint(background=background))
            self.assert_refused(result, 4, str(run / "checkpoints" / "step-000001"), "File too large", "ulimit -f")
            self.assertEqual(support.checkpoints(run), [])
            self.assertEqual([path.name for path in run.rglob("*.partial")], [])
            # The step during which the save failed is complete and recorded.
            self.assertEqual(len(support.read_jsonl(run / "metrics.jsonl")), 2 if background == "true" else 1)


class TheBest(support.Test):
    def best_of(self, run):
        """The step of the first evaluation with the best value."""
        rows = [row for row in support.read_jsonl(run / "metrics.jsonl") if row["phase"] == "eval"]
        return max(rows, key=lambda row: (row["eval/accuracy"], -row["step"]))["step"]

    def test_the_best_checkpoint_is_kept_and_printed(self):
        run = self.folder / "run"
        settings = with_checkpoint(every=100, keep=1, best_metric="auto")
        trained = train(run, **settings)
        self.assert_exit(trained, 0)
        best = f"step-{self.best_of(run):06}"
        link = run / "checkpoints" / "best"
        self.assertIn(f"{link}   best evaluation: {best}", trained.stdout)
        self.assertEqual("the run's folder means its newest" in trained.stdout, best != "step-000012")
        self.assertIn("the best checkpoint by eval/accuracy or eval/reward is kept as checkpoints/best", trained.stdout)
        self.assertEqual(os.readlink(link), best)
        self.assertEqual(support.checkpoints(run), sorted({best, "step-000012"}))
        support.verify_checkpoint(run / "checkpoints" / best)

        def generate(model):
            result = keel("generate", "--model", model, "--prompt", "<bos> 1 + 1 =", "--seed", 1, "--max-new-tokens", 6, "--json")
            self.assert_exit(result, 0)
            return result

        told = generate(link)
        self.assertEqual(told.stdout, generate(run / "checkpoints" / best).stdout)
        self.assertIn(f"{link} is {best}", told.stderr)
        self.assert_exit(keel("inspect", link), 0)
        self.assert_exit(keel("convert", link, self.folder / "converted"), 0)
        self.assertEqual((self.folder / "converted" / "model.safetensors").read_bytes(),
                         (run / "checkpoints" / best / "model.safetensors").read_bytes())
        result = keel("eval", support.QUICKSTART, *support.eval_settings(eval={"prompts": 4}), "--model", link, "--json")
        self.assert_exit(result, 0)
        self.assertEqual(json.loads(result.stdout)["model"], str(run / "checkpoints" / best))

        # A run that starts from it records the checkpoint, and resumes with it after the link changed.
        other, config = self.folder / "other", self.folder / "start.yaml"
        config.write_text(json.dumps({"model": str(link), "lora": {"rank": 2}, "train": {"steps": 1, "prompts_per_step": 2},
                                      "eval": {"prompts": 0}, "task": {"steps": 1, "modulus": 2}, "run": {"threads": 1},
                                      "rollout": {"samples_per_prompt": 4}, "objective": {"method": "dppo_tv"}}))
        self.assert_exit(keel("train", config, f"run.dir={other}"), 0)
        self.assertIn(f"path: {run / 'checkpoints' / best}\n", (other / "config.yaml").read_text())
        link.unlink()
        link.symlink_to("step-000000")
        self.assert_exit(keel("train", config, f"run.dir={other}", "train.steps=2", "--resume"), 0)

        self.assert_exit(train(run, "--overwrite", **{**RUN, "train": {"steps": 0}}), 0)
        self.assertFalse(os.path.lexists(link))

    def test_a_resumed_run_knows_the_best(self):
        whole, run = self.folder / "whole", self.folder / "run"
        settings = with_checkpoint(keep=1, best_metric="auto")
        self.assert_exit(train(whole, **settings), 0)
        self.assert_exit(train(run, **{**settings, "train": {"steps": 3}}), 0)
        self.assert_exit(train(run, "--resume", **settings), 0)
        # It also evaluates at its first end; the uninterrupted run evaluates every step.
        self.assert_same_run(run, whole)
        self.assertEqual(os.readlink(run / "checkpoints" / "best"), os.readlink(whole / "checkpoints" / "best"))
        self.assertEqual(support.checkpoints(run), support.checkpoints(whole))

    def test_invalid_best_metrics_are_refused(self):
        run = self.folder / "run"
        for checkpoint, evaluation, parts in (
                ({"best_metric": "auto"}, {"prompts": 0}, ("checkpoint.best_metric", "eval.prompts")),
                ({"best_metric": "reward/mean"}, {"prompts": 4}, ("checkpoint.best_metric", "eval/accuracy")),
                ({"best_metric": "eval/truncated"}, {"prompts": 4}, ("checkpoint.best_metric", "higher is better"))):
            result = train(run, **{**RUN, "checkpoint": checkpoint, "eval": evaluation})
            self.assert_refused(result, 2, *parts)
        result = train(run, **{**RUN, "checkpoint": {"best_metric": "eval/reward"}})
        self.assert_refused(result, 2, "checkpoint.best_metric is eval/reward", "expected eval/accuracy")
        named = {**RUN, "checkpoint": {"best_metric": "eval/pass@4"}}
        parts = ('checkpoint.best_metric is "eval/pass@4"', "eval/accuracy, eval/reward", "eval.samples 1")
        self.assert_refused(train(run, **named), 2, *parts)
        self.assertFalse(run.exists())  # before SFT
        self.assert_exit(train(run, **{**with_checkpoint(best_metric="auto"), "train": {"steps": 0}}), 0)
        self.assert_refused(train(run, "--resume", **named), 2, *parts)

    def test_a_metric_is_the_same_under_its_own_name(self):
        run = self.folder / "run"
        settings = with_checkpoint(keep=1, best_metric="auto")
        self.assert_exit(train(run, **{**settings, "train": {"steps": 3}}), 0)
        last = run / "checkpoints" / "step-000009"
        self.assertEqual(json.loads((last / "state.json").read_text())["state"]["best_metric"], "eval/accuracy")
        result = train(run, "--resume", **with_checkpoint(keep=1, best_metric="eval/accuracy"))
        self.assert_exit(result, 0)
        self.assertNotIn("is kept only until", result.stdout)

    def test_removal_of_the_best_checkpoint_is_announced(self):
        first, run = self.folder / "first", self.folder / "run"
        settings, further = with_checkpoint(keep=1, best_metric="auto"), {"train": {"steps": 6}}
        self.assert_exit(train(first, **{**settings, "train": {"steps": 3}}), 0)
        best = first / "checkpoints" / os.readlink(first / "checkpoints" / "best")
        self.assertNotEqual(best.name, "step-000009")

        def resumed(change, **options):
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(first, run, symlinks=True)
            change(run / "checkpoints" / best.name)
            result = train(run, "--resume", **{**with_checkpoint(keep=1, **options), **further})
            self.assert_exit(result, 0)
            return result.stdout

        text = resumed(lambda folder: None, best_metric="none")
        self.assertIn(f"{best.name}, the best by eval/accuracy, is kept, but never replaced, because checkpoint.best_metric is now none", text)
        self.assertEqual(support.checkpoints(run), [best.name, "step-000012"])
        self.assertEqual(os.readlink(run / "checkpoints" / "best"), best.name)
        support.verify_checkpoint(run / "checkpoints" / "best")

        text = resumed(lambda folder: None, best_metric="eval/high")
        self.assertIn(f"{best.name}, the best by eval/accuracy, is kept only until the next evaluation", text)

        text = resumed(shutil.rmtree, best_metric="auto")
        self.assertIn(f"{best.name}, the best by eval/accuracy, is missing; the next evaluation", text)
        self.assertGreater(os.readlink(run / "checkpoints" / "best"), "step-000009")

    def test_an_evaluation_without_the_metric_is_not_compared(self):
        """From the second evaluation on, one of a prompt's four samples has no reward."""
        (self.folder / "outage.py").write_text(OUTAGE)
        run = self.folder / "run"
        result = train(run, sft={"steps": 2, "noisy_steps": 1}, train={"steps": 2}, rollout={"samples_per_prompt": 2},
                       eval={"prompts": 4, "samples": 4, "every": 1}, checkpoint={"every": 100, "best_metric": "eval/pass@4"},
                       reward={"functions": json.dumps([f"python:{self.folder / 'outage.py'}"]), "workers": 1, "python": sys.executable})
        self.assert_exit(result, 0)
        rows = [row for row in support.read_jsonl(run / "metrics.jsonl") if row["phase"] == "eval"]
        self.assertEqual(["eval/pass@4" in row for row in rows], [True, False, False])
        self.assertIn("step 3: this evaluation has no eval/pass@4", result.stdout)
        self.assertEqual(os.readlink(run / "checkpoints" / "best"), "step-000002")


class Failures(support.Test):
    """A failure during sampling or scoring loses no earlier step."""

    def assert_failed(self, result, part):
        """The error is the reward's, whose own message is printed before the program's."""
        self.assert_exit(result, 5)
        self.assertIn(part, result.stderr.partition("keel: ")[2])

    def test_the_last_complete_step_is_saved_and_resumes_to_the_same_bits(self):
        judge, bad = self.folder / "judge.py", self.folder / "bad"
        judge.write_text(FAILING.replace("BAD", str(bad)))
        for staleness, background in ((0, "true"), (1, "false")):
            settings = {"reward": {"functions": json.dumps([f"python:{judge}"]), "workers": 1, "python": sys.executable},
                        "rollout": {"staleness": staleness}, "checkpoint": {"every": 100, "background": background}}
            whole, run = self.folder / f"whole {staleness}", self.folder / f"run {staleness}"
            self.assert_exit(train(whole, **settings), 0)
            bad.touch()
            result = train(run, **settings)
            last, command = run / "checkpoints" / "step-000010", f"keel train '{run / 'config.yaml'}' --resume"
            self.assert_failed(result, f"The run is saved up to step 10 in {last}; continue with: {command}")
            support.verify_checkpoint(last)
            again = train(run, "--resume", **settings)  # nothing is saved again
            self.assert_failed(again, f"The run is saved up to step 10 in {last}")
            bad.unlink()
            self.assert_exit(train(run, "--resume", **settings), 0)
            self.assert_same_run(run, whole)

    def test_rewards_that_the_advantage_refuses_lose_no_earlier_step(self):
        judge, bad, run = self.folder / "judge.py", self.folder / "bad", self.folder / "run"
        judge.write_text(FAILING.replace("BAD", str(bad)).replace('raise RuntimeError("out of order")', "return [-1.0] * len(completions)"))
        bad.touch()
        result = train(run, objective={"advantage": "maxrl"}, checkpoint={"every": 100},
                       reward={"functions": json.dumps([f"python:{judge}"]), "workers": 1, "python": sys.executable})
        self.assert_exit(result, 3)
        self.assertIn("the advantage maxrl divides by the mean reward", result.stderr)
        self.assertIn("The run is saved up to step 10", result.stderr)
        support.verify_checkpoint(run / "checkpoints" / "step-000010")

    def test_a_run_without_updates_saves_nothing(self):
        judge = self.folder / "judge.py"
        judge.write_text("def reward(completions, **columns):\n    raise RuntimeError('out of order')\n")
        result = train(self.folder / "run", sft={"steps": 0},
                       reward={"functions": json.dumps([f"python:{judge}"]), "workers": 1, "python": sys.executable})
        self.assert_failed(result, "out of order")
        self.assertNotIn("saved", result.stderr)
        self.assertEqual(support.checkpoints(self.folder / "run"), [])

    def test_non_finite_weights_before_the_first_checkpoint_are_reported(self):
        result = train(self.folder / "run", optimizer={"lr": "1e39"}, sft={"steps": 0, "noisy_steps": 0}, checkpoint={"every": 1})
        self.assert_refused(result, 4, "NaN or infinite", "there is no checkpoint yet")
        self.assertNotIn("are valid", result.stderr)

    def test_without_threads_it_is_the_same_run(self):
        """A new thread gets a stack as large as the limit, here more than any memory, so no thread can start."""
        settings = {**RUN, "rollout": {"staleness": 2}, "train": {"steps": 3}}
        whole, run = self.folder / "whole", self.folder / "run"
        self.assert_exit(train(whole, **settings), 0)
        result = train(run, prefix=["prlimit", f"--stack={1 << 50}:{1 << 50}"], **settings)
        self.assert_exit(result, 0)
        self.assertIn("the background sampling thread could not be started", result.stdout)
        self.assertIn("only 0 of ", result.stdout)
        self.assert_same_run(run, whole)


if __name__ == "__main__":
    support.main()
