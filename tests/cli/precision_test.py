"""run.precision in training, resumption, evaluation and sampling."""

import json

import support
from support import keel, train

PLAN = {"optimizer": {"lr": 0.01}, "eval": {"prompts": 0}}


class Training(support.Test):
    def trained(self, name, *flags, steps=4, **sections):
        result = train(self.folder / name, *flags, **{**PLAN, "train": {"steps": steps}, **sections})
        self.assert_exit(result, 0)
        return result

    def test_a_run_resumes_to_the_same_bits(self):
        cases = {"bf16": {}, "fp16": {}, "fp16 overflow": {"objective": {"entropy_coefficient": -1000}},
                 "bf16 adapter": {"lora": {"rank": 2}, "reference": {"kl_coefficient": 0.05}},
                 "fp16 exact": {"objective": {"method": "dppo_full_tv"}},
                 "fp16 critic": {"objective": {"method": "ppo_gae"}, "critic": {"body": "separate"}},
                 "bf16 reference": {"reference": {"kl_coefficient": 0.05}}}
        for name, sections in list(cases.items())[:: support.count(2, 1)]:
            with self.subTest(name):
                precision = {"precision": name.split()[0]}
                self.trained(f"{name} whole", run=dict(precision), **sections)
                self.trained(f"{name} parts", steps=1, run=dict(precision), **sections)
                self.trained(f"{name} parts", "--resume", run=dict(precision), **sections)
                self.assert_same_run(self.folder / f"{name} whole", self.folder / f"{name} parts")
                gaps = [row["mismatch/abs_prob_mean"] for row in support.metrics(self.folder / f"{name} whole")
                        if row["phase"] == "rl"]
                self.assertTrue(all(1e-6 < gap < 0.01 for gap in gaps), gaps)  # float32 is below 1e-6

    def test_precision_is_printed_recorded_and_kept(self):
        first = self.trained("run", steps=1, run={"precision": "bf16"})
        self.assertIn("parameters, bf16 with float32 masters, cpu", first.stdout)
        self.assertIn("mean |pi - mu| ", first.stdout)
        self.assertIn("precision: bf16", (self.folder / "run/config.yaml").read_text())
        for other in ("fp16", "auto"):
            refused = train(self.folder / "run", "--resume", **{**PLAN, "train": {"steps": 2}, "run": {"precision": other}})
            self.assert_refused(refused, 2, 'run.precision: "bf16" then')
        self.trained("plain", steps=1)
        self.assertIn("precision: float32", (self.folder / "plain/config.yaml").read_text())
        self.trained("plain", "--resume", steps=2, run={"precision": "float32"})  # what auto is on a CPU

    def test_float16_reports_its_loss_scale(self):
        self.trained("run", run={"precision": "fp16"})
        rows = support.metrics(self.folder / "run")
        scales = [row["optimizer/loss_scale"] for row in rows if row["phase"] != "eval"]
        self.assertTrue(all(1 <= scale <= 65536 and scale.is_integer() for scale in map(float, scales)), scales)
        skipped = rows[-1]["skipped_steps"]
        made = max(row["updates"] for row in rows)
        self.assertEqual(made + skipped, 8 + 4 * 2)  # of SFT, and two in each step
        # Gradients a thousand times larger overflow until the loss scale has adapted; the run continues.
        self.trained("steep", run={"precision": "fp16"}, objective={"entropy_coefficient": -1000})
        last = support.metrics(self.folder / "steep")[-1]
        self.assertGreater(last["skipped_steps"], 3)  # more consecutive skips than a run permits
        self.assertEqual(last["optimizer/loss_scale"], 65536 / 2 ** last["skipped_steps"])
        self.assertIn("a float16 overflow", (self.folder / "steep/log.txt").read_text())
        self.trained("plain", run={"precision": "bf16"})
        self.assertFalse(any("optimizer/loss_scale" in row for row in support.metrics(self.folder / "plain")))

    def test_unknown_precisions_are_refused(self):
        for word in ("fp8", "bfloat16", "half", "32"):
            self.assert_refused(train(self.folder / "run", run={"precision": word}), 2, "run.precision", "bf16")
        self.assert_refused(keel("generate", "--model", "x", "--prompt", "y", "--precision", "bf8"), 2, "--precision", "bf16")


class Using(support.Test):
    def test_sampling_and_evaluating_compute_in_it(self):
        self.assert_exit(train(self.folder / "run", **PLAN), 0)
        outputs = {}
        for precision in ("float32", "bf16", "fp16", "auto"):
            sampled = keel("generate", "--model", self.folder / "run", "--prompt", "3 - 4 - 2 =", "--temperature", "0", "--json",
                           "--max-new-tokens", "4", "--precision", precision)
            self.assert_exit(sampled, 0)
            outputs[precision] = json.loads(sampled.stdout)["logprobs"]
            evaluated = keel("eval", self.folder / "run/config.yaml", f"run.precision={precision}", "eval.prompts=4", "--json")
            self.assert_exit(evaluated, 0)
        self.assertEqual(outputs["auto"], outputs["float32"])
        for precision, unit in (("bf16", 2**-8), ("fp16", 2**-11)):
            apart = [abs(a - b) for a, b in zip(outputs[precision], outputs["float32"])]
            self.assertTrue(0 < max(apart) < 8 * unit, apart)


if __name__ == "__main__":
    support.main()
