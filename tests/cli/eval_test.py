"""keel eval: metrics recomputed from the written completions, and errors."""

import itertools
import json
import os

import byte_model
import own_files
import support
from support import QUICKSTART, eval_settings, keel, metrics, read_jsonl, train


def chains_answer(row):
    """The answer of a completion: the word after ANS, if it ended there."""
    words = row["completion"].split()
    return words[-1] if row["finish"] == "stop" and words[-2:-1] == ["ANS"] else ""


def majority(samples, k):
    """The fraction of blocks of k samples whose most frequent answer is right. Of equally frequent answers, the first counts."""
    blocks = [samples[i:i + k] for i in range(0, len(samples) - k + 1, k)]
    right = 0
    for block in blocks:
        votes = [answer for answer in map(chains_answer, block) if answer]
        winner = max(votes, key=votes.count, default=None)
        right += winner == str(block[0]["gold"])
    return right / len(blocks)


class Eval(support.Test):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        # Long enough that some completions are right.
        self.assert_exit(train(self.run_folder, model={"hidden_size": 32}, sft={"steps": 60, "noisy_steps": 3}), 0)

    def evaluate(self, *flags, **sections):
        sections.setdefault("run", {}).setdefault("dir", self.run_folder)
        sections.setdefault("model", {})["hidden_size"] = 32
        return keel("eval", QUICKSTART, *eval_settings(**sections), *flags)

    def test_metrics_follow_from_the_completions(self):
        samples = self.folder / "samples.jsonl"
        result = self.evaluate("--json", "--samples", samples,
                               eval={"prompts": 60, "samples": 4})
        self.assert_exit(result, 0)
        self.assertIn(f"completions written to {samples}", result.stderr)
        found = json.loads(result.stdout)["sources"]["chains"]
        rows = read_jsonl(samples)
        self.assertEqual((len(rows), found["prompts"], found["samples"]), (240, 60, 4))
        groups = [[row["reward"] for row in rows[i:i + 4]] for i in range(0, 240, 4)]
        for index, row in enumerate(rows):
            self.assertEqual(row["prompt_id"], index // 4)
            start, *steps = row["prompt"].split()[1:-1]
            value = int(start)
            for operator, operand in zip(steps[::2], steps[1::2]):
                value = {"+": value + int(operand), "-": value - int(operand), "*": value * int(operand)}[operator] % 5
            right = row["completion"].split()[-2:] == ["ANS", str(value)] and row["finish"] == "stop"
            self.assertEqual((row["reward"], row["solved"], row["gold"]), (float(right), right, value), row)
            self.assertEqual(row["answer"], chains_answer(row), row)
        self.assertTrue(any(map(sum, groups)))
        self.assertAlmostEqual(found["avg@4"]["mean"], sum(map(sum, groups)) / 240)
        for k in (1, 2, 4):
            shares = [sum(any(subset) for subset in itertools.combinations(group, k)) /
                      sum(1 for _ in itertools.combinations(group, k)) for group in groups]
            self.assertAlmostEqual(found[f"pass@{k}"]["mean"], sum(shares) / 60)
        for k in (2, 4):
            self.assertAlmostEqual(found[f"maj@{k}"]["mean"], sum(majority(rows[i:i + 4], k) for i in range(0, 240, 4)) / 60)

    def test_only_an_earlier_samples_file_is_replaced(self):
        few, samples = {"eval": {"prompts": 2}}, self.folder / "samples.jsonl"
        samples.touch()  # as mktemp creates it
        for prompts in (3, 2):
            self.assert_exit(self.evaluate("--samples", samples, eval={"prompts": prompts}), 0)
            self.assertEqual(len(read_jsonl(samples)), prompts)
        row = read_jsonl(samples)[0]
        own = self.folder / "own"
        for there in ("mine", "\n", "[" * 100000, '{"prompt_id":0,"prompt":"1+1","rating":"good"}\n', json.dumps({**row, "note": "mine"}),
                      json.dumps({name: row[name] for name in reversed(row)}), json.dumps([row]), "mine\n" + samples.read_text()):
            own.write_text(there)
            self.assert_refused(self.evaluate("--samples", own, **few), 2, str(own), "`keel eval --samples` did not write it",
                                "choose another name")
            self.assertEqual(own.read_text(), there)
        # These are checked before the model is loaded: there is no model here.
        no_model = {"run": {"dir": self.folder / "none"}}
        self.assert_refused(self.evaluate("--samples", own, **no_model), 2, "did not write it")
        self.assert_refused(self.evaluate("--samples", self.folder, **no_model), 2, "a folder has that name")
        self.assert_refused(self.evaluate("--samples", self.folder / "missing" / "samples.jsonl", **no_model), 2, "missing")
        self.assertEqual(sorted(os.listdir(self.folder)), ["own", "run", "samples.jsonl"])

    def test_training_sampling_settings_are_refused_and_used_ones_printed(self):
        for typed, instead in (("rollout.temperature=0.3", "eval.temperature"), ("rollout.samples_per_prompt=4", "eval.samples"),
                               ("rollout.top_k=20", "eval.top_k"), ("rollout.top_p=0.5", "eval.top_p"), ("rollout.min_p=0.1", "remove it"),
                               ("rollout.weights=exact", "remove it"), ("rollout.logit_noise=9", "remove it"),
                               ("rollout.staleness=1", "remove it"), ("rollout.dynamic_sampling=true", "remove it"),
                               ("rollout.max_batches=3", "remove it"), ("rollout.bitwise=true", "remove it")):
            self.assert_refused(self.evaluate(typed), 2, typed.partition("=")[0], instead)
        hint = self.evaluate("--temperature", "0")
        self.assert_refused(hint, 2, "eval.temperature=VALUE")
        self.assertNotIn("rollout.temperature", hint.stderr)
        self.assert_refused(self.evaluate("--samples", "4"), 2, "--samples 4", "eval.samples=4")
        greedy = {"eval": {"prompts": 5, "temperature": 0}}
        self.assertIn("1 sample of each prompt, greedy, at most ", self.evaluate(**greedy).stdout)
        self.assertIn("2 samples of each prompt, temperature 0.3, top_p 0.9", self.evaluate(
            eval={"prompts": 5, "temperature": 0.3, "top_p": 0.9, "samples": 2}).stdout)
        found = json.loads(self.evaluate("--json", **greedy).stdout)
        self.assertEqual((found["temperature"], found["top_p"], found["samples"]), (0, 1, 1))

    def test_the_folder_of_a_run_stands_for_its_configuration(self):
        named = keel("eval", self.run_folder / "config.yaml", "--json")
        self.assert_exit(named, 0)
        self.assertEqual(keel("eval", self.run_folder, "--json").stdout, named.stdout)
        self.assert_refused(keel("train", self.run_folder), 2, str(self.run_folder), "--resume")
        self.assert_exit(keel("train", self.run_folder, "--resume", "train.steps=5"), 0)
        self.assertEqual(metrics(self.run_folder)[-1]["step"], 65)

    def test_training_computes_maj_at_k_equally(self):
        samples = self.folder / "samples.jsonl"
        run = self.folder / "again"
        sizes = {"model": {"hidden_size": 32}, "eval": {"prompts": 30, "samples": 4}}
        self.assert_exit(train(run, sft={"steps": 60, "noisy_steps": 3}, **sizes), 0)
        self.assert_exit(self.evaluate("--samples", samples, run={"dir": run}, **sizes), 0)
        rows = read_jsonl(samples)
        last = [row for row in metrics(run) if row["phase"] == "eval"][-1]
        self.assertAlmostEqual(last["eval/maj@4"], sum(majority(rows[i:i + 4], 4) for i in range(0, 120, 4)) / 30)

    def test_one_sample_is_what_training_reported(self):
        last = [row for row in metrics(self.run_folder) if row["phase"] == "eval"][-1]
        found = json.loads(self.evaluate("--json").stdout)["sources"]["chains"]
        self.assertEqual(found["avg@1"]["mean"], last["eval/accuracy"])
        named = self.evaluate("--json", "--model", self.run_folder / "checkpoints" / support.checkpoints(self.run_folder)[-1])
        self.assertEqual(json.loads(named.stdout)["sources"]["chains"], found)

    def test_the_table_names_every_measure(self):
        result = self.evaluate(eval={"samples": 2, "temperature": 0.7, "top_p": 0.9})
        self.assert_exit(result, 0, "avg@2", "pass@1", "pass@2", "maj@2", "95 % interval")

    def test_prompts_that_agree_have_an_interval(self):
        """Wilson's interval: for 0 of 4 it is [0, 0.4899] (statsmodels' proportion_confint)."""
        result = self.evaluate("--json", eval={"prompts": 4, "samples": 2, "temperature": 0},
                               reward={"functions": '["length:1000000"]', "weights": "[0]"})
        self.assert_exit(result, 0)
        found = json.loads(result.stdout)["all"]
        for name in ("avg@2", "pass@1", "pass@2", "maj@2"):
            self.assertEqual(found[name]["mean"], 0, name)
            self.assertAlmostEqual(found[name]["low"], 0, places=12)
            self.assertAlmostEqual(found[name]["high"], 0.4898908364545974, places=9)
        last = [row for row in metrics(self.run_folder) if row["phase"] == "eval"][-1]
        self.assertLess(last["eval/low"], last["eval/high"])

    def test_invalid_evaluations_are_refused(self):
        self.assert_refused(self.evaluate(eval={"prompts": 0}), 2, "eval.prompts")
        self.assert_refused(self.evaluate(run={"dir": self.folder / "none"}), 3, f"there is no folder {self.folder / 'none'}", "--model")
        (self.folder / "empty").mkdir()
        self.assert_exit(self.evaluate(run={"dir": self.folder / "empty"}), 3, "no valid checkpoint", "--model")
        (self.folder / "empty").rmdir()
        self.assert_refused(self.evaluate("--model", self.folder / "none"), 3, "none")
        self.assertEqual(sorted(os.listdir(self.folder)), ["run"])


class OwnRows(own_files.Test):
    def test_rows_that_repeat_a_problem_are_samples_of_it(self):
        """30 problems of which 11 are solved, in 4 rows each: Wilson's interval of 11 of 30, not of 44 of 120."""
        self.reward = self.write("by_row.py", "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
                                              "    return float(ground_truth)\n")
        rows = [json.dumps({"data_source": "sums", "prompt": "<bos> " + " + ".join("1" * (n + 1)) + " =",
                            "reward_model": {"style": "rule", "ground_truth": str(int(n < 11))}, "id": str(copy)}) + "\n"
                for copy in range(4) for n in range(30)]
        once, often = self.write("once.jsonl", "".join(rows[:30])), self.write("often.jsonl", "".join(rows))
        numbers = {}
        for name, file, samples in (("once", once, 4), ("often", often, 1)):
            result = self.evaluate(data={"eval_files": [str(file)]}, eval={"prompts": 120, "samples": samples})
            self.assert_exit(result, 0)
            self.assertEqual(len(result.samples), 120)
            numbers[name] = result.numbers["all"]
        self.assertEqual(numbers["often"], numbers["once"])
        self.assertEqual((numbers["often"]["prompts"], numbers["often"]["samples"]), (30, 4))
        self.assertAlmostEqual(numbers["often"]["pass@4"]["low"], 0.2187, places=4)
        self.assertAlmostEqual(numbers["often"]["pass@4"]["high"], 0.5449, places=4)
        sections = {"data": {"files": [], "eval_files": [str(often)]}, "eval": {"prompts": 120}}
        table = support.keel("eval", self.configuration("run", **sections), "--model", self.model).stdout
        self.assertIn("data.eval_files: 30 problems in 120 rows\n1 sample of each row, ", table)
        sections["eval"]["prompts"] = 31
        self.assertIn(": 31 of 120 rows (eval.prompts), 30 problems\n",
                      support.keel("eval", self.configuration("run", **sections), "--model", self.model).stdout)
        trained = self.train("run", data={"eval_files": [str(often)]}, eval={"prompts": 120}, train={"steps": 1})
        self.assert_exit(trained, 0)
        self.assertIn("30 problems in 120 rows", trained.stdout + trained.stderr)
        self.assertIn("on 30 prompts", trained.stdout + trained.stderr)
        self.assertEqual(metrics(self.folder / "run")[0]["eval/count"], 30)

    def test_inputs_are_not_overwritten(self):
        link = self.folder / "link.jsonl"
        link.symlink_to(self.data)
        config = self.configuration("run", data={"files": []})
        for file in (self.data, link, self.reward, config):
            before = file.read_bytes()
            self.assert_refused(support.keel("eval", config, "--samples", file), 2, str(file), "choose another name")
            self.assertEqual(file.read_bytes(), before)

    def test_training_rows_are_labelled(self):
        for names, label in ((("files", "eval_files"), "data.eval_files: 6 of 20 rows (eval.prompts)"),
                            (("files",), "data.files, the training rows: 6 of 20 rows (eval.prompts)")):
            values = {"data": {"files": [], "eval_files": [], **{name: [str(self.data)] for name in names}}}
            table = support.keel("eval", self.configuration("run", **values), "--model", self.model)
            self.assertIn(f" on {label}\n", table.stdout, table.stderr)
            found = support.keel("eval", self.configuration("run", **values), "--model", self.model, "--json")
            self.assertEqual(json.loads(found.stdout)["rows"], label)

    def test_a_reward_knows_the_updates_of_the_weights_that_are_evaluated(self):
        self.reward = self.write("step.py", "def compute_score(completions, trainer_state, **kwargs):\n"
                                            "    return [float(trainer_state.global_step) for _ in completions]\n")
        result = self.train("run", train={"steps": 3, "sequences_per_update": 2}, eval={"prompts": 2, "every": 1})
        self.assert_exit(result, 0)
        rows = [row for row in metrics(self.folder / "run") if row["phase"] == "eval"]
        self.assertEqual([row["eval/reward"] for row in rows], [0, 3, 6, 9])
        self.assertEqual([row["updates"] for row in rows], [0, 3, 6, 9])
        found = support.keel("eval", self.folder / "run" / "config.yaml", "--json")
        self.assertEqual(json.loads(found.stdout)["all"]["avg@1"]["mean"], 9)


class OtherFormats(support.Test):
    def test_a_checkpoint_of_another_format_is_refused_by_its_number_and_what_it_has_learned_can_be_used(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        last = run / "checkpoints" / support.checkpoints(run)[-1]
        resume = ("train", run / "config.yaml", "--resume", "train.steps=2")
        evaluate = ("eval", run / "config.yaml", "eval.prompts=2", "-q")
        for number, whose, commands in ((2, "an older Keel", (resume, evaluate, (*evaluate, "--model", run))),
                                        (99, "a newer Keel", (evaluate,))):
            support.change_state(last, without=("noisy_steps",) if number == 2 else (), format=f"keel checkpoint {number}")
            for command in commands:
                refused = keel(*command)
                self.assert_refused(refused, 3, f'"keel checkpoint {number}"', whose, f"model.path={last}", "convert")
                self.assertNotIn("noisy_steps", refused.stderr)
        model = self.folder / "model"
        self.assert_exit(keel("convert", last, model), 0)
        self.assert_exit(keel(*evaluate, "--model", model), 0)


class StopTokens(support.Test):
    def test_the_tokenizers_eos_also_stops(self):
        run = byte_model.trained_model(self.folder)
        folder = run / "checkpoints" / support.checkpoints(run)[-1]
        model = self.folder / "model"
        model.mkdir()
        for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
            (model / name).write_bytes((folder / name).read_bytes())
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "eos_token_id": 256}))  # the tokenizer's id is 258, <|im_end|>
        result = keel("generate", "--model", model, "--prompt", "Hi", "--json", "-n", 40, "--max-new-tokens", 200)
        self.assert_exit(result, 0)
        rows = [json.loads(line)["tokens"] for line in result.stdout.splitlines()]
        self.assertEqual({row[-1] for row in rows if row[-1] >= 256} & {256, 258}, {256, 258})
        self.assertFalse([row for row in rows if {256, 258} & set(row[:-1])])
        explained = keel("train", f"model={model}", f"data.files=[{self.folder / 'rows.jsonl'}]", "reward.functions=[length:3]",
                         'rollout.stop_strings=["z"]', "rollout.max_new_tokens=8", "--explain",
                         f"run.dir={self.folder / 'none'}")
        self.assert_exit(explained, 0, 'tokens, stop at <|endoftext|>, <|im_end|>, "z"\n')


if __name__ == "__main__":
    support.main()
