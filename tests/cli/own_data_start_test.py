"""Runs on custom models, data and rewards: the start message, data formats, and failures reported once."""

import bz2
import csv
import json
import lzma
import shutil

import own_files
import support


class OwnDataStart(own_files.Test):
    def test_json_lists_and_csv_tables_are_rows_too(self):
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
            result = self.evaluate(data={"files": str(path), "eval_files": []}, reward={"functions": "exact"},
                                   eval={"prompts": 20})
            self.assert_exit(result, 0)
            rewards[path] = [(sample["prompt"], sample["gold"], sample["completion"], sample["reward"]) for sample in result.samples]
            self.assertEqual(len(rewards[path]), 20)
        self.assertEqual(rewards[listed], rewards[lines])
        self.assertEqual(rewards[table], rewards[lines])
        result = self.train("run", data={"files": str(table), "eval_files": str(listed)}, reward={"functions": ["exact"]},
                            train={"steps": 1})
        self.assert_exit(result, 0)
        broken = self.write("broken.csv", "prompt,answer\n<bos> 1 + 1 =,2\n1,2,3\n")
        self.assert_refused(self.train("broken", data={"files": [str(broken)], "eval_files": []}), 3, "broken.csv:3", "3 values")

    def test_explain_creates_no_random_weights(self):
        large = self.folder / "large"
        shutil.copytree(self.model, large, ignore=shutil.ignore_patterns("*.safetensors"))
        config = json.loads((large / "config.json").read_text())
        config |= {"hidden_size": 65536, "num_hidden_layers": 100, "intermediate_size": 262144}  # 8 TB in float32
        (large / "config.json").write_text(json.dumps(config))
        result = self.train("large", "--explain", model={"path": str(large), "random_weights": True})
        self.assert_exit(result, 2)
        self.assertRegex(result.stdout, r"memory +about [0-9.]+ TiB; .*: does not fit")

    def test_a_run_prints_its_settings_at_the_start(self):
        result = self.train("run", reward={"functions": [f"python:{self.reward}", "stopped"], "weights": [0.5, 2]},
                            train={"steps": 1, "prompts_per_step": 3}, objective={"delta_low": 0.11, "delta_high": 0.12})
        self.assert_exit(result, 0)
        start = result.stdout[:result.stdout.index("self-test")]
        config = json.loads((self.model / "config.json").read_text())
        rows = [json.loads(line) for line in self.data.read_text().splitlines()]
        longest = max(len(row["prompt"].split()) for row in rows)  # the tokenizer splits at spaces
        self.assertLess(longest + 8, config["max_position_embeddings"])
        self.assertNotRegex(start, r"\bk = |\bsupport = ")  # only top-K divergences use it
        for part in ("dppo_tv: g = min(r, ratio_cap) A", "low = 0.11, high = 0.12", "group_mean; aggregation seq_mean_token_sum_norm by 8",
                     str(self.model), f"llama, {config['num_hidden_layers']} layers, width 16, vocabulary {config['vocab_size']}",
                     "parameters, float32, cpu", str(self.data), "20 rows", "read as: verl",
                     f"0.5 x python:{self.reward} + 2 x stopped", "3 prompts x 2 samples = 6 completions; 1 update of 6 completions",
                     f"prompts of up to {longest} tokens", "learning rate 0.01", "sample, temperature 1", "  seed        0\n", "the model's own weights", str(self.folder / "run")):
            self.assertIn(part, start)
        resumed = self.train("run", "--resume", reward={"functions": [f"python:{self.reward}", "stopped"], "weights": [0.5, 2]},
                             train={"steps": 2, "prompts_per_step": 3}, objective={"delta_low": 0.11, "delta_high": 0.12})
        self.assert_exit(resumed, 0)
        self.assertIn("low = 0.11, high = 0.12", resumed.stdout)
        self.assertIn("2 x stopped", resumed.stdout)
        self.assertNotIn("rows in the order of the files", start)
        other = self.train("other", "--explain", "run.seed=7", data={"shuffle": False}, rollout={"stop_strings": ["4"]},
                           objective={"method": "grpo", "delta": 1.5})
        for part in ("rows in the order of the files", "  seed        7\n", 'stop at <eos>, "4"',
                     "low = 1.5 (blocks nothing: no ratio is below 0), high = 1.5"):
            self.assertIn(part, other.stdout)

    def test_compressed_files_and_unexpanded_names_are_reported(self):
        for name, content, part in (("rows.jsonl.bz2", bz2.compress(b"{}"), "bzip2 files are not supported"),
                                    ("rows.jsonl.xz", lzma.compress(b"{}"), "xz files are not supported")):
            (self.folder / name).write_bytes(content)
            self.assert_refused(self.train("packed", data={"files": [str(self.folder / name)], "eval_files": []}), 3, name, part, "unpack it")
        self.assert_refused(self.train("shell", data={"files": ["$HOME/rows.jsonl"], "eval_files": []}), 3, "expanded only by a shell")
        self.assert_refused(self.train("shell", model={"path": "$HOME/model"}), 3, "expanded only by a shell")

    def test_a_file_of_two_functions_is_one_file(self):
        functions = [f"python:{self.reward}:compute_score", f"python:{self.reward}"]
        self.assert_exit(self.train("run", reward={"functions": functions}, train={"steps": 1}), 0)
        used = json.loads((self.folder / "run" / "used.json").read_text())
        self.assertEqual([file.split(" ")[0] for file in used["reward.files"]], [str(self.reward)])

    def test_penalties_exclusions_and_staleness_are_printed(self):
        more = {"reward": {"overlong_buffer": 4, "overlong_penalty": 0.5}, "train": {"mask_truncated": True, "steps": 1},
                "rollout": {"dynamic_sampling": True, "max_batches": 3, "staleness": 1}, "optimizer": {"moments": "8bit"},
                "checkpoint": {"best_metric": "auto"}, "health": {"on_alarm": "stop"}}
        parts = ("+ 0.5 x overlong (the last 4 of 8 tokens)", "1 step behind the trained policy",
                 "groups of equal rewards are replaced, sampling at most 3 batches",
                 "truncated completions are masked", " is kept as checkpoints/best",
                 "an alarm of 20 steps saves the run and stops it")
        explained, plain = self.train("run", "--explain", **more), self.train("plain", "--explain")
        run = self.train("run", **more)
        self.assert_exit(run, 0)
        for part in parts:
            self.assertIn(part, explained.stdout)
            self.assertIn(part, run.stdout)
            self.assertNotIn(part, plain.stdout)
        self.assertIn("moments in 8 bits", explained.stdout)
        self.assertIn("moments in float32: optimizer.moments=8bit applies to", run.stdout)  # because the network is so small

    def test_the_report_mentions_random_weights_and_noisy_samplers(self):
        headers = {}
        for run, model, rollout in (("plain", {}, {}), ("other", {"random_weights": True}, {"weights": "int8", "logit_noise": 0.3})):
            self.assert_exit(self.train(run, train={"steps": 1}, model=model, rollout=rollout), 0)
            page = (self.folder / run / "report.html").read_text()
            headers[run] = page[page.index("<header>"):page.index("</header>")]
        for fact in ("model weights <b>random</b>", "sampler <b>int8 weights, logit noise 0.3</b>"):
            self.assertIn(fact, headers["other"])
            self.assertNotIn(fact.partition("<b>")[0], headers["plain"])

    def test_evaluation_rows_in_the_training_data_are_reported(self):
        rows = self.data.read_text().splitlines(keepends=True)
        for name, count in (("all", 20), ("some", 3), ("none", 0)):
            other = self.write(f"{name}.jsonl", "".join(rows[:count]) + json.dumps({**json.loads(rows[0]), "prompt": "<bos> 4 + 4 ="}) + "\n")
            result = self.train("run", "--explain", data={"eval_files": [str(other)]})
            self.assert_exit(result, 0)
            note = f"includes the prompts of {count} rows of data.eval_files"
            self.assertEqual(note in result.stdout, count > 0, result.stdout)

    def test_a_report_compares_no_evaluations_of_two_rewards_or_of_other_rows(self):
        others = self.write("others.jsonl", self.data.read_text())
        evaluated = {"data": {"eval_files": [str(others)]}}
        self.assert_exit(self.train("rows", train={"steps": 1}, **evaluated), 0)
        self.assert_exit(self.train("reward", train={"steps": 1}), 0)
        page = lambda run: (self.folder / run / "report.html").read_text()
        self.assertIn("before → after", page("reward"))
        others.write_text("".join(others.read_text().splitlines(keepends=True)[:7]))
        self.assert_exit(self.train("rows", "--resume", "--changed-data", train={"steps": 2}, **evaluated), 0)
        self.reward.write_text(own_files.REWARD.replace("/ 10", "/ 20"))
        self.assert_exit(self.train("reward", "--resume", train={"steps": 2}), 0)
        for run, why in (("rows", "data.eval_files: the rows are not those of before"), ("reward", f"reward file {self.reward} was changed")):
            self.assertNotIn("before → after", page(run))
            header = page(run)[:page(run).index("</header>")]
            self.assertIn("Evaluations before and after this change are not comparable: ", header)
            self.assertIn(why, header)

    def test_choices_that_change_the_equation_are_printed(self):
        def explained(**objective):
            return self.train("run", "--explain", objective={"method": "dppo_kl", **objective}).stdout

        self.assertNotIn("instead of the equation's", explained())
        self.assertIn("with divergence binary_tv instead of the equation's", explained(parameters=["divergence=binary_tv"]))
        self.assertIn("with anchor recomputed instead of the equation's", explained(anchor="recomputed"))

    def test_a_skipped_evaluation_is_not_announced(self):
        for flags in ((), ("--explain",)):
            output = self.train("none", *flags, data={"eval_files": []}, train={"steps": 1}).stdout
            self.assertRegex(output, r"evaluation +none: neither data.eval_files nor data.held_out")
            self.assertNotIn("before and after", output)
        output = self.train("none", "--explain", data={"eval_files": [], "held_out": 1e-6}, train={"steps": 1}).stdout
        self.assertRegex(output, r"evaluation +none: data.held_out, 1e-06, is too small: no row is held out")
        self.assertNotIn("eval.prompts", json.loads((self.folder / "none" / "used.json").read_text()))
        three = self.write("three.jsonl", "".join(self.data.read_text().splitlines(keepends=True)[:3]))
        output = self.train("three", "--explain", data={"eval_files": [str(three)]}, eval={"prompts": 512}).stdout
        self.assertIn("3 prompts x 1 sample, temperature 1", output)

    def test_all_evaluation_rows_count_unless_a_number_is_set(self):
        many = self.write("many.jsonl", "".join(json.dumps({"prompt": f"<bos> {i % 5} + 1 =", "answer": str(i)}) + "\n" for i in range(514)))
        few = self.write("few.jsonl", '{"prompt": "<bos> 1 + 1 =", "answer": "2"}\n')
        more = {"data": {"eval_files": [str(many), str(few)]}, "rollout": {"max_new_tokens": 1}, "reward": {"functions": ["exact"]}}
        whole = self.evaluate(eval={"prompts": None}, **more)
        self.assert_exit(whole, 0)
        self.assertEqual({name: numbers["prompts"] for name, numbers in whole.numbers["sources"].items()}, {"many": 514, "few": 1})
        more["data"]["files"] = [str(self.data)]
        config = self.configuration("run", eval={"prompts": None}, train={"steps": 1}, **more)
        self.assertIn("on data.eval_files: all 515 rows\n", support.keel("eval", config, "--model", self.model).stdout)
        self.assertIn("515 prompts x 1 sample", support.keel("train", config, "--explain").stdout)

        part = f"10 of 515 rows (eval.prompts); none of {few}"
        result = support.keel("eval", config, "--model", self.model, "eval.prompts=10")
        self.assertIn(f"on data.eval_files: {part}\n", result.stdout)
        output = json.loads(support.keel("eval", config, "--model", self.model, "eval.prompts=10", "--json").stdout)["left_out"]
        self.assertEqual((output["rows_behind_eval_prompts"], output["files_without"]), (505, [str(few)]))
        self.assertIn(part, support.keel("train", config, "eval.prompts=10", "--explain").stdout)
        trained = support.keel("train", config, "eval.prompts=10")
        self.assert_exit(trained, 0)
        self.assertIn(part, trained.stdout)
        self.assertIn(part, (self.folder / "run" / "report.html").read_text())
        kept_back = support.keel("eval", config, "--model", self.model, "eval.prompts=2", f'data.files=["{many}"]', "data.eval_files=[]",
                                 "data.held_out=0.5")
        self.assertIn("on the held-out rows of data.files: the first 2 of them (eval.prompts)\n", kept_back.stdout)

    def test_one_prompt_does_not_make_rewards_equal(self):
        one = {"eval": {"prompts": 1, "samples": 4}}
        for output in (support.keel("eval", self.configuration("run", **one), "--model", self.model).stdout,
                       self.train("run", train={"steps": 1}, **one).stdout):
            self.assertIn("only one prompt", output)
            self.assertNotIn("equal", output)

    def test_explain_refuses_what_a_run_would_refuse(self):
        bare = self.write("bare.jsonl", '{"prompt": "<bos> 1 + 1 ="}\n')
        for code, parts, sections in ((3, ("bare.jsonl:1", "answer"), {"data": {"files": [str(bare)], "eval_files": []}, "reward": {"functions": ["math"]}}),
                                      (2, ("lora.target_modules", "nosuch"), {"lora": {"rank": 2, "target_modules": ["q_proj", "nosuch"]}}),
                                      (2, ("rollout.max_new_tokens is 5000",), {"rollout": {"max_new_tokens": 5000}}),
                                      (2, ("chat template",), {"data": {"chat": "always"}}),
                                      (2, ("data.held_out", "data.eval_files"), {"data": {"held_out": 0.5}})):
            explained, run = self.train("refused", "--explain", **sections), self.train("refused", **sections)
            self.assert_refused(explained, code, *parts)
            self.assertEqual(explained.stderr, run.stderr)
        adapter = {"lora": {"rank": 2, "target_modules": ["layers.1.self_attn.q_proj"]}}
        self.assertIn("on 1 linear layer", self.train("adapter", "--explain", **adapter).stdout)

    def test_files_in_other_formats_get_fixes(self):
        conversation = '"[{""role"": ""user"", ""content"": ""q""}]",3\n'
        for name, text, *parts in (("a.csv", "prompt,answer\n" + conversation, "a.csv:2", "a conversation written as a text", "JSON lines"),
                                   ("b.csv", "prompt,answer\n" + conversation.replace('""', "'"), "b.csv:2", "a conversation written as a text"),
                                   ("c.csv", "prompt;answer\nq;3\n", "c.csv:2", 'the row has "prompt;answer"'),
                                   ("d.json", '{"train": [{"prompt": "q", "answer": "3"}]}', 'the row has "train"', "data.prompt_key"),
                                   ("e.json", '{"prompt": ["a", "b"], "answer": ["1", "2"]}', "not a list for each column")):
            path = self.write(name, text)
            self.assert_refused(self.train("refused", data={"files": [str(path)], "eval_files": []}), 3, *parts)
        capitals = self.write("F.CSV", "prompt,answer\n<bos> 1 + 1 =,2\n")
        self.assert_exit(self.train("capitals", "--explain", data={"files": [str(capitals)], "eval_files": []}, reward={"functions": ["exact"]}), 0)

    def test_a_traceback_is_printed_once_per_failing_line(self):
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
        self.assertGreater(log.count("no more tea"), 10)  # the log has all of them
        self.assertEqual(log.count("Traceback (most recent call last)"), 2)
        self.assertIn("line 7, in compute_score", log)

    def test_a_collapse_of_the_reward_within_the_first_steps_is_noticed(self):
        """4 prompts a step, with a reward of 1 up to step 7. Wilson's intervals of 20 of 20 (steps 1 to 5) and of 8 of 20 (steps 6
        to 10) are [0.839, 1] and [0.219, 0.613]."""
        self.reward = self.write("fall.py", "def compute_score(completions, trainer_state, **kwargs):\n"
                                            "    return [float(trainer_state.global_step < 7) for _ in completions]\n")
        result = self.train("run", train={"steps": 11, "prompts_per_step": 4, "sequences_per_update": 8}, eval={"prompts": 0})
        self.assert_exit(result, 0)
        self.assertEqual([row["reward/mean"] for row in support.metrics(self.folder / "run")], 7 * [1] + 4 * [0])
        self.assertIn("step 10: the mean reward of the last 5 steps is 0.400 [0.219, 0.613], less than half of that of the first 5 steps, "
                      "1.000 [0.839, 1.000] (95 % intervals)", (self.folder / "run" / "log.txt").read_text())


if __name__ == "__main__":
    support.main()
