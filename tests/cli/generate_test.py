"""keel generate: seed, noise, generation_config.json, and control characters."""

import json
import math
import re
import shutil

import support
from support import keel, train
from terminal import on_terminal


class Generate(support.Test):
    def setUp(self):
        super().setUp()
        self.assert_exit(train(self.folder / "start", sft={"steps": 5, "noisy_steps": 1}, train={"steps": 0},
                               eval={"prompts": 0}), 0)
        checkpoint = max((self.folder / "start" / "checkpoints").glob("step-*"))
        self.model = self.folder / "model"
        shutil.copytree(checkpoint, self.model)
        (self.model / "manifest.json").unlink()  # the test changes its files

    def say(self, **keys):
        (self.model / "generation_config.json").write_text(json.dumps(keys))

    def generate(self, *options, prompt="<bos> 1 + 2 =", tokens=12):
        return keel("generate", "--model", self.model, "--prompt", prompt, "--max-new-tokens", tokens, *options)

    def rows(self, *options, **more):
        result = self.generate("--json", *options, **more)
        self.assert_exit(result, 0)
        return [json.loads(line) for line in result.stdout.splitlines()]

    # Seeds ---------------------------------------------------------------------------------------------------------------

    def test_a_missing_seed_is_drawn_and_printed(self):
        self.say()
        first, second = (self.generate("-n", 4) for _ in range(2))
        self.assertNotEqual(first.stdout, second.stdout)
        (seed,) = re.findall(r"^seed (\d+)$", first.stderr, re.M)
        self.assertEqual(self.generate("-n", 4, "--seed", seed).stdout, first.stdout)
        self.assertNotIn("seed", self.generate("--seed", seed).stderr)
        rows = self.rows("-n", 2)
        self.assertEqual(len({row["seed"] for row in rows}), 1)
        again = self.rows("-n", 2, "--seed", rows[0]["seed"])
        self.assertEqual(again, rows)
        greedy = self.generate("--temperature", 0, "--json")  # greedy decoding has no randomness
        self.assertNotIn("seed", greedy.stderr + greedy.stdout)

    def test_another_prompt_has_other_noise_under_the_same_seed(self):
        """The prompts have equal lengths and nearly equal distributions: with equal noise almost every token would be equal."""
        self.say()
        prompts = [f"<bos> {a} + {b} =" for a in range(5) for b in range(4)]
        texts = {prompt: self.rows("--seed", 7, "--temperature", 5, prompt=prompt)[0]["tokens"] for prompt in prompts}
        agreeing = total = 0
        for i, one in enumerate(prompts):
            for other in prompts[:i]:
                pairs = list(zip(texts[one], texts[other]))
                agreeing += sum(a == b for a, b in pairs)
                total += len(pairs)
        # At temperature 5 the 26 tokens are nearly equally likely: chance agrees on some 4 %.
        self.assertGreater(total, 200)
        self.assertLess(agreeing / total, 0.15)

    def test_running_out_of_memory_names_options_of_this_command(self):
        config = json.loads((self.model / "config.json").read_text())
        config["max_position_embeddings"] = 1 << 28
        (self.model / "config.json").write_text(json.dumps(config))
        result = self.generate("-n", 1000, tokens=1 << 27)
        self.assert_refused(result, 2, "the keys and values of 1000 sequences take up to",
                            " Fix: lower -n or --max-new-tokens\n")
        self.assertNotIn("rollout.", result.stderr)

    def test_the_first_completions_are_the_same_however_many_there_are(self):
        self.say()
        self.assertEqual(self.rows("--seed", 3, "-n", 2), self.rows("--seed", 3, "-n", 5)[:2])

    # generation_config.json ----------------------------------------------------------------------------------------------

    def test_settings_of_the_file_are_used_and_printed(self):
        self.say(do_sample=True, temperature=0.6, top_p=0.9, top_k=7, max_new_tokens=5)
        result = keel("generate", "--model", self.model, "--prompt", "<bos> 1 + 2 =", "--seed", 1, "--json")
        self.assertIn("generation_config.json: temperature 0.6, top_p 0.9, top_k 7, max_new_tokens 5", result.stderr)
        self.assertLessEqual(len(json.loads(result.stdout)["tokens"]), 5)
        flags = ("--temperature", 0.6, "--top-p", 0.9, "--top-k", 7, "--seed", 1, "-n", 8)
        followed = self.rows("--seed", 1, "-n", 8)
        self.say()
        self.assertEqual(self.rows(*flags), followed)
        self.assertNotEqual(self.rows("--seed", 1, "-n", 8), followed)

    def test_flags_win_over_the_file(self):
        self.say()
        plain = self.rows("--seed", 1, "-n", 4)
        self.say(do_sample=True, temperature=0.3, top_k=2, top_p=0.5)
        won = self.generate("--json", "--seed", 1, "-n", 4, "--temperature", 1, "--top-k", 0, "--top-p", 1)
        self.assertEqual([json.loads(line) for line in won.stdout.splitlines()], plain)
        self.assertNotIn("generation_config.json", won.stderr)

    def test_a_file_that_does_not_sample_makes_it_greedy(self):
        self.say()
        greedy = self.rows("--temperature", 0, "--seed", 1)
        self.say(do_sample=False, temperature=0.7, top_k=3)
        self.assertEqual(self.rows("--seed", 1), greedy)
        self.say(do_sample=True, top_p=0.8, top_k=3)  # they have no effect then
        self.assertNotIn("generation_config.json", self.generate("--temperature", 0, "--seed", 1).stderr)

    def test_top_k_keeps_the_likeliest_and_renormalises(self):
        """Log-probs under top-k are those of all tokens minus the log of the top k's total probability."""
        self.say()
        for k in (1, 2, 3):
            firsts = {row["tokens"][0]: row["logprobs"][0] for row in self.rows("-n", 400, "--seed", 5, "--top-k", k, tokens=1)}
            self.assertEqual(len(firsts), k, firsts)
            self.assertAlmostEqual(sum(math.exp(logp) for logp in firsts.values()), 1, places=5)
        everything = {row["tokens"][0]: row["logprobs"][0] for row in self.rows("-n", 400, "--seed", 5, tokens=1)}
        likeliest = sorted(everything, key=everything.get)[-3:]
        self.assertEqual(set(firsts), set(likeliest))
        mass = math.log(sum(math.exp(everything[token]) for token in likeliest))
        for token in likeliest:
            self.assertAlmostEqual(firsts[token], everything[token] - mass, places=5)

    def test_max_length_applies_unless_a_flag_is_set(self):
        self.say(max_length=9, do_sample=True)
        result = keel("generate", "--model", self.model, "--prompt", "<bos> 1 + 2 =", "--seed", 1, "--json")
        self.assert_exit(result, 0)
        self.assertIn("generation_config.json: max_length 9", result.stderr)
        self.assertLessEqual(len(json.loads(result.stdout)["tokens"]), 4)  # 9 in all, of which the prompt has five
        flagged = self.generate("--seed", 1, tokens=6)
        self.assertNotIn("max_length", flagged.stderr)
        self.say(max_length=3, do_sample=True)
        refused = keel("generate", "--model", self.model, "--prompt", "<bos> 1 + 2 =", "--seed", 1)
        self.assert_refused(refused, 2, "max_length", "is 3", "--max-new-tokens")

    def test_a_missing_do_sample_is_reported(self):
        """transformers decodes greedily if the key is missing."""
        self.say(temperature=0.6)
        self.assertIn("no do_sample, so Keel samples at temperature 0.6", self.generate("--seed", 1).stderr)
        self.assertNotIn("do_sample", self.generate("--seed", 1, "--temperature", 1).stderr)
        self.say(do_sample=True)
        self.assertNotIn("do_sample", self.generate("--seed", 1).stderr)
        self.say()  # as in a GGUF file, which does not have these keys
        result = self.generate("--seed", 1).stderr
        self.assertIn("the model sets no sampling: Keel samples at temperature 1.0, transformers", result)
        self.assertNotIn("generation_config.json", result)

    def test_only_unsupported_keys_with_effect_are_reported(self):
        self.say(do_sample=True, num_return_sequences=2, repetition_penalty=1.05, no_repeat_ngram_size=3, bos_token_id=1, transformers_version="4.51", max_length=99,
                 use_cache=True, typical_p=1.0, num_beams=1, min_p=None, suppress_tokens=[])
        result = self.generate("--seed", 1)
        self.assert_exit(result, 0)
        self.assertEqual(result.stderr.strip(), "generation_config.json: unsupported: num_return_sequences 2, repetition_penalty 1.05, no_repeat_ngram_size 3")

    def test_invalid_values_are_refused_unless_a_flag_replaces_them(self):
        for key, value, flag in (("temperature", -1, "--temperature"), ("temperature", "hot", "--temperature"),
                                 ("temperature", 1e9, "--temperature"), ("top_p", 1.5, "--top-p"), ("top_k", 2.5, "--top-k"),
                                 ("do_sample", "yes", "--temperature")):
            self.say(**{key: value})
            self.assert_refused(self.generate("--seed", 1), 3, "generation_config.json", key, flag)
            self.assert_exit(self.generate("--seed", 1, flag, 1), 0)

    # Prompts -------------------------------------------------------------------------------------------------------------

    def test_special_tokens_of_a_plain_prompt_are_encoded_as_in_training_by_default(self):
        self.say()
        path = self.model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        number = tokenizer["model"]["vocab"]["3"]
        tokenizer["added_tokens"].append({"id": number, "content": "3", "special": True, "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False})
        path.write_text(json.dumps(tokenizer))
        greedy = ("--temperature", 0)
        spaced = self.rows(*greedy, prompt="<bos> 3 + 1 =")
        self.assertEqual(self.rows(*greedy, prompt="<bos>3+ 1 ="), spaced)  # "3+" is not a word of the vocabulary
        as_text = self.generate("--json", "--no-special-tokens", *greedy, prompt="<bos>3+ 1 =")
        self.assertNotEqual(as_text.stdout, self.generate("--json", *greedy, prompt="<bos> 3 + 1 =").stdout)
        self.assert_refused(self.generate("--no-special-tokens", "--chat"), 2, "--no-special-tokens", "--chat")

    def sums(self):
        """Replies to 0 + 1 to 4 + 1 with the templates below."""
        return [self.rows("--temperature", 0, prompt=f"<bos> {number} + 1 =", tokens=3)[0] for number in range(5)]

    def reply(self, model, *flags):
        result = keel("generate", "--model", model, "--prompt", "x", "--chat", "--temperature", 0, "--max-new-tokens", 3, "--json", *flags)
        self.assert_exit(result, 0)
        return json.loads(result.stdout)

    def test_a_template_gets_the_date_of_training(self):
        self.say()
        (self.model / "chat_template.jinja").write_text("<bos> {{ strftime_now('%Y') | int - 2021 }} + 1 =")

        plain = self.sums()
        self.assertEqual(self.reply(self.model), plain[3])
        self.assertEqual(self.reply(self.model, "--date", "2023-01-02"), plain[2])
        self.assertNotEqual(plain[2]["logprobs"], plain[3]["logprobs"])
        self.assert_refused(self.generate("--chat", "--date", "soon"), 2, "--date", "soon", "2024-07-26")
        self.assert_refused(self.generate("--date", "2023-01-02"), 2, "--date", "--chat")

    def test_a_template_gets_the_variables_of_the_command_line(self):
        self.say()
        (self.model / "chat_template.jinja").write_text("<bos> {% if enable_thinking is defined and not enable_thinking %}1{% else %}{{ number or 2 }}{% endif %} + 1 =")

        plain = self.sums()
        self.assertEqual(self.reply(self.model), plain[2])
        self.assertEqual(self.reply(self.model, "--chat-template-word", "enable_thinking=false"), plain[1])
        self.assertEqual(self.reply(self.model, "--chat-template-word", "enable_thinking=true", "--chat-template-word", "number=4"), plain[4])
        checkpoint = self.folder / "made" / "checkpoints" / "step-00000001"
        shutil.copytree(self.model, checkpoint)
        (self.folder / "made" / "config.yaml").write_text("data:\n  chat_template_kwargs: [number=3]\n")
        self.assertEqual(self.reply(checkpoint), plain[3])
        self.assertEqual(self.reply(checkpoint, "--chat-template-word", "enable_thinking=false"), plain[1])
        self.assert_refused(self.generate("--chat", "--chat-template-word", "enable_thinkng=false"), 2, "--chat-template-word", "enable_thinkng", "does not read")
        self.assert_refused(self.generate("--chat", "--chat-template-word", "number"), 2, "--chat-template-word", "name=value")
        self.assert_refused(self.generate("--chat-template-word", "number=3"), 2, "--chat-template-word", "--chat")

    # Text ----------------------------------------------------------------------------------------------------------------

    def test_control_characters_are_escaped_and_layout_kept(self):
        def greedy(*options):
            result = self.generate("--temperature", 0, *options, prompt="<bos>", tokens=1)
            self.assert_exit(result, 0)
            return result.stdout

        self.say()
        (likeliest,) = json.loads(greedy("--json"))["tokens"]
        word = "a\x1b[2J\tb\nc\x9b31m\u202e\x7f"
        path = self.model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["model"]["vocab"] = {word if token == likeliest else name: token for name, token in tokenizer["model"]["vocab"].items()}
        path.write_text(json.dumps(tokenizer))
        self.assertEqual(greedy(), "a\\x1b[2J\tb\nc\\u009b31m\\u202e\\x7f\n")
        self.assertEqual(greedy("--raw"), word + "\n")
        self.assertEqual(json.loads(greedy("--json"))["text"], word)
        self.assertTrue(greedy("--json").isascii())
        self.assert_exit(self.generate("--raw", "--json"), 2)


STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08"


class Terminal(support.Test):
    """Untrusted names and texts, printed to a terminal by different commands."""

    def on_terminal(self, *arguments):
        return on_terminal(*arguments)[1]

    def assert_harmless(self, written):
        ours = re.sub(r"\x1b\[(\d+m|K)|\r", "", written)  # the program's own colours and progress line
        for character in STEERING:
            if character.isprintable() and character != "\u202e":
                continue
            self.assertNotIn(character, ours)

    def setUp(self):
        super().setUp()
        self.assert_exit(train(self.folder / "start", sft={"steps": 0}, train={"steps": 0}, eval={"prompts": 0}), 0)
        checkpoint = max((self.folder / "start" / "checkpoints").glob("step-*"))
        self.model = self.folder / "model"
        shutil.copytree(checkpoint, self.model)
        for name in ("manifest.json", "optimizer.safetensors", "state.json"):
            (self.model / name).unlink()

    def change(self, name, **keys):
        path = self.model / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))

    def test_a_model_type(self):
        self.change("config.json", model_type=STEERING, architectures=[STEERING])
        for arguments in (("inspect", self.model), ("inspect", self.model, "--json"),
                          ("generate", "--model", self.model, "--prompt", "1")):
            written = self.on_terminal(*arguments)
            self.assertIn("owned", written)
            self.assert_harmless(written)

    def test_a_key_of_generation_config(self):
        self.change("generation_config.json", **{STEERING: STEERING, "temperature": 1.0})
        written = self.on_terminal("generate", "--model", self.model, "--prompt", "<bos> 1 + 2 =", "--max-new-tokens", 1)
        self.assertIn("owned", written)
        self.assert_harmless(written)

    def test_a_tensor(self):
        data = (self.model / "model.safetensors").read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        name = next(key for key in header if key != "__metadata__")
        header[STEERING] = header.pop(name)
        header["__metadata__"] = {STEERING: STEERING}
        text = json.dumps(header).encode()
        (self.model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
        for arguments in (("inspect", self.model / "model.safetensors"), ("inspect", self.model), ("inspect", self.model, "--json"),
                          ("generate", "--model", self.model, "--prompt", "1")):
            written = self.on_terminal(*arguments)
            self.assertIn("owned", written)
            self.assert_harmless(written)

    def test_rows_of_a_data_file(self):
        data = self.folder / "rows.jsonl"
        data.write_text(json.dumps({"prompt": STEERING, "answer": "1", "source": STEERING}) + "\n" +
                        json.dumps({"prompt": "<bos> 1 + 2 =", "answer": STEERING, STEERING: 1, "source": "a"}) + "\n")
        config = self.folder / "config.json"
        config.write_text(json.dumps({"model": {"path": str(self.model)}, "data": {"files": [str(data)], "eval_files": [str(data)]},
                                      "rollout": {"max_new_tokens": 4, "samples_per_prompt": 2}, "reward": {"functions": ["exact"]},
                                      "train": {"steps": 1, "prompts_per_step": 2}, "run": {"dir": str(self.folder / "run")},
                                      "objective": {"method": "dppo_tv"}}))
        for arguments in (("train", config), ("eval", config), ("eval", config, "--json"), ("train", config, "--overwrite", "data.answer_key=nothing")):
            self.assert_harmless(self.on_terminal(*arguments))
        completions = self.folder / "completions.jsonl"
        completions.write_text(json.dumps({"completion": "x", "gold": "1", "note": "n\x9b31m\u202e\x7f"}, ensure_ascii=False) + "\n")
        self.assert_harmless(self.on_terminal("reward", completions, 'reward.functions=["exact"]'))
        self.assert_harmless(self.on_terminal("verify", "--gold", "1" + STEERING, "--answer", STEERING))

    def test_an_exception_of_a_reward_function(self):
        reward = self.folder / "reward.py"
        reward.write_text('def f(completions, **columns):\n    raise RuntimeError("\\x1b]0;owned\\x07\\x9b31m")\n')
        completions = self.folder / "completions.jsonl"
        completions.write_text(json.dumps({"completion": "x", "gold": "1"}) + "\n")
        written = self.on_terminal("reward", completions, f'reward.functions=["python:{reward}"]', "reward.on_error=zero")
        self.assertIn("owned", written)
        self.assert_harmless(written)
        self.assert_exit(support.train(self.folder / "run", train={"steps": 1}, reward={"functions": json.dumps([f"python:{reward}"]),
                                                                                       "on_error": "zero"}), 0)
        log = (self.folder / "run" / "log.txt").read_text()
        self.assertIn("owned", log)
        self.assert_harmless(log)

    def test_words_of_the_command_line(self):
        for arguments in ((STEERING,), ("generate", "--" + STEERING), ("doctor", STEERING), ("train", "--a.b" + STEERING)):
            written = self.on_terminal(*arguments)
            self.assertIn("owned", written)
            self.assert_harmless(written)

    def test_paths_in_the_files_that_a_run_leaves(self):
        run = self.folder / f"a\x9b31m\u202e\U000e0041 b"
        self.assert_exit(support.train(run, train={"steps": 1}), 0)
        for name in ("config.yaml", "used.json"):
            self.assert_harmless((run / name).read_text())
        self.assert_exit(support.keel("train", run / "config.yaml", "--resume", "train.steps=2"), 0)


if __name__ == "__main__":
    support.main()
