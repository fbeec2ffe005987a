"""keel sft: custom rows, output and files of a run, resumption, and errors."""

import json
import math
import re
import shlex
import shutil
import signal

import own_rows
import support
from byte_model import TEMPLATE
from own_rows import TALKS


class Sft(own_rows.Test):
    def test_prints_its_settings_and_lowers_the_loss(self):
        result = self.sft(f"data.files=[{self.rows}]", f"data.eval_files=[{self.rows}]", "sft.data_epochs=12", "sft.batch=4", "sft.lr=0.02",
                          "sft.eval_every=5")
        self.assert_exit(result, 0)
        self.assertIn("read as: a conversation, from messages", result.stdout)
        self.assertIn("21 supervised updates of 4 rows (sft.data_epochs 12 over 7 rows)", result.stdout)
        self.assertIn("learning rate 0.02", result.stdout)
        self.assertNotIn("reward", result.stdout)
        rows = support.metrics(self.folder / "run")
        losses = [row["sft/eval_loss"] for row in rows if row["phase"] == "eval"]
        self.assertEqual([row["step"] for row in rows if row["phase"] == "eval"], [0, 5, 10, 15, 20, 21])
        self.assertLess(losses[-1], 0.7 * losses[0])
        self.assertEqual({row["sft/eval_tokens"] for row in rows if row["phase"] == "eval"}, {2 * 7})  # a digit and the stop token
        updates = [row for row in rows if row["phase"] == "sft"]
        self.assertEqual([row["sft/tokens"] for row in updates], 21 * [2 * 4])  # 84 rows: no update is smaller than the batch
        self.assertEqual(updates[-1]["sft/epoch"], 12)
        self.assertIn("Loss on held-out rows", result.stdout)
        output = self.sft(f"data.files=[{self.rows}]", f"data.eval_files=[{self.rows}]", "-q", run="quiet").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in output if "loss on held-out rows" in line], ["before", "after"])
        report = (self.folder / "run" / "report.html").read_text()
        self.assertIn("Supervised loss", report)
        self.assertIn("Loss on held-out rows", report)
        self.assertTrue((self.folder / "run" / "checkpoints" / "step-000021" / "model.safetensors").exists())

    def test_the_default_learning_rate_depends_on_full_or_lora_training(self):
        for settings, rate in (([], 2e-5), (["lora.rank=2"], 2e-4)):
            result = self.sft(f"data.files=[{self.rows}]", *settings, "--overwrite")
            self.assert_exit(result, 0)
            self.assertIn(f"learning rate {rate:g}, no warm-up (sft.lr is not set)", result.stdout)
            self.assertEqual([row["optimizer/lr"] for row in support.metrics(self.folder / "run")], [rate])

    def test_resumes_to_the_same_bits_from_every_step(self):
        """Updates of 3 rows out of 7, one of which is too long: epochs end within updates, and the last update has the remaining rows."""
        long = [{"role": "user", "content": 300 * "x"}, {"role": "assistant", "content": "y"}]
        rows = self.write("some.jsonl", [{"messages": talk} for talk in [*TALKS[:3], long, *TALKS[3:]]])
        settings = [f"sft.files=[{rows}]", "sft.held_out=0.2", "sft.data_epochs=2.5", "sft.batch=3", "sft.max_tokens=200", "sft.schedule=cosine",
                    "sft.warmup_updates=0.2", "sft.eval_every=2", "lora.rank=2", "lora.dropout=0.2", "checkpoint.every=1", "checkpoint.keep=100"]
        first = self.sft(*settings, run="whole")
        self.assert_exit(first, 0)
        self.assertIn("longer than sft.max_tokens, 200", first.stdout + first.stderr)
        steps = support.checkpoints(self.folder / "whole")
        self.assertGreater(len(steps), 3)
        for last in steps[:-1]:
            again = shutil.copytree(self.folder / "whole", self.folder / "again")
            for step in steps[steps.index(last) + 1:]:
                shutil.rmtree(again / "checkpoints" / step)
            config = again / "config.yaml"  # the message is sufficient for either command
            self.assert_exit(support.keel("train" if last == steps[0] else "sft", config, f"run.dir={again}", "--resume"), 0)
            self.assertIsNone(support.difference(again, self.folder / "whole"))
            shutil.rmtree(again)

    def test_is_interrupted_and_continues_with_the_printed_command(self):
        run = self.folder / "run"
        process = support.start(self.folder / "output", "sft", f"model={self.model}", "model.random_weights=true", f"data.files=[{self.rows}]",
                                f"run.dir={run}", "run.threads=1", "sft.steps=400", "sft.batch=2")
        self.assertTrue(support.wait_for(process, lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size > 3000))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 75)
        command = re.search(r"continue with: keel (.*)", process.output.read_text())[1]
        self.assert_exit(support.keel(*shlex.split(command)), 0)
        whole = self.sft(f"data.files=[{self.rows}]", "sft.steps=400", "sft.batch=2", run="whole")
        self.assert_exit(whole, 0)
        self.assertIsNone(support.difference(run, self.folder / "whole"))

    def test_continues_for_more_epochs_and_not_with_other_rows(self):
        settings = [f"data.files=[{self.rows}]", "sft.batch=4"]
        self.assert_exit(self.sft(*settings), 0)
        self.assert_exit(self.sft(*settings, "sft.data_epochs=3", "--resume"), 0)
        rows = support.metrics(self.folder / "run")
        self.assertEqual([row["sft/tokens"] for row in rows], [2 * n for n in (4, 3, 4, 4, 4, 2)])
        self.assertIn("has no RL phase", self.sft(f"sft.files=[{self.rows}]", "sft.data_epochs=3", "sft.batch=4", "train.steps=1", "task.name=countdown",
                                                      "--resume", command="train").stderr)
        self.rows.write_text(self.rows.read_text().replace("what", "When"))
        self.assertIn("sft.files: the rows are not those", self.refused(3, *settings, "sft.data_epochs=4", "--resume"))
        self.assert_exit(self.sft(*settings, "sft.data_epochs=4", "--resume", "--changed-data"), 0)

    def test_more_epochs_continue_the_longer_schedule_after_a_short_update(self):
        rows = self.write("five.jsonl", [{"messages": talk} for talk in TALKS[:5]])
        settings = [f"data.files=[{rows}]", "sft.batch=4", "sft.lr=1e-3", "sft.schedule=cosine"]
        self.assert_exit(self.sft(*settings), 0)
        result = self.sft(*settings, "sft.data_epochs=2", "--resume")
        self.assert_exit(result, 0)
        self.assertIn("sft.steps: 2 then, 4 now", result.stdout)
        rates = [row["optimizer/lr"] for row in support.metrics(self.folder / "run")]
        for found, share in zip(rates, (0, 1 / 2, 2 / 4, 3 / 4), strict=True):  # the first two of 2 updates, the others of 4
            self.assertAlmostEqual(found, 1e-3 * (1 + math.cos(math.pi * share)) / 2, places=9)
        self.assertIn("SFT 4/4", (self.folder / "run" / "log.txt").read_text())

    def test_the_suggested_command_trains_on_a_fixed_row(self):
        bad = [{"messages": talk} for talk in TALKS[:4]] + [{"messages": TALKS[4][:1]}]
        rows = self.write("fixed.jsonl", bad)
        self.assert_exit(self.sft(f"data.files=[{rows}]", "sft.batch=4", "data.bad_rows=skip"), 0)
        self.write("fixed.jsonl", [{"messages": talk} for talk in TALKS[:5]])
        result = support.keel("sft", self.folder / "run" / "config.yaml", "--resume", "--changed-data")
        self.assert_exit(result, 0)
        self.assertEqual([row["sft/tokens"] for row in support.metrics(self.folder / "run")], [2 * 4, 2 * 1])

    def test_a_bad_row_during_training_loses_no_step(self):
        rows = self.write("late.jsonl", [{"messages": talk} for talk in TALKS[:3]] + [{"messages": TALKS[3][:1]}])
        message = self.refused(3, f"data.files=[{rows}]", "data.bad_rows=stop_late", "data.shuffle=false", "sft.batch=1", "sft.steps=20")
        self.assertIn("saved up to step 3", message)
        self.assertEqual(support.checkpoints(self.folder / "run"), ["step-000003"])

    def test_rows_of_one_question_are_held_out_together(self):
        talks = [[{"role": "user", "content": f"question {a}"}, {"role": "assistant", "content": str(b)}] for a in range(4) for b in range(8)]
        rows = self.write("replies.jsonl", [{"messages": talk} for talk in talks])
        self.assert_exit(self.sft(f"data.files=[{rows}]", "data.held_out=0.5"), 0)
        kept = next(row["sft/eval_rows"] for row in support.metrics(self.folder / "run") if row["phase"] == "eval")
        self.assertIn(kept, (8, 16, 24))
        self.assertIn("sft.held_out keeps none of the 7 rows", self.refused(3, f"data.files=[{self.rows}]", "data.held_out=0.001", "--overwrite"))

    def test_names_the_rows_of_a_skipped_update(self):
        result = self.sft(f"data.files=[{self.rows}]", "sft.steps=9", "sft.batch=2", "sft.lr=1e30")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertRegex((self.folder / "run" / "log.txt").read_text(), r"skipped an update .*, on rows \d+ to \d+ in the order of sft.files")

    def test_rl_follows_in_the_same_configuration(self):
        prompts = self.write("prompts.jsonl", [{"prompt": talk[:1], "answer": talk[1]["content"]} for talk in TALKS])
        config = self.folder / "both.json"
        config.write_text(json.dumps({
            "sft": {"files": [str(self.rows)], "steps": 3}, "data": {"files": [str(prompts)], "held_out": 0.5}, "optimizer": {"lr": 1e-4},
            "rollout": {"max_new_tokens": 4, "samples_per_prompt": 2}, "train": {"steps": 2, "prompts_per_step": 2}, "reward": {"functions": ["length:3"]}}))
        model = [f"model={self.model}", "model.random_weights=true", "run.threads=1"]
        result = support.keel("train", config, *model, f"run.dir={self.folder / 'run'}")
        self.assert_exit(result, 0)
        phases = [row["phase"] for row in support.metrics(self.folder / "run")]
        self.assertEqual(phases, [*3 * ["sft"], "eval", *2 * ["rl"], "eval"])
        self.assertIn("3 supervised updates of 32 rows", result.stdout)
        result = support.keel("train", config, *model, "--explain")
        self.assertIn("3 supervised updates of 32 rows", result.stdout)
        for command in (["sft"], ["train", "train.steps=0"]):  # neither command may use RL's moments
            result = support.keel(command[0], self.folder / "run" / "config.yaml", *command[1:], "--resume")
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn("has an RL phase", result.stderr)
        alone = support.keel("sft", config, *model, f"run.dir={self.folder / 'alone'}")  # the first phase without the second
        self.assert_exit(alone, 0)
        self.assertEqual([row["phase"] for row in support.metrics(self.folder / "alone")], 3 * ["sft"])
        for word in ("self-test", "reward   ", "evaluation"):
            self.assertNotIn(word, alone.stdout)
        self.assertIn("train.steps does nothing: `keel sft` runs the supervised phase only", alone.stdout)
        self.assertIn("data.files, data.held_out do nothing: the run has no RL phase", alone.stdout)
        self.assertNotIn("data.files", json.loads((self.folder / "alone" / "used.json").read_text()))

    def test_evaluates_on_a_task(self):
        self.assert_exit(self.sft(f"data.files=[{self.rows}]"), 0)
        result = support.keel("eval", self.folder / "run" / "config.yaml", "task.name=countdown", "eval.prompts=2", "rollout.max_new_tokens=4")
        self.assert_exit(result, 0)

    def test_explain_names_settings_without_effect(self):
        result = self.sft(f"data.files=[{self.rows}]", "sft.noisy_steps=2", "rollout.temperature=0.7", "--explain")
        self.assert_exit(result, 0)
        self.assertIn("1 supervised update of 7 rows (sft.data_epochs 1 over 7 rows)", result.stdout)
        self.assertIn("sft.noisy_steps does nothing", result.stdout)
        for settings, rows in ((["sft.data_epochs=2"], "2 supervised updates of at most 8 rows, 14 in all"), (["sft.steps=2"], "2 supervised updates of 8 rows\n")):
            self.assertIn(rows, self.sft(f"data.files=[{self.rows}]", "sft.batch=8", *settings, "--explain").stdout)
        self.assertIn("rollout.temperature does nothing: the run has no RL phase", result.stdout)
        memory = [re.search("memory .*?;", self.sft(f"data.files=[{self.rows}]", f"sft.batch={batch}", "train.tokens_per_batch=1000000", "--explain").stdout)[0]
                  for batch in (2, 7, 1000)]
        self.assertEqual(memory[1], memory[2])  # of the available rows
        self.assertNotEqual(memory[0], memory[1])

    def test_refuses_settings_that_contradict(self):
        files = f"data.files=[{self.rows}]"
        for settings, sentence in [
                ((), "needs training rows"),
                ((files, "train.steps=5"), "`keel sft` does not run"),
                ((files, "optimizer.lr=1e-4"), "set sft.lr"),
                ((files, "sft.steps=0"), "the run would do nothing"),
                ((files, "sft.epochs=2"), "sft.data_epochs"),
                ((files, "data.answer_key=x"), "data.answer_key applies to RL prompts"),
                ((files, "checkpoint.best_metric=auto"), "checkpoint.best_metric is auto"),
                ((files, "data.held_out=0.2", f"data.eval_files=[{self.rows}]"), "remove one of the two"),
                ((files, "sft.loss_on=prompt"), "assistant")]:
            self.assertIn(sentence, self.refused(2, *settings))
        nothing = support.keel("sft", files, f"run.dir={self.folder / 'run'}")
        self.assertEqual(nothing.returncode, 2)
        self.assertIn("sft.files is set, but model.path is not", nothing.stderr)

    def test_refuses_rl_settings_of_a_file(self):
        config = self.folder / "file.json"
        config.write_text(json.dumps({"data": {"files": [str(self.rows)]}, "train": {"data_epochs": 3}}))
        model = [f"model={self.model}", "model.random_weights=true", f"run.dir={self.folder / 'run'}"]
        result = support.keel("sft", config, *model)
        self.assertEqual(result.returncode, 2)
        self.assertIn("train.data_epochs is the length of the RL phase", result.stderr)
        config.write_text(json.dumps({"sft": {"files": [str(self.rows)]}}))
        result = support.keel("sft", config, *model, f"data.files=[{self.write('new.jsonl', [{'messages': TALKS[0]}])}]", "--explain")
        self.assertEqual(result.returncode, 2)
        self.assertIn("set sft.files", result.stderr)

    def test_a_completion_that_looks_like_messages_is_learned_as_text_if_set(self):
        rows = self.write("json.jsonl", [{"prompt": "a", "completion": json.dumps({"role": "user", "content": "b"})}])
        self.assertIn("a conversation written as a text", self.refused(3, f"data.files=[{rows}]"))
        self.assert_exit(self.sft(f"data.files=[{rows}]", "sft.prompt_key=prompt", "sft.completion_key=completion"), 0)

    def test_a_turn_of_weight_0_is_context_and_not_learned(self):
        talk = [*TALKS[0], *TALKS[1]]
        for mark in ({"weight": 0}, {"loss": False}):
            rows = self.write("weights.jsonl", [{"messages": [talk[0] | mark, talk[1] | mark, *talk[2:]]}])
            self.assert_exit(self.sft(f"data.files=[{rows}]", "--overwrite"), 0)
            self.assertEqual(support.metrics(self.folder / "run")[0]["sft/tokens"], 2)
        # Prompt tokens have no loss anyway.
        rows = self.write("weights.jsonl", [{"prompt": [talk[0], talk[1] | {"loss": False}, talk[2]], "completion": talk[3:]}])
        self.assert_exit(self.sft(f"data.files=[{rows}]", "sft.loss_on=completion", "--overwrite"), 0)
        rows = self.write("weights.jsonl", [{"messages": [talk[0], talk[1] | {"weight": 0.5}, *talk[2:]]}])
        self.assertIn("has the weight 0.5", self.refused(3, f"data.files=[{rows}]", "--overwrite"))

    def test_refuses_rows_without_loss_tokens(self):
        user, reply = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}
        for row, sentence in [
                ({"messages": [user, {"role": "gpt", "content": "ho"}]}, 'no assistant message with a loss; its roles: "gpt", "user"'),
                ({"messages": [reply, user]}, "begins with an assistant message"),
                ({"messages": [user, {"role": "assistant", "content": " "}]}, "message 2, the assistant's, is empty"),
                ({"messages": [user, {"role": "assistant"}]}, "message 2 of the conversation (\"messages\") has no content"),
                ({"messages": []}, "is an empty conversation"),
                ({"prompt": "a", "completion": ""}, "the completion (\"completion\") is empty"),
                ({"prompt": "a", "completion": 3}, "neither a text nor a list of messages"),
                ({"prompt": "a", "completion": None}, 'column "completion" is null'),
                ({"messages": [user, {**reply, "function_call": {"name": "f"}}]}, "does not render it. Fix: write tool_calls"),
                ({"prompt": [user], "completion": [user]}, "no assistant message")]:
            bad = self.write("bad.jsonl", [row])
            message = self.refused(3, f"data.files=[{bad}]")
            self.assertIn("bad.jsonl:1: ", message)
            self.assertIn(sentence, message)
        empty = self.write("bad.jsonl", [{"messages": [user, {"role": "assistant", "content": " "}]}])
        self.assertIn("message 2, the assistant's, is empty", self.refused(3, f"data.files=[{empty}]", "data.system_prompt=be brief"))
        self.assertIn("sft.prompt_key to a column of texts", self.refused(2, f"data.files=[{self.rows}]", "data.chat=never"))
        mixed = self.write("mixed.jsonl", [{"messages": talk} for talk in TALKS[:3]] + 2 * [{"messages": [user]}])
        for seed in range(3):  # for any position of the bad rows in the epoch
            result = self.sft(f"data.files=[{mixed}]", "data.bad_rows=skip", f"run.seed={seed}", "--overwrite")
            self.assert_exit(result, 0)
            self.assertEqual(result.stdout.count("2 rows skipped: bad"), 2)  # at the start and at the end
        self.assertIn("7 are too long", self.refused(3, f"data.files=[{self.rows}]", "sft.max_tokens=5", "--overwrite"))

    def test_learns_from_texts(self):
        rows = self.write("texts.jsonl", [{"prompt": "ab", "completion": "cde"}])
        result = self.sft(f"data.files=[{rows}]", "sft.loss_on=all", "sft.max_tokens=5000")
        self.assert_exit(result, 0)
        self.assertIn("the model's chat template is not used", result.stdout)
        self.assertIn("rows of at most 1024 tokens", result.stdout)  # the model has positions for all of them
        self.assertEqual(support.metrics(self.folder / "run")[0]["sft/tokens"], 5)  # five bytes without the first, and the stop token
        long = self.write("long.jsonl", [{"prompt": 2000 * "a", "completion": "b"}])
        self.assertIn("all rows to measure the loss on were skipped", self.refused(3, f"data.files=[{rows}]", f"data.eval_files=[{long}]", "--overwrite"))
        mixed = self.write("mixed.jsonl", [{"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]}])
        self.assertIn("prompt from prompt (a text, as the user's message)", self.sft(f"data.files=[{mixed}]", "--explain").stdout)

    def test_a_model_without_a_stop_token_is_refused(self):
        config = self.model / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "eos_token_id": None}))
        (self.model / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
        self.assertIn("the model has no stop token", self.refused(2, f"data.files=[{self.rows}]"))

    def test_a_turn_without_an_end_is_refused(self):
        config = self.model / "tokenizer_config.json"
        config.write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": TEMPLATE.replace("<|im_end|>", "")}))
        self.assertIn("does not end with a stop token", self.refused(3, f"data.files=[{self.rows}]"))
        config.write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": TEMPLATE.replace("assistant\n{% endif", "assistant:\n{% endif")}))
        self.assertIn("chat template begins the assistant message differently", self.refused(3, f"data.files=[{self.rows}]"))


if __name__ == "__main__":
    support.main()
