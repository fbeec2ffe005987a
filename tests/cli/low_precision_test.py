"""Runs with rounded sampler weights or noisy logits."""

import support
from support import keel, train

SENTENCES = {
    "exact": "exact: the model's own weights",
    "bf16": "bf16: weights, activations, keys and values rounded to bf16",
    "fp16": "fp16: weights, activations, keys and values rounded to fp16",
    "fp8": "fp8: a copy of the weights rounded to fp8 (e4m3, a scale per output channel)",
    "fp8_full": "keys and values too",
    "fp8_e5m2_full": "keys and values to e5m2",
    "nvfp4": "an e4m3 scale per 16 inputs",
    "int8": "-127 to 127",
    "int4": "-7 to 7",
    "int3": "-3 to 3",
}
SMALL = {"sft": {"steps": 2, "noisy_steps": 0}, "eval": {"prompts": 0}, "record": {"certificate_every": 0}}


class EveryPrecision(support.Test):
    def trained(self, run, weights, *flags, steps, noise=0):
        result = train(run, *flags, **SMALL, train={"steps": steps}, rollout={"weights": weights, "logit_noise": noise})
        self.assert_exit(result, 0)
        return result

    def test_is_printed_and_resumes_to_the_same_bits(self):
        known = train(self.folder / "none", rollout={"weights": "none"})
        self.assert_exit(known, 2)
        self.assertIn("expected one of " + ", ".join(SENTENCES), known.stderr)
        for i, (weights, sentence) in enumerate(SENTENCES.items()):
            noise = 0.5 if i % 3 == 2 else 0
            with self.subTest(weights=weights, noise=noise):
                whole, run = self.folder / weights, self.folder / f"{weights} resumed"
                output = self.trained(whole, weights, steps=2, noise=noise).stdout
                self.assertIn(sentence, output)
                self.assertIn("self-test: sampler and trainer agree", output)
                self.assertEqual("Gaussian noise of standard deviation 0.5 on every logit" in output, noise > 0)
                if support.count(i % 3 == 2, True):
                    self.trained(run, weights, steps=1, noise=noise)
                    self.trained(run, weights, "--resume", steps=2, noise=noise)
                    self.assert_same_run(run, whole)
                for row in support.metrics(whole):
                    if row["phase"] == "rl":
                        self.assertEqual((row["mismatch/weights"], row.get("mismatch/logit_noise", 0)), (weights, noise))
        self.assert_exit(keel("report", self.folder / "nvfp4"), 0)

    def test_is_kept_for_the_whole_run(self):
        self.trained(self.folder / "run", "fp8", steps=1)
        for change in ({"weights": "int8"}, {"weights": "fp8", "logit_noise": 0.1}):
            result = train(self.folder / "run", "--resume", **SMALL, train={"steps": 2}, rollout=change)
            self.assert_exit(result, 2)
            self.assertIn("rollout.", result.stderr)


if __name__ == "__main__":
    support.main()
