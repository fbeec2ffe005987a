"""Checkpoints that are written beside the steps, and the best of them."""

import json
import os

import support
from support import keel, train

RUN = {"sft": {"steps": 6, "noisy_steps": 2}, "train": {"steps": 6}, "eval": {"every": 1, "prompts": 12},
       "checkpoint": {"every": 1, "keep": 2}, "reference": {"kl_coefficient": 0.05}}


def with_checkpoint(**options):
    return {**RUN, "checkpoint": {**RUN["checkpoint"], **options}}


def waited(run, key):
    return sum(row.get(key, 0) for row in support.read_jsonl(run / "metrics.jsonl"))


class Saving(support.Test):
    def test_beside_the_steps_or_not_it_saves_the_same(self):
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
        # Who waits for the disk waits for all of it.
        self.assertGreaterEqual(waited(waiting, "time/checkpoint"), waited(waiting, "time/checkpoint_write"))

    def test_a_save_that_fails_beside_a_step_ends_the_run_after_it(self):
        for background in ("true", "false"):
            run = self.folder / f"run {background}"
            result = train(run, prefix=["prlimit", "--fsize=8000"], **with_checkpoint(background=background))
            self.assert_refused(result, 4, str(run / "checkpoints" / "step-000001"), "File too large", "ulimit -f")
            self.assertEqual(support.checkpoints(run), [])
            self.assertEqual([path.name for path in run.rglob("*.partial")], [])
            # The step beside which it failed was made and is written down.
            self.assertEqual(len(support.read_jsonl(run / "metrics.jsonl")), 2 if background == "true" else 1)


class TheBest(support.Test):
    def best_of(self, run):
        """The step of the first of the best evaluations."""
        rows = [row for row in support.read_jsonl(run / "metrics.jsonl") if row["phase"] == "eval"]
        return max(rows, key=lambda row: (row["eval/accuracy"], -row["step"]))["step"]

    def test_the_best_checkpoint_stays_and_is_named(self):
        run = self.folder / "run"
        settings = with_checkpoint(every=100, keep=1, keep_best="true")
        trained = train(run, **settings)
        self.assert_exit(trained, 0)
        best = f"step-{self.best_of(run):06}"
        link = run / "checkpoints" / "best"
        self.assertIn(f"{link}   the best evaluation's, {best}", trained.stdout)
        self.assertEqual("the run itself stands for its newest" in trained.stdout, best != "step-000012")
        self.assertIn("the best one is kept as checkpoints/best, by eval/accuracy", trained.stdout)
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

        # A run that starts from it remembers which one it was, and goes on from that when the link has moved.
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
        settings = with_checkpoint(keep=1, keep_best="true")
        self.assert_exit(train(whole, **settings), 0)
        self.assert_exit(train(run, **{**settings, "train": {"steps": 3}}), 0)
        self.assert_exit(train(run, "--resume", **settings), 0)
        # It evaluates at its first end as well, as the whole one does there: every step.
        self.assert_same_run(run, whole)
        self.assertEqual(os.readlink(run / "checkpoints" / "best"), os.readlink(whole / "checkpoints" / "best"))
        self.assertEqual(support.checkpoints(run), support.checkpoints(whole))

    def test_what_cannot_be_the_best_is_refused(self):
        run = self.folder / "run"
        for checkpoint, evaluation, parts in (
                ({"keep_best": "true"}, {"prompts": 0}, ("checkpoint.keep_best", "eval.prompts")),
                ({"best_metric": "reward/mean"}, {"prompts": 4}, ("checkpoint.best_metric", "eval/accuracy")),
                ({"best_metric": "eval/truncated"}, {"prompts": 4}, ("checkpoint.best_metric", "more is better"))):
            result = train(run, **{**RUN, "checkpoint": checkpoint, "eval": evaluation})
            self.assert_refused(result, 2, *parts)
        result = train(run, **{**RUN, "checkpoint": {"keep_best": "true", "best_metric": "eval/reward"}, "sft": {"steps": 0}})
        self.assert_refused(result, 2, "checkpoint.best_metric is eval/reward", "it has eval/accuracy\n")


if __name__ == "__main__":
    support.main()
