"""keel sft: invalid rows are rejected with a fix, and time and memory are estimated."""

import json

import own_rows
import support
from own_rows import TALKS

TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}
CALL = {"role": "assistant", "tool_calls": [TOOL]}


class SftRows(own_rows.Test):
    def test_invalid_rows_are_refused(self):
        talk, ask = TALKS[0], TALKS[0][:1]
        for row, settings, sentence in [
                ({"messages": talk, "tools": [TOOL]}, [], "chat template does not render them"),
                ({"messages": talk, "tools": json.dumps([TOOL])}, [], "chat template does not render them"),
                ({"messages": [*ask, CALL]}, [], "chat template does not render them"),
                ({"messages": [*ask, talk[1] | {"reasoning_content": "one more"}]}, [], "does not render it. Fix: move it into the content"),
                ({"messages": [*ask, talk[1] | {"loss": "no"}]}, [], 'message 2 has the loss "no"'),
                ({"messages": [*ask, talk[1] | {"loss": True, "weight": 0}]}, [], "contradict each other"),
                ({"messages": [ask[0] | {"loss": True}, talk[1]]}, [], "message 1 has a loss mark"),
                ({"messages": [*ask, talk[1] | {"loss": False}]}, [], "no assistant message with a loss"),
                ({"messages": [*ask, talk[1] | {"loss": False}]}, ["sft.loss_on=all"], "set sft.loss_on=assistant"),
                ({"messages": [*ask, talk[1] | {"weight": 0}]}, ["sft.loss_on=completion"], "set sft.loss_on=assistant"),
                ({"messages": talk, "tools": "add"}, [], "a text that is not JSON"),
                ({"messages": talk, "tools": {"a": 1}}, [], "the tools are not a list but object"),
                ({"messages": [*ask, {"role": "assistant"}]}, [], "has no content"),
                ({"story": ["a"]}, ["sft.text_key=story"], "message 1 of the text"),
                ({"story": ""}, ["sft.text_key=story"], "the text (\"story\") is empty"),
                ({"conversations": [{"from": "human", "value": "a"}]}, ["sft.prompt_key=conversations"], "has no role"),
                ({"text": "story"}, ["sft.text_key=tale"], "column \"tale\" is missing"),
                ({"prompt": ask, "completion": ask}, ["sft.loss_on=completion"], "does not begin with an assistant message"),
                ({"words": "a"}, [], "expected messages, or prompt and completion")]:
            with self.subTest(row=row):
                self.assertIn(sentence, self.refused(3, f"data.files=[{self.write('bad.jsonl', [row])}]", *settings))

    def test_settings_without_effect_on_texts_are_refused(self):
        texts = f"data.files=[{self.write('texts.jsonl', [{'text': 'a story'}])}]"
        for settings in (["data.chat=always"], ["data.system_prompt=hi"]):
            self.assertIn("remove that, or give messages", self.refused(2, texts, "sft.text_key=text", *settings))
        self.assertIn("set either a text column", self.refused(2, texts, "sft.text_key=text", "sft.prompt_key=text"))
        self.assertIn("set sft.completion_key, the column", self.refused(2, texts, "data.answer_key=x"))
        self.assertIn("set sft.max_tokens, the maximum", self.refused(2, texts, "data.max_prompt_tokens=5"))

    def test_prints_how_texts_and_pairs_are_read(self):
        texts, pairs = self.write("texts.jsonl", [{"text": "a story"}]), self.write("pairs.jsonl", [{"prompt": "a", "completion": "b", "id": "c"}])
        result = self.sft(f"data.files=[{texts}]", "sft.text_key=text", "sft.steps=1")
        self.assert_exit(result, 0)
        self.assertIn("read as: a text, trained on as a whole, from text", result.stdout)
        output = self.sft(f"data.files=[{pairs}]", run="pairs").stdout
        self.assertIn('read as: prompt and completion; completion from completion, prompt from prompt (a text, given as it is); '
                      'unused text columns: "id"', output)
        self.assertIn("the model's chat template is not used", output)

    def test_estimates_time_and_memory(self):
        result = self.sft(f"data.files=[{self.rows}]", f"data.eval_files=[{self.rows}]", "sft.data_epochs=20", "sft.batch=7", "sft.eval_every=5", "--explain")
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r"memory +about .*: fits\n +.* weights, .* gradients and moments, .* activations of one micro-batch, .* the program itself")
        self.assertRegex(result.stdout, r"time +an update of about .* here, 5 measurements of the loss at about .* each, all about ")
        rows = [sum(len(f"{message['role']}\n{message['content']}") + 3 for message in talk) - 1 for talk in TALKS]  # one token per byte, two role tokens per message
        self.assertIn(f"assuming rows of {round(sum(rows) / len(rows))} tokens", result.stdout)
        adapter = self.sft(f"data.files=[{self.rows}]", "lora.rank=2", "--explain")
        self.assertNotIn("weight copies", adapter.stdout)
        config = self.folder / "both.json"
        prompts = self.write("prompts.jsonl", [{"prompt": talk[:1]} for talk in TALKS])
        config.write_text(json.dumps({"sft": {"files": [str(self.rows)]}, "data": {"files": [str(prompts)]}, "train": {"steps": 3},
                                      "rollout": {"max_new_tokens": 4}, "reward": {"functions": ["length"]}}))
        both = support.keel("train", config, f"model={self.model}", "model.random_weights=true", "reward.functions=[stopped]", "--explain")
        self.assert_exit(both, 0)
        self.assertIn("; the supervised updates before about ", both.stdout)


if __name__ == "__main__":
    support.main()
