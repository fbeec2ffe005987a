"""data.chat_template_kwargs: printed at a run's start, by --explain and in log.txt, and rejected where it would have no effect."""

import json
import re

import byte_model
import support
from support import keel

# Like Qwen's template: an empty thinking block, only in the generation prompt; and a date.
THINKING = byte_model.TEMPLATE.replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n"
                                       "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{% endif %}")
DATED = "{{ strftime_now('%Y') }} " + byte_model.TEMPLATE


class TemplateVariables(support.Test):
    def setUp(self):
        super().setUp()
        self.model = byte_model.write_model(self.folder / "model")
        self.template(THINKING)
        self.rows = self.write_rows("rows.jsonl", [{"prompt": [{"role": "user", "content": "hi"}], "answer": "1"}] * 2)

    def template(self, source):
        config = {"eos_token": "<|im_end|>"} | ({"chat_template": source} if source else {})
        (self.model / "tokenizer_config.json").write_text(json.dumps(config))

    def write_rows(self, name, rows):
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def train(self, *settings, files=True):
        return keel("train", f"model={self.model}", "model.random_weights=true", *([f"data.files=[{self.rows}]"] if files else []),
                    *(["reward.functions=[length:3]"] if files else []), "rollout.max_new_tokens=4", "rollout.samples_per_prompt=2", "train.steps=1",
                    "train.prompts_per_step=1", "eval.prompts=0", f"run.dir={self.folder / 'run'}", "run.threads=1", *settings)

    def explained(self, *settings, files=True):
        result = self.train("--explain", *settings, files=files)
        self.assert_exit(result, 0)
        return " ".join(result.stdout.split())

    def test_a_run_prints_the_template_variables(self):
        message = "chat template variables: enable_thinking=false"
        word = "data.chat_template_kwargs=[enable_thinking=False]"
        self.assertIn(message, self.explained(word))
        result = self.train(word)
        self.assert_exit(result, 0)
        for where in (result.stdout + result.stderr, (self.folder / "run" / "log.txt").read_text()):
            self.assertIn(message, " ".join(where.split()))
        self.assertNotIn("chat template variables", self.explained())

    def test_an_evaluation_with_other_template_variables_warns(self):
        word = "data.chat_template_kwargs=[enable_thinking=false]"
        self.assert_exit(self.train(word), 0)
        config = self.folder / "own.yaml"
        config.write_text(f"data: {{files: [{self.rows}]}}\nreward: {{functions: ['length:3']}}\nrollout: {{max_new_tokens: 4}}\n")
        message = "gives the prompts of training"
        for settings, is_printed in (((), True), ((word,), False)):
            result = keel("eval", config, "--model", self.folder / "run", *settings)
            self.assert_exit(result, 0)
            self.assertEqual(message in " ".join(result.stderr.split()), is_printed, result.stderr)

    def test_the_date_is_printed_if_the_template_uses_it(self):
        self.assertNotIn("today is", self.explained())
        self.template(DATED)
        self.assertIn("chat template variables: today is 2024-07-26", self.explained())

    def test_a_string_that_looks_like_a_value_is_printed_as_a_string(self):
        """transformers treats it as true, like every non-empty string: `is false` does not hold."""
        message = self.explained(r'data.chat_template_kwargs=["enable_thinking=\"false\""]')
        self.assertIn('chat template variables: enable_thinking="false" (a string, which counts as true; remove the quotes for the value)', message)
        self.assertNotIn("(a string", self.explained("data.chat_template_kwargs=[enable_thinking=false]"))

    def test_variables_without_effect_on_first_prompts_are_refused(self):
        """Later rows may be conversations, so this is not an error for all rows."""
        self.rows = self.write_rows("texts.jsonl", [{"prompt": "hi", "answer": "1"}, {"prompt": [{"role": "user", "content": "hi"}], "answer": "1"}])
        self.assertIn("data.chat_template_kwargs has no effect: no file's first row goes through the chat template",
                      self.explained("data.chat_template_kwargs=[enable_thinking=false]"))
        self.assertIn("chat template variables: enable_thinking=false", self.explained("data.chat_template_kwargs=[enable_thinking=false]", "data.chat=always"))

    def test_a_model_without_a_template_is_refused(self):
        self.template("")
        self.rows = self.write_rows("texts.jsonl", [{"prompt": "hi", "answer": "1"}])
        self.assert_exit(self.train("checkpoint.every=1"), 0)
        model = self.folder / "run" / "checkpoints" / "step-000001"
        for result in (self.train("--explain", "data.chat_template_kwargs=[enable_thinking=false]"),
                       keel("generate", "--model", model, "--prompt", "hi", "--chat", "--chat-template-word", "enable_thinking=false")):
            self.assert_refused(result, 2, "enable_thinking", "the model has no chat template; remove it")

    def test_a_built_in_task_uses_them_with_a_template(self):
        settings = ("task.name=countdown", "data.chat_template_kwargs=[enable_thinking=false]")
        self.assertIn("chat template variables: enable_thinking=false", self.explained(*settings, files=False))
        lengths = [int(re.search(r"prompts of up to (\d+) tokens", self.explained("task.name=countdown", *more, files=False))[1])
                   for more in ((), settings[1:])]
        self.assertEqual(lengths[1] - lengths[0], len("<think></think>"))  # one token per byte
        for settings in (("task.name=countdown", "data.chat_template_kwargs=[enable_thinkng=false]"), ("task.name=countdown", "data.chat=always")):
            self.assert_refused(self.train("--explain", *settings, files=False), 2, settings[1].split("=")[0])

    def test_supervised_rows_they_make_unlearnable_get_fixes(self):
        talk = self.write_rows("talk.jsonl", [{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}] * 2)
        sft = ["sft", f"model={self.model}", "model.random_weights=true", f"data.files=[{talk}]", f"run.dir={self.folder / 'sft'}", "--explain"]
        self.assert_refused(keel(*sft, "data.chat_template_kwargs=[enable_thinking=false]"), 3, "sft.loss_on=all", "remove data.chat_template_kwargs")
        for way_out in (["data.chat_template_kwargs=[enable_thinking=false]", "sft.loss_on=all"], []):
            self.assert_exit(keel(*sft, *way_out), 0)


if __name__ == "__main__":
    support.main()
