"""What a run on the user's own model, data and rewards says at its start, data in other formats, and failures told once."""

import csv
import json

import own_files
import support


class OwnDataStart(own_files.Test):
    def test_a_list_in_one_file_and_a_table_are_rows_too(self):
        rows = [json.loads(line) for line in self.data.read_text().splitlines()]
        flat = [{"prompt": row["prompt"], "answer": row["reward_model"]["ground_truth"]} for row in rows]
        listed = self.write("rows.json", json.dumps(flat, indent=2))
        table = self.folder / "rows.csv"
        with open(table, "w", newline="") as file:
            writer = csv.DictWriter(file, ["prompt", "answer"])
            writer.writeheader()
            writer.writerows(flat)
        lines = self.write("flat.jsonl", "".join(json.dumps(row) + "\n" for row in flat))
        rewards = {}
        for path in (lines, listed, table):
            result = self.evaluate(data={"files": [str(path)], "eval_files": []}, reward={"functions": ["exact"]},
                                   eval={"prompts": 20})
            self.assert_exit(result, 0)
            rewards[path] = [(sample["prompt"], sample["gold"], sample["completion"], sample["reward"]) for sample in result.samples]
            self.assertEqual(len(rewards[path]), 20)
        self.assertEqual(rewards[listed], rewards[lines])
        self.assertEqual(rewards[table], rewards[lines])
        result = self.train("run", data={"files": [str(table)], "eval_files": [str(listed)]}, reward={"functions": ["exact"]},
                            train={"steps": 1})
        self.assert_exit(result, 0)
        broken = self.write("broken.csv", "prompt,answer\n<bos> 1 + 1 =,2\n1,2,3\n")
        self.assert_refused(self.train("broken", data={"files": [str(broken)], "eval_files": []}), 3, "broken.csv:3", "3 values")

    def test_a_run_says_at_its_start_what_it_does(self):
        result = self.train("run", reward={"functions": [f"python:{self.reward}", "stopped"], "weights": [0.5, 2]},
                            train={"steps": 1, "prompts_per_step": 3}, objective={"delta_low": 0.11, "delta_high": 0.12})
        self.assert_exit(result, 0)
        start = result.stdout[:result.stdout.index("self-test")]
        config = json.loads((self.model / "config.json").read_text())
        self.assertNotRegex(start, r"\bk = |\bsupport = ")  # which only top-K divergences read
        for part in ("dppo_tv: g = min(r, ratio_cap) A", "low = 0.11, high = 0.12", "group_mean; aggregation seq_mean_token_sum_norm by 8",
                     str(self.model), f"llama, {config['num_hidden_layers']} layers, width 16, vocabulary {config['vocab_size']}",
                     "parameters, float32, cpu", str(self.data), "20 rows", "read as: verl",
                     f"0.5 x python:{self.reward} + 2 x stopped", "3 prompts x 2 samples = 6 completions; 1 updates of 6 completions",
                     "learning rate 0.01", "sample, temperature 1", "the model's own weights", str(self.folder / "run")):
            self.assertIn(part, start)
        resumed = self.train("run", "--resume", reward={"functions": [f"python:{self.reward}", "stopped"], "weights": [0.5, 2]},
                             train={"steps": 2, "prompts_per_step": 3}, objective={"delta_low": 0.11, "delta_high": 0.12})
        self.assert_exit(resumed, 0)
        self.assertIn("low = 0.11, high = 0.12", resumed.stdout)
        self.assertIn("2 x stopped", resumed.stdout)

    def test_a_configuration_of_verl_trains_and_shows_the_method_of_verl(self):
        values = {"actor_rollout_ref": {"model": {"path": str(self.model)}, "rollout": {"n": 2}, "actor": {"clip_ratio": 0.2}},
                  "algorithm": {"adv_estimator": "grpo"}, "data": {"train_files": str(self.data), "train_batch_size": 3, "max_response_length": 8},
                  "custom_reward_function": {"path": str(self.reward)}, "trainer": {"total_training_steps": 1, "default_local_dir": str(self.folder / "verl"),
                                                                                    "save_freq": -1, "test_freq": -1}}
        result = support.keel("train", self.write("verl.json", json.dumps(values)))
        self.assert_exit(result, 0)
        for part in ("ppo: g = min(r, ratio_cap) A, r = pi/mu; blocked: A > 0 and r > 1 + high", "ratio_cap = none", "low = 0.2, high = 0.2, dual = 3", "grpo; aggregation token_mean", "whose defaults hold"):
            self.assertIn(part, result.stdout)
        self.assertNotIn("dppo", result.stdout)
        written = (self.folder / "verl" / "config.yaml").read_text()
        self.assertIn("method: ppo\n", written)
        again = support.keel("train", self.folder / "verl" / "config.yaml", "--resume", "train.steps=2")
        self.assert_exit(again, 0)
        self.assertIn("low = 0.2, high = 0.2, dual = 3", again.stdout)

    def test_a_traceback_is_told_once_for_each_place_that_fails(self):
        self.reward.write_text("""
import os
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if extra_info["bonus"] == 4:
        os._exit(3)  # and the next completion has a process of its own, that has told nothing yet
    if extra_info["bonus"] % 2:
        raise RuntimeError(f"no more tea for {solution_str}")
    return {}["honey " + solution_str]
""")
        result = self.train("run", reward={"on_error": "zero", "workers": 4}, train={"steps": 8})
        self.assert_exit(result, 0)
        self.assertEqual(result.stderr.count("Traceback (most recent call last)"), 2, result.stderr)
        self.assertEqual(result.stderr.count("RuntimeError: no more tea"), 1)
        self.assertEqual(result.stderr.count("KeyError: "), 1)
        self.assertIn("line 7, in compute_score", result.stderr)
        log = (self.folder / "run" / "log.txt").read_text()
        self.assertGreater(log.count("no more tea"), 10)  # where all of them are


if __name__ == "__main__":
    support.main()
