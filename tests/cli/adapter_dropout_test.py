"""lora.dropout: a resumed run repeats its masks; evaluation and sampling use no dropout."""

import json

import support
from support import train

ADAPTER = {"optimizer": {"lr": 0.01}, "checkpoint": {"every": 1, "keep": 99}, "eval": {"prompts": 0}}


class AdapterDropout(support.Test):
    def trained(self, name, *flags, steps=4, code=0, **lora):
        run = self.folder / name
        result = train(run, *flags, **ADAPTER, lora={"rank": 2, **lora}, train={"steps": steps})
        self.assert_exit(result, code)
        return run

    def rows(self, run, phase):
        return [row for row in support.metrics(run) if row["phase"] == phase]

    def test_a_resumed_run_has_the_same_noise(self):
        whole = self.trained("whole", dropout=0.2)
        for stops in support.count([(2,)], [(0,), (1,), (3,)]):
            run = f"stopped after {stops}"
            for number, steps in enumerate((*stops, 4)):
                self.trained(run, *(["--resume"] if number else []), steps=steps, dropout=0.2)
            self.assert_same_run(self.folder / run, whole)

    def test_zero_dropout_changes_nothing_and_positive_dropout_does(self):
        plain, none, some = self.trained("plain"), self.trained("none", dropout=0), self.trained("some", dropout=0.2)
        self.assert_same_run(none, plain)
        self.assertIsNotNone(support.difference(some, plain))
        # SFT applies dropout too. At its first update B is 0, so dropout has no effect.
        losses = [[row["sft/loss"] for row in self.rows(run, "sft")] for run in (plain, some)]
        self.assertEqual(losses[0][0], losses[1][0])
        self.assertNotEqual(losses[0][1:], losses[1][1:])
        for run, share in ((plain, 0), (some, 0.2)):
            last = run / "checkpoints" / support.checkpoints(run)[-1]
            self.assertEqual(json.loads((last / "adapter" / "adapter_config.json").read_text())["lora_dropout"], share)

    def test_dropout_applies_to_the_ratio_and_not_to_the_sampler(self):
        sections = {**ADAPTER, "train": {"steps": 1}, "rollout": {"weights": "exact"}, "sft": {"steps": 40, "noisy_steps": 3, "lr": 0.02}}
        first = self.folder / "first"
        self.assert_exit(train(first, **sections, lora={"rank": 4, "alpha": 64}), 0)
        start = {**sections, "sft": {"steps": 0, "noisy_steps": 0}}
        rows, samples = {}, {}
        for share in (0, 0.3):
            run = self.folder / f"dropout {share}"
            self.assert_exit(train(run, **start, lora={"adapter": first, "dropout": share}), 0)
            rows[share] = self.rows(run, "rl")[0]
            samples[share] = [(row["token_ids"], row["behavior_logp"]) for row in support.read_jsonl(run / "samples.jsonl")]
        self.assertEqual(samples[0.3], samples[0])
        self.assertLess(rows[0]["mismatch/abs_prob_mean"], 1e-6)
        self.assertGreater(rows[0.3]["mismatch/abs_prob_mean"], 1e-4)

    def test_it_cannot_change_on_resumption(self):
        run = self.trained("run", steps=1, dropout=0.2)
        result = train(run, "--resume", **ADAPTER, lora={"rank": 2, "dropout": 0.1}, train={"steps": 2})
        self.assert_refused(result, 2, "lora.dropout: 0.2 then, 0.1 now")

    def test_invalid_values_are_refused(self):
        def refused(*parts, **sections):
            self.assert_refused(train(self.folder / "run", **sections), 2, *parts)
        refused("lora.dropout is set, but lora.rank is not", lora={"dropout": 0.1})
        refused("rollout.bitwise is true", "set lora.dropout=0", lora={"rank": 2, "dropout": 0.1},
                rollout={"bitwise": True, "weights": "exact"})
        for share in (1, -0.1):
            refused("lora.dropout", lora={"rank": 2, "dropout": share})

    def test_a_continued_adapter_uses_the_dropout_of_the_run(self):
        first = self.trained("first", steps=1, dropout=0.2)
        sections = {**ADAPTER, "train": {"steps": 1}, "sft": {"steps": 0, "noisy_steps": 0}}
        result = train(self.folder / "second", **sections, lora={"adapter": first})
        self.assert_exit(result, 0)
        self.assertIn("has lora_dropout 0.2; this run uses lora.dropout 0.0", result.stdout + result.stderr)
        result = train(self.folder / "third", **sections, lora={"adapter": first, "dropout": 0.2})
        self.assert_exit(result, 0)
        self.assertNotIn("lora_dropout", result.stdout + result.stderr)
        self.assertIn("dropout 0.2", result.stdout)
        self.assertIsNotNone(support.difference(self.folder / "third", self.folder / "second"))


if __name__ == "__main__":
    support.main()
