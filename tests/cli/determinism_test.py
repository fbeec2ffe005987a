"""Equal seeds give bitwise equal runs; other seeds give other runs."""

import support
from support import train


class SameSeed(support.Test):
    def test_equal_seeds_give_equal_bits_and_other_seeds_do_not(self):
        sections = {"sft": {"steps": 30, "noisy_steps": 10}, "eval": {"prompts": 50, "every": 2}, "train": {"epochs": 2},
                    "rollout": {"weights": "fp8"}}
        for name, seed in (("a", 11), ("b", 11), ("c", 12)):
            self.assert_exit(train(self.folder / name, run={"seed": seed}, **sections), 0)
        self.assert_same_run(self.folder / "a", self.folder / "b")
        a, c = self.folder / "a", self.folder / "c"
        self.assertNotEqual(support.metrics(a), support.metrics(c))
        for name in ("samples.jsonl", *self.final_files(a)):
            self.assertNotEqual((a / name).read_bytes(), (c / name).read_bytes(), name)

    def test_saving_recording_and_batch_size_do_not_change_the_bits(self):
        # These must not affect results. rollout.max_sequences is excluded: it changes GEMM shapes, so a library may sum in
        # another order.
        self.assert_exit(train(self.folder / "a"), 0)
        self.assert_exit(train(self.folder / "b", checkpoint={"every": 0}, record={"samples_per_step": 5}), 0)
        for name in self.final_files(self.folder / "a"):
            self.assertEqual((self.folder / "a" / name).read_bytes(), (self.folder / "b" / name).read_bytes(), name)
        self.assertEqual(support.metrics(self.folder / "a"), support.metrics(self.folder / "b"))


if __name__ == "__main__":
    support.main()
