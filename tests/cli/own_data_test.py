"""Custom model folder, data file and reward function in training, resumption and evaluation."""

import json
import pathlib
import re
import shutil

import own_files
import support
from own_files import REWARD

FAILING = '''
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    raise RuntimeError("no more tea")
'''


class OwnData(own_files.Test):
    def test_rewards_are_those_of_the_function_and_every_row_is_used_once_per_epoch(self):
        result = self.train("run", train={"steps": 7})
        self.assert_exit(result, 0)
        self.assertIn("read as: verl", result.stdout)
        recorded = []
        for sample in support.read_jsonl(self.folder / "run" / "samples.jsonl"):
            if sample["phase"] == "eval":
                continue
            self.assertIn("<bos> ", sample["prompt"])
            bonus = int(sample["prompt"].split()[1])
            words = [word for word in sample["completion"].split() if word not in ("<eos>", "<pad>", "<bos>")]
            self.assertAlmostEqual(sample["reward"], len(words) / 10 + bonus, places=6, msg=sample)
            recorded.append(sample["prompt"])
        prompts = recorded[0::2]  # two completions per prompt
        self.assertEqual(prompts, recorded[1::2])
        self.assertEqual(len(set(prompts[:20])), 20)  # 21 prompts: an epoch of 20 rows, and one more
        self.assertNotEqual(prompts, sorted(prompts))  # shuffled

    def test_the_report_shows_the_used_settings(self):
        functions = {"functions": [f"python:{self.reward}:compute_score", "stopped"], "weights": [1, 0.5]}
        self.assert_exit(self.train("run", reward=functions), 0)
        page = (self.folder / "run" / "report.html").read_text()
        header = page[page.index("<header>"):page.index("</header>")]
        for fact in (f"model <b>{self.model}</b>", f"data <b>{self.data}</b>", "family <b>llama</b>", "hidden size <b>16</b>",
                     f"reward <b>python:{self.reward}:compute_score, stopped</b>", "method <b>dppo_tv</b>",
                     "low threshold <b>0.2</b>", "high threshold <b>0.2</b>"):
            self.assertIn(fact, header)
        self.assertNotIn("chains", header)
        self.assertIn("<h3>Reward functions</h3>", page)
        self.assertIn("gold answer <code>", page)
        for sample in support.read_jsonl(self.folder / "run" / "samples.jsonl"):
            _, a, _, b, _ = sample["prompt"].split()
            self.assertEqual(sample["answer"], str((int(a) + int(b)) % 5))
            self.assertEqual(len(sample["token_ids"]), len(sample["tokens"]))
        used = json.loads((self.folder / "run" / "used.json").read_text())
        self.assertEqual([path for path, value in used.items() if value in (None, "", [])], [])
        self.assertEqual([path for path in used if path.split(".")[0] in ("task", "sft", "critic", "lora")], [])
        # The method's thresholds; 3 prompts x 2 samples; 128 positions minus 8 new tokens.
        expected = {"objective.delta_low": 0.2, "objective.delta_high": 0.2, "objective.ratio_cap": 5, "train.sequences_per_update": 6,
                    "rollout.max_new_tokens": 8, "data.max_prompt_tokens": 120, "model.hidden_size": 16}
        self.assertEqual({path: used[path] for path in expected}, expected)
        self.assert_exit(support.keel("report", self.folder / "run"), 0)
        self.assertIn(f"data <b>{self.data}</b>", (self.folder / "run" / "report.html").read_text())

    def test_a_run_leaves_no_file_for_profilers(self):
        # On ARM, LibTorch's oneDNN would write one without this variable, which reward processes inherit.
        self.reward.write_text("""
import os
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    with open(os.environ["TOLD"], "a") as told:
        told.write(f"{os.getppid()} {os.environ.get('ONEDNN_JIT_PROFILE')} {os.environ.get('DNNL_JIT_PROFILE')}\\n")
    return 0.0
""")
        def thread_output(**environment):
            path = self.folder / "told"
            path.unlink(missing_ok=True)
            self.assert_exit(support.keel("train", self.configuration("run", train={"steps": 1}), "--overwrite",
                                          env=support.environment(TOLD=str(path), **environment)), 0)
            return {tuple(line.split()[1:]) for line in path.read_text().splitlines()}

        before = set(pathlib.Path("/tmp").glob("perf-*.map"))
        self.assertEqual(thread_output(), {("0", "None")})
        self.assertEqual(set(pathlib.Path("/tmp").glob("perf-*.map")) - before, set())
        self.assertEqual(thread_output(DNNL_JIT_PROFILE="0"), {("None", "0")})  # a user's value is kept

    def test_a_stopped_run_resumes_to_the_same_bits(self):
        self.assert_exit(self.train("whole"), 0)
        self.assert_exit(self.train("parts", train={"steps": 2}), 0)
        # The first half ends with an extra evaluation, so only weights and moments are compared.
        self.assert_exit(support.keel("train", self.configuration("parts"), "--resume"), 0)
        for name in self.final_files(self.folder / "whole"):
            self.assertEqual((self.folder / "whole" / name).read_bytes(), (self.folder / "parts" / name).read_bytes(), name)

    def test_skipped_rows_are_counted(self):
        rows = self.data.read_text().splitlines(keepends=True)
        long = json.loads(rows[0])
        long["prompt"] = "<bos> " + "1 + " * 30 + "1 ="
        self.data.write_text("".join([*rows[:3], json.dumps(long) + "\n", "{broken\n"]))
        self.assert_refused(self.train("strict", eval={"prompts": 0}), 3, "rows.jsonl", "5")
        more = {"data": {"bad_rows": "skip", "max_prompt_tokens": 40, "shuffle": False, "eval_files": []}}
        result = self.train("run", train={"steps": 4, "prompts_per_step": 2}, **more)
        self.assert_exit(result, 0)
        self.assertIn("skipped ", result.stdout + result.stderr)
        counts = [(row.get("data/too_long", 0), row.get("data/bad_rows", 0))
                  for row in support.metrics(self.folder / "run") if row["phase"] == "rl"]
        # The rows are 1 2 | 3 (long, broken) 1 | 2 3 | (long, broken) 1 2: a resumed run does not count a row again.
        self.assertEqual(counts, [(0, 0), (1, 1), (0, 0), (0, 0)])
        message = "training: 1 prompt skipped: longer than data.max_prompt_tokens, 40; 1 row skipped: bad"
        self.assertIn(message, result.stdout + result.stderr)
        self.assertIn(message, (self.folder / "run" / "log.txt").read_text())
        self.assertIn("training: 1 prompt longer than 40 tokens, 1 bad row", (self.folder / "run" / "report.html").read_text())

    def test_a_resumed_run_requires_the_same_rows(self):
        self.assert_exit(self.train("run", train={"steps": 1}), 0)
        lines = self.data.read_text().splitlines(keepends=True)
        self.data.write_text("".join(lines[:-1]))
        for flags in (["--resume"], ["--resume", "--changed-data"]):
            result = support.keel("train", self.configuration("run"), *flags)
            self.assert_refused(result, 3, "data.files", "19 rows", "had 20", "Restore", "model.path")
        self.data.write_text("".join([*lines[:9], lines[9].replace("<bos>", "<eos>"), *lines[10:]]))  # the same size as before
        self.assert_refused(support.keel("train", self.configuration("run"), "--resume"), 3, "data.files", "--changed-data")
        self.data.write_text("".join(lines))
        self.assert_exit(support.keel("train", self.configuration("run"), "--resume"), 0)

    def test_a_resumed_run_requires_the_same_evaluation_rows(self):
        held_out = self.write("held_out.jsonl", self.data.read_text())
        data = {"eval_files": [str(held_out)]}
        self.assert_exit(self.train("run", train={"steps": 1}, data=dict(data)), 0)
        for changed in (self.data.read_text().replace("<bos> 4", "<bos> 3"), self.data.read_text() * 2):
            held_out.write_text(changed)
            self.assert_refused(self.train("run", "--resume", train={"steps": 2}, data=dict(data)), 3, "data.eval_files", "evaluated on",
                                "--changed-data")
        result = self.train("run", "--resume", "--changed-data", train={"steps": 2}, data=dict(data))
        self.assert_exit(result, 0)
        self.assertIn("data.eval_files: the rows are not those of before", result.stdout)
        self.assertIn("data.eval_files: the rows are not those of before", (self.folder / "run" / "log.txt").read_text())
        self.assert_exit(self.train("run", "--resume", train={"steps": 3}, data=dict(data)), 0)  # now the run knows the rows

    def test_rows_without_a_source_or_a_column_that_others_have(self):
        rows = [json.loads(line) for line in self.data.read_text().splitlines()]
        for index, row in enumerate(rows):
            row["data_source"] = [None, "sums", "sums"][index % 3]
            row["level"] = index
            if index % 2:
                del row["level"], row["ability"]
        del rows[4]["data_source"]
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.reward.write_text("""
def f(completions, data_source, level, ability, **columns):
    assert len(set(data_source)) == 1 and len(level) == len(ability) == len(completions)
    return [0.0 if l is None else 1.0 + (a == "math") + (s is None) * 4 for l, a, s in zip(level, ability, data_source)]
""")
        functions = {"functions": [f"python:{self.reward}"]}
        result = self.evaluate(eval={"prompts": 20}, reward=functions)
        self.assert_exit(result, 0)
        self.assertEqual({name: source["prompts"] for name, source in result.numbers["sources"].items()}, {"rows": 8, "sums": 12})
        self.assertEqual([sample["reward"] for sample in result.samples],
                         [0.0 if i % 2 else 2.0 + (i % 3 == 0 or i == 4) * 4 for i in range(20)])
        self.assert_exit(self.train("run", train={"steps": 2}, reward=functions), 0)

    def test_a_run_resumes_with_fixed_rows_with_changed_data(self):
        lines = self.data.read_text().splitlines(keepends=True)
        self.data.write_text("".join([*lines[:10], "{broken\n", *lines[11:]]))
        more = {"data": {"bad_rows": "stop_late", "shuffle": False, "eval_files": []}, "eval": {"prompts": 0}}
        self.assert_refused(self.train("run", **more), 3, "rows.jsonl:11")  # in the fourth step
        self.assertEqual(support.checkpoints(self.folder / "run")[-1], "step-000003")
        self.data.write_text("".join(lines))
        self.assert_exit(self.train("run", "--changed-data", **more), 2)  # needs --resume
        self.assert_refused(self.train("run", "--resume", **more), 3, "--changed-data")
        self.assert_exit(self.train("run", "--resume", "--changed-data", **more), 0)
        self.assertIn("resumed at step 3 with data.files: the rows are not those of before",
                      (self.folder / "run" / "log.txt").read_text())
        self.assert_exit(self.train("whole", **more), 0)  # no earlier step had used the row
        self.assert_same_run(self.folder / "run", self.folder / "whole")
        more["train"] = {"steps": 5}
        self.assert_exit(self.train("run", "--resume", **more), 0)  # now these are the run's rows

    def test_the_fix_for_a_bad_row_works_on_resumption(self):
        lines = self.data.read_text().splitlines(keepends=True)
        self.data.write_text("".join([*lines[:10], "{broken\n", *lines[11:]]))
        more = {"data": {"bad_rows": "stop_late", "shuffle": False, "eval_files": []}, "eval": {"prompts": 0}}
        self.assert_refused(self.train("run", **more), 3, "rows.jsonl:11")
        more["data"]["bad_rows"] = "skip_late"
        result = self.train("run", "--resume", **more)
        self.assert_exit(result, 0)
        self.assertIn('data.bad_rows: "stop_late" then, "skip_late" now', result.stdout)
        self.assertIn('resumed at step 3 with data.bad_rows: "stop_late" then, "skip_late" now',
                      (self.folder / "run" / "log.txt").read_text())
        self.assertIn("bad_rows: skip_late", (self.folder / "run" / "config.yaml").read_text())
        self.assert_exit(self.train("whole", **more), 0)
        self.assert_same_run(self.folder / "run", self.folder / "whole")

    def test_the_fix_for_a_failing_reward_works_on_resumption(self):
        self.reward.write_text(REWARD.replace("    return", """
    if extra_info["bonus"] == 2:
        raise RuntimeError("no more tea")
    return"""))
        more = {"data": {"shuffle": False, "eval_files": []}, "eval": {"prompts": 0}}
        self.assert_exit(self.train("run", **more), 5)
        self.assertEqual(support.checkpoints(self.folder / "run")[-1], "step-000002")
        more["reward"] = {"timeout": 33, "workers": 1}
        self.assert_exit(self.train("run", "--resume", **more), 5)  # the failing sample is tried again
        more["reward"]["on_error"] = "zero"
        self.assert_exit(self.train("run", "--resume", **more), 0)
        log = (self.folder / "run" / "log.txt").read_text()
        self.assertEqual(log.count('resumed at step 2 with reward.on_error: "stop" then, "zero" now'), 1)
        self.assertIn("resumed at step 2 with reward.timeout: 60.0 then, 33.0 now", log)
        self.assertIn("on_error: zero", (self.folder / "run" / "config.yaml").read_text())
        self.assert_exit(self.train("whole", **more), 0)
        self.assert_same_run(self.folder / "run", self.folder / "whole")
        more["reward"]["weights"] = [2]  # the objective of a run must not change
        self.assert_refused(self.train("run", "--resume", **more), 2, "reward.weights")

    def test_a_failing_reward_is_reported_with_its_sample(self):
        self.reward.write_text(FAILING)
        result = self.train("run", eval={"prompts": 0})
        self.assert_exit(result, 5)
        self.assertRegex(result.stderr, r"(?m)^keel: reward .* failed on rollout 0 of prompt 0 \(sums\).*no more tea")
        result = self.train("lenient", eval={"prompts": 0}, reward={"on_error": "zero"}, train={"steps": 1})
        self.assert_exit(result, 0)
        (row,) = [row for row in support.metrics(self.folder / "lenient") if row["phase"] == "rl"]
        self.assertEqual(row["reward/mean"], 0)
        self.assertEqual(row["reward/failures"], 6)

    def test_tolerated_failures_are_reported_once_and_counted(self):
        self.reward.write_text(FAILING)
        result = self.train("run", eval={"prompts": 2}, reward={"on_error": "skip"}, train={"steps": 2})
        self.assert_exit(result, 0)
        warnings = [line for line in result.stdout.splitlines() if line.startswith("warning: ")]
        self.assertEqual(len(warnings), 5, warnings)
        self.assertRegex(warnings[0], r"failed on rollout .* of prompt 0 \(sums\).*no more tea.*on_error is skip.*log\.txt")
        # 2 prompts per evaluation, twice, and 2 steps of 3 prompts with 2 completions each
        for line in warnings[1:3]:
            self.assertIn("returned a reward for 2 of 2 completions of held-out prompts", line)
        self.assertIn("failed 16 times on 16 completions", warnings[3])
        self.assertIn("scored none of 16 completions", warnings[4])
        log = (self.folder / "run" / "log.txt").read_text()
        self.assertEqual(sum(line.startswith("step ") and "no more tea" in line for line in log.splitlines()), 16)
        result = support.keel("eval", self.configuration("run", reward={"on_error": "zero"}), "--model", self.model)
        self.assert_exit(result, 0)
        self.assertIn("no more tea", result.stderr)
        self.assertIn("failed 6 times on 6 completions", result.stderr)

    def test_rows_without_an_answer_are_found_before_anything_is_sampled(self):
        lines = self.data.read_text().splitlines(keepends=True)
        row = json.loads(lines[4])
        row["reward_model"]["ground_truth"] = None
        self.data.write_text("".join([*lines[:4], json.dumps(row) + "\n", *lines[5:]]))
        scored = {"reward": {"functions": ["math"]}}
        self.assert_refused(self.train("run", **scored), 3, f"{self.data}:5: ", 'reward "math"', "no answer", "data.bad_rows=skip")
        self.assertFalse((self.folder / "run").exists())
        self.assert_refused(support.keel("eval", self.configuration("run", **scored), "--model", self.model), 3, f"{self.data}:5: ")
        result = self.train("run", data={"bad_rows": "skip"}, **scored)
        self.assert_exit(result, 0)
        self.assertIn("1 bad row is skipped", result.stdout)
        # Without the check, the row is found when it is drawn: the second step has the rows 4 and 5.
        unchecked = {"data": {"bad_rows": "stop_late", "shuffle": False, "eval_files": []}, "train": {"steps": 3, "prompts_per_step": 3}}
        self.assert_refused(self.train("late", **scored, **unchecked), 3, f"{self.data}:5: ")
        unchecked["data"]["bad_rows"] = "skip_late"
        self.assert_exit(self.train("skipping", **scored, **unchecked), 0)
        counts = [r.get("data/bad_rows", 0) for r in support.metrics(self.folder / "skipping") if r["phase"] == "rl"]
        self.assertEqual(counts, [0, 1, 0])
        # A function that needs no answer accepts all rows.
        self.assert_exit(self.train("own"), 0)

    def test_a_function_for_a_missing_source_is_reported(self):
        result = self.train("run", reward={"functions": ["math @sums", "length:8 @products"]}, train={"steps": 1})
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r'warning: reward "length:8 @products" scores no row.*the sources are "sums"')
        result = self.train("late", reward={"functions": ["math @sums", "length:8 @products"]}, train={"steps": 1}, data={"bad_rows": "stop_late"})
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r'warning: reward "length:8 @products" scored none of \d+ completions')
        result = self.train("none", reward={"functions": ["math @products"]})
        self.assert_refused(result, 2, "math @products", '"sums"')
        self.assertFalse((self.folder / "none").exists())
        evaluated = support.keel("eval", self.configuration("run", reward={"functions": ["math", "stopped @products"]}), "--model", self.model)
        self.assertIn('warning: reward "stopped @products" scores no row', evaluated.stderr)

    def test_the_same_function_twice_has_two_entries(self):
        result = self.train("run", train={"steps": 1}, eval={"prompts": 0}, reward={"functions": ["length:8", "length:8"], "weights": [1, 2]})
        self.assert_exit(result, 0)
        (row,) = [row for row in support.metrics(self.folder / "run") if row["phase"] == "rl"]
        self.assertEqual([key for key in row if key.startswith("reward/function/")],
                         ["reward/function/length:8", "reward/function/length:8 (2)"])
        self.assertAlmostEqual(row["reward/mean"], 3 * row["reward/function/length:8"])

    def test_functions_are_weighted_and_reported_one_by_one(self):
        result = self.train("run", train={"steps": 1}, eval={"prompts": 0},
                            reward={"functions": [f"python:{self.reward}:compute_score", "length:8"],
                                    "weights": [1, 0.5]})
        self.assert_exit(result, 0)
        (row,) = [row for row in support.metrics(self.folder / "run") if row["phase"] == "rl"]
        self.assertEqual(len([key for key in row if key.startswith("reward/function/")]), 2, row)

    def test_evaluation_of_the_files_by_the_same_functions(self):
        result = support.keel("eval", self.configuration("run", eval={"prompts": 20, "samples": 4, "temperature": 1}),
                              "--model", self.model, "--json", "--samples", self.folder / "samples.jsonl")
        self.assert_exit(result, 0)
        sums = json.loads(result.stdout)["sources"]["sums"]
        samples = support.read_jsonl(self.folder / "samples.jsonl")
        self.assertEqual((sums["prompts"], sums["samples"], len(samples)), (20, 4, 80))
        mean = sum(sample["reward"] for sample in samples) / 80
        self.assertAlmostEqual(sums["avg@4"]["mean"], mean, places=9)

    def test_training_files_are_refused_if_there_are_evaluation_files(self):
        refused = support.keel("eval", self.configuration("run"), "--model", self.model, f'data.files=["{self.data}"]')
        self.assert_refused(refused, 2, "data.files", "set data.eval_files")

    def test_evaluation_needs_no_training_files(self):
        config = self.configuration("run", eval={"prompts": 20, "temperature": 0}, data={"files": []})
        result = support.keel("eval", config, "--model", self.model, "--json")
        self.assert_exit(result, 0)
        self.assertEqual(json.loads(result.stdout)["sources"]["sums"]["prompts"], 20)
        self.assert_refused(support.keel("train", config), 2, "data.eval_files", "data.files")

    def test_completions_without_reward_are_skipped_and_counted(self):
        self.reward.write_text("""
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return None if extra_info["bonus"] % 2 else 1.0 * (extra_info["bonus"] == 4)
""")
        result = self.evaluate(eval={"prompts": 20, "samples": 2})
        self.assert_exit(result, 0)
        sums = result.numbers["all"]
        # 8 of 5 x 4 prompts have an odd first number and no reward; 4 of the other 12 are correct.
        self.assertEqual((sums["prompts"], sums["unjudged"]), (20, 16))
        for name in ("avg@2", "pass@1", "pass@2", "maj@2"):
            self.assertAlmostEqual(sums[name]["mean"], 4 / 12 if name != "maj@2" else sums[name]["mean"])
            self.assertEqual(sums[name]["prompts"], 12)
        for sample in result.samples:
            bonus = int(sample["prompt"].split()[1])
            self.assertEqual(sample["reward"], None if bonus % 2 else float(bonus == 4), sample)
            self.assertEqual(sample["solved"], None if bonus % 2 else bonus == 4, sample)
        table = support.keel("eval", self.configuration("run", eval={"prompts": 20, "samples": 2}), "--model", self.model)
        self.assertIn("16 of 40 completions skipped: no reward function scored them", table.stdout)
        self.assert_exit(self.train("trained", train={"steps": 1}, eval={"prompts": 20}), 0)
        (row, *_) = [row for row in support.metrics(self.folder / "trained") if row["phase"] == "eval"]
        self.assertAlmostEqual(row["eval/reward"], 4 / 12)
        self.assertEqual(row["eval/unjudged"], 8)

    def test_an_evaluation_without_rewards_has_no_metrics(self):
        self.reward.write_text("def f(completions, **columns):\n    return [None] * len(completions)\n")
        functions = {"functions": [f"python:{self.reward}"]}
        result = self.evaluate(eval={"prompts": 20}, reward=functions)
        self.assert_exit(result, 2)
        self.assertIn("keel: no reward function scored any of the 20 completions", result.stderr)
        self.assertIsNone(result.samples)
        result = self.train("run", train={"steps": 1}, eval={"prompts": 20}, reward=functions)
        self.assert_exit(result, 0)
        self.assertIn("no reward function returned a reward for 20 of 20 completions", result.stdout + result.stderr)
        for row in support.metrics(self.folder / "run"):
            self.assertFalse({"eval/accuracy", "eval/reward"} & set(row))

    def test_only_a_fraction_of_correct_answers_is_called_accuracy(self):
        judges = (["math"], ["numeric"], ["exact @sums", "choice @elsewhere"])
        others = (["stopped"], [f"python:{self.reward}"], ["math", "stopped"], ["math", "exact"], ["length:8"])
        for number, functions in enumerate([*judges, *others]):
            name, other = ("accuracy", "reward") if functions in judges else ("reward", "accuracy")
            reward = {"functions": functions}
            result = self.evaluate(reward=reward)
            self.assert_exit(result, 0)
            self.assertEqual(result.numbers["avg_is"], name, functions)
            table = support.keel("eval", self.configuration("run", reward=reward), "--model", self.model).stdout
            self.assertIn("avg@1 is the accuracy" if name == "accuracy" else "avg@1 is the mean reward", table)
            scored = functions in judges or "math" in functions
            self.assertEqual("solved, for pass@k and maj@k: a reward of at least 0.5" in table, not scored, table)
            self.assertEqual(result.numbers["solved_is"] == "right answer", scored)
            run = f"run{number}"
            result = self.train(run, train={"steps": 1}, reward=reward)
            self.assert_exit(result, 0)
            self.assertIn(f"held-out {name} ", result.stdout)
            self.assertNotIn(f"held-out {other} ", result.stdout)
            self.assertIn({"accuracy": "Accuracy\n", "reward": "Held-out reward\n"}[name], result.stdout)
            self.assertEqual(bool(re.search(r"\b(correct|wrong)$", result.stdout, re.M)), name == "accuracy", result.stdout)
            for row in support.metrics(self.folder / run):
                self.assertEqual(f"eval/{name}" in row, row["phase"] == "eval")
                self.assertNotIn(f"eval/{other}", row)
            page = (self.folder / run / "report.html").read_text()
            self.assertIn(f"evaluation {name}, 95 % interval", page)
        self.assert_exit(self.train("weighted", train={"steps": 1}, reward={"functions": ["math"], "weights": [0.5]}), 0)
        self.assertIn("eval/reward", support.metrics(self.folder / "weighted")[0])

    def test_a_format_does_not_make_a_wrong_answer_right(self):
        self.reward.write_text("def f(completions, **columns):\n    return [1.0] * len(completions)\n")
        result = self.evaluate(eval={"prompts": 20, "samples": 2},
                               reward={"functions": [f"python:{self.reward}", "numeric"], "weights": [0.6, 0.2]})
        self.assert_exit(result, 0)
        right = 0
        for sample in result.samples:
            solved = sample["answer"] != "" and float(sample["answer"]) == int(sample["gold"])
            right += solved
            self.assertEqual(sample["solved"], solved, sample)
            self.assertAlmostEqual(sample["reward"], 0.6 + 0.2 * solved)
        self.assertLess(right, 40)  # although every sum is at least 0.6
        self.assertAlmostEqual(result.numbers["all"]["pass@1"]["mean"], right / 40)

    def test_too_long_prompts_are_reported(self):
        rows = self.data.read_text().splitlines(keepends=True)
        long = json.loads(rows[0])
        long["prompt"] = "<bos> " + "1 + " * 30 + "1 ="
        self.data.write_text("".join([rows[0], json.dumps(long) + "\n", rows[1], json.dumps(long) + "\n", *rows[2:4]]))
        limit = {"max_prompt_tokens": 40}
        result = self.evaluate(data=dict(limit))
        self.assert_exit(result, 0)
        self.assertEqual(result.numbers["left_out"], {"too_long": 2, "bad_rows": 0, "max_prompt_tokens": 40, "rows_behind_eval_prompts": 0,
                                                       "files_without": []})
        self.assertEqual(result.numbers["all"]["prompts"], 4)
        self.assertRegex(result.stderr, r"2 prompts skipped: longer than data.max_prompt_tokens, 40;.*rows.jsonl")
        headline = support.keel("eval", self.configuration("run", data={"files": [], **limit}), "--model", self.model).stdout
        self.assertIn("on data.eval_files: 4 of 6 rows (2 too long)\n", headline)
        result = self.train("run", train={"steps": 1}, data=dict(limit))
        self.assert_exit(result, 0)
        self.assertEqual((result.stdout + result.stderr).count("evaluation: 2 prompts skipped"), 1)
        self.assertIn("evaluation: 2 prompts longer than 40 tokens", (self.folder / "run" / "report.html").read_text())
        counts = [row.get("eval/too_long") for row in support.metrics(self.folder / "run") if row["phase"] == "eval"]
        self.assertEqual(counts, [2, 2])
        only_long = self.write("long.jsonl", json.dumps(long) + "\n")
        data = {"eval_files": [str(only_long)], **limit}
        result = self.evaluate(data=dict(data))
        self.assert_exit(result, 3)
        self.assertIn("keel: there is no prompt to evaluate on: 1 prompt skipped", result.stderr)
        self.assert_refused(self.train("refused", data=dict(data)), 3, "no prompt to evaluate on", "1 prompt skipped")
        self.assertFalse((self.folder / "refused").exists())

    def test_a_source_called_all_is_not_all(self):
        rows = [json.loads(line) for line in self.data.read_text().splitlines()]
        for index, row in enumerate(rows):
            row["data_source"] = "all" if index < 5 else "rest"
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = self.evaluate(eval={"prompts": 20})
        self.assert_exit(result, 0)
        means = {}
        for name in ("all", "rest"):
            rewards = [sample["reward"] for sample in result.samples if sample["source"] == name]
            means[name] = sum(rewards) / len(rewards)
            self.assertAlmostEqual(result.numbers["sources"][name]["avg@1"]["mean"], means[name])
        self.assertEqual(result.numbers["all"]["prompts"], 20)
        self.assertAlmostEqual(result.numbers["all"]["avg@1"]["mean"], (5 * means["all"] + 15 * means["rest"]) / 20)

    def test_random_weights_are_what_training_starts_from(self):
        bare = self.folder / "bare"
        shutil.copytree(self.model, bare, ignore=shutil.ignore_patterns("*.safetensors"))
        untrained = {"path": str(bare), "random_weights": True}
        result = self.evaluate(model=untrained, eval={"prompts": 20})
        self.assert_exit(result, 0)
        self.assert_exit(self.train("fresh", train={"steps": 0}, model=untrained, eval={"prompts": 20}), 0)
        (row, *_) = [row for row in support.metrics(self.folder / "fresh") if row["phase"] == "eval"]
        self.assertEqual(result.numbers["all"]["avg@1"]["mean"], row["eval/reward"])
        trained = self.evaluate(eval={"prompts": 20})
        self.assertNotEqual([s["completion"] for s in trained.samples], [s["completion"] for s in result.samples])
        named = self.evaluate("--model", self.model, model=untrained, eval={"prompts": 20})
        self.assertEqual(named.samples, trained.samples)
        self.assertIn("model.random_weights is ignored", named.stderr)

    def test_evaluation_files_are_read_once(self):
        result = self.evaluate()
        self.assert_exit(result, 0)
        self.assertEqual(result.stderr.count("read as"), 1, result.stderr)

    def test_the_short_form_of_the_model_leaves_room_for_its_section(self):
        values = json.loads(self.configuration("run").read_text())
        values["model"] = str(self.model)
        config = self.write("short.json", json.dumps(values))
        result = support.keel("train", config, "model.random_weights=true", "--explain")
        self.assert_exit(result, 0)
        self.assert_exit(support.keel("train", self.configuration("run"), f"model={self.model}",
                                      "model.random_weights=true", "--explain"), 0)

    def test_rows_overwritten_during_a_run_stop_it(self):
        reward = f"""
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    with open({str(self.data)!r}, "r+") as rows:  # the same size, and other sums
        text = rows.read()
        rows.seek(0)
        rows.write(text.replace("<bos> 1", "<bos> 3"))
    return 0
"""
        self.reward = self.write("meddling.py", reward)
        result = self.train("run", eval={"prompts": 0}, train={"steps": 8})
        self.assert_refused(result, 3, str(self.data), "have changed since it was first read", "restore the old content")
        self.reward = self.write("touching.py", reward.replace('"<bos> 3"', '"<bos> 1"'))
        self.data.write_text(self.data.read_text().replace("<bos> 3", "<bos> 1"))
        self.assert_exit(self.train("touched", eval={"prompts": 0}, train={"steps": 8}), 0)

    def test_contradicting_settings_are_refused(self):
        self.assert_refused(self.train("a", sft={"steps": 3}), 2, "sft.steps", "data.files")
        self.assert_refused(self.train("b", rollout={"max_new_tokens": 0}), 2, "rollout.max_new_tokens")
        self.assert_refused(self.train("c", model={"path": ""}), 2, "model.path")
        self.assert_refused(self.train("d", data={"files": [str(self.folder / "absent.jsonl")]}), 3, "absent.jsonl")
        self.assert_refused(self.train("e", reward={"functions": ["nonsense"]}), 2, "nonsense")
        self.assert_refused(self.train("f", task={"name": "countdown"}), 2, "task.name", "data.files")
        self.data.write_text(json.dumps({"prompt": "<bos> " + "1 + " * 99 + "1 =", "answer": "0"}) + "\n")
        self.assert_refused(self.train("g", data={"max_prompt_tokens": 9, "eval_files": []}), 3, "too long")
        for run in "abcdefg":
            self.assertFalse((self.folder / run).exists(), run)


if __name__ == "__main__":
    support.main()
