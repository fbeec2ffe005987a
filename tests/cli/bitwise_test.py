"""Runs with rollout.bitwise: sampler and trainer compute equal bits."""

import support
from support import train

# A single update per step: all metrics are measured at equal weights.
SHORT = {"sft": {"steps": 4, "noisy_steps": 0}, "eval": {"prompts": 0}, "record": {"certificate_every": 0}}


class Bitwise(support.Test):
    def mismatches(self, run, *flags, steps, bitwise=True, **sections):
        rollout = {"bitwise": bitwise, "weights": "exact"}
        result = train(run, *flags, **(SHORT | sections), train={"steps": steps}, rollout=rollout)
        self.assert_exit(result, 0)
        return [row["mismatch/abs_prob_max"] for row in support.metrics(run) if row["phase"] == "rl"]

    def test_the_probabilities_are_equal_in_every_step(self):
        self.assertEqual(self.mismatches(self.folder / "run", steps=20), [0.0] * 20)
        without = self.mismatches(self.folder / "without", steps=3, bitwise=False)
        self.assertGreater(max(without), 0, "otherwise this test shows nothing")

    def test_with_a_reference_an_adapter_and_exact_divergences(self):
        settings = {"lora": {"rank": 2}, "reference": {"kl_coefficient": 0.05}, "objective": {"method": "dppo_full_tv"}}
        self.assertEqual(self.mismatches(self.folder / "run", steps=4, **settings), [0.0] * 4)

    def test_a_resumed_run_has_the_same_bits(self):
        for name, settings in (("reference", {"reference": {"kl_coefficient": 0.05}}),
                               ("critic", {"objective": {"method": "ppo_gae"}, "critic": {"body": "separate"}})):
            whole, run = self.folder / f"whole {name}", self.folder / f"run {name}"
            self.mismatches(whole, steps=4, **settings)
            self.mismatches(run, steps=2, **settings)
            self.mismatches(run, "--resume", steps=4, **settings)
            self.assert_same_run(run, whole)

    def test_contradicting_settings_are_refused_too(self):
        for rollout, wanted in (({"weights": "fp8"}, "rollout.weights=exact"), ({"logit_noise": 0.5}, "logit_noise")):
            result = train(self.folder / "run", rollout={"bitwise": True, "weights": "exact"} | rollout)
            self.assert_exit(result, 2)
            self.assertIn(wanted, result.stderr)


if __name__ == "__main__":
    support.main()
