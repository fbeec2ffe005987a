"""Model folders: what a second save keeps, and which folders are rejected."""

import json
import math
import pathlib
import re
import shutil

import support
from support import checkpoints, keel, train
from weight_files import dtypes, read_weights, write_weights


class ModelFolder(support.Test):
    def setUp(self):
        super().setUp()
        self.assert_exit(train(self.folder / "start", sft={"steps": 0}, train={"steps": 0}, eval={"prompts": 0}), 0)
        self.base = self.folder / "base"
        shutil.copytree(self.folder / "start" / "checkpoints" / "step-000000", self.base)
        for name in ("manifest.json", "optimizer.safetensors", "state.json"):
            (self.base / name).unlink()
        self.weights = read_weights(self.base / "model.safetensors")

    def write_weights(self, dtype_of=lambda name: "F32"):
        write_weights(self.base / "model.safetensors", self.weights, dtype_of)

    def change_config(self, **keys):
        config = json.loads((self.base / "config.json").read_text())
        for key, value in keys.items():
            if value is ...:
                config.pop(key, None)
            else:
                config[key] = value
        (self.base / "config.json").write_text(json.dumps(config))
        return config

    def generate(self, *options):
        seed = () if any(str(option).startswith("--seed") for option in options) else ("--seed", 1)
        return keel("generate", "--model", self.base, "--prompt", "<bos> 1 + 2 =", "--max-new-tokens", 4, "--json", *seed, *options)

    def train(self, name, *flags, **sections):
        sections.setdefault("model", {}).update(path=self.base)
        values = {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}
        plain = {k: v for k, v in support.SMALL.items() if not k.startswith("model.")}
        return keel("train", self.config(), *(f"{k}={v}" for k, v in {**plain, **values}.items()),
                    f"run.dir={self.folder / name}", *flags)

    def config(self):
        """The quickstart's configuration without its section model, since a loaded model defines its own shape."""
        lines, kept, inside = pathlib.Path(support.QUICKSTART).read_text().splitlines(), [], False
        for line in lines:
            if line and not line.startswith((" ", "#")):
                inside = line.startswith("model:")
            if not inside:
                kept.append(line)
        path = self.folder / "config.yaml"
        path.write_text("\n".join(kept) + "\n")
        return path

    def last(self, run):
        return self.folder / run / "checkpoints" / checkpoints(self.folder / run)[-1]

    # Weights that are not finite ---------------------------------------------------------------------------------------

    def test_a_non_finite_weight_is_named_by_every_command(self):
        for name, value, word in (("model.layers.1.mlp.down_proj.weight", math.nan, "NaN"),
                                  ("model.norm.weight", math.inf, "Inf")):
            self.weights = read_weights(self.folder / "start/checkpoints/step-000000/model.safetensors")
            self.weights[name][1][3] = value
            self.write_weights()
            results = [
                self.generate(), self.generate("--temperature", "0"), self.train("warm", "--overwrite"),
                self.train("run", "--overwrite", sft={"steps": 0, "noisy_steps": 0}),
                keel("eval", self.config(), f"model.path={self.base}", "eval.prompts=2", f"run.dir={self.folder}/none")]
            for result in results:
                self.assert_refused(result, 4, "not finite", f'"{name}"', word)

    def test_a_tokenizer_that_transformers_5_reads_differently_gets_a_warning(self):
        file = self.base / "tokenizer_config.json"
        for named, warnings in (("PreTrainedTokenizerFast", 0), ("Qwen2Tokenizer", 1)):  # as transformers 5.17 and 5.23 read a llama folder
            file.write_text(json.dumps({**json.loads(file.read_text()), "tokenizer_class": named}))
            for result in (self.generate(), self.train("run", "--explain"), keel("convert", self.base, self.folder / f"copy_{warnings}")):
                self.assert_exit(result, 0)
                self.assertEqual((result.stdout + result.stderr).count("AutoTokenizer of transformers 5 ignores"), warnings)

    # Kept content ----------------------------------------------------------------------------------------------------

    def test_every_weight_keeps_its_own_type_through_training_resuming_and_merging(self):
        def mixed(name):
            return "F32" if "norm" in name else "F16" if "mlp" in name else "BF16"
        self.write_weights(mixed)
        want = {name: mixed(name) for name in self.weights}
        plan = dict(sft={"steps": 0, "noisy_steps": 0}, eval={"prompts": 0})
        self.assert_exit(self.train("whole", train={"steps": 4}, **plan), 0)
        self.assertEqual(dtypes(self.last("whole") / "model.safetensors"), want)
        self.assert_exit(self.train("parts", train={"steps": 2}, **plan), 0)
        self.assert_exit(self.train("parts", "--resume", train={"steps": 4}, **plan), 0)
        self.assertEqual(dtypes(self.last("parts") / "model.safetensors"), want)
        self.assert_same_run(self.folder / "whole", self.folder / "parts")
        self.assert_exit(self.train("lora", train={"steps": 2}, lora={"rank": 2}, **plan), 0)
        self.assertEqual(dtypes(self.last("lora") / "model.safetensors"), want)

    def test_trained_float32_weights_survive_narrow_folders(self):
        self.write_weights(lambda name: "BF16")
        plan = dict(sft={"steps": 0, "noisy_steps": 0}, eval={"prompts": 0}, train={"steps": 2}, optimizer={"lr": 1e-6})
        output = self.train("narrow", **plan).stdout
        for text in (output, self.train("narrow", "--explain", **plan).stdout):
            self.assertRegex(text, r"saved as +bfloat16, the dtype of model.path; the float32 weights are in optimizer.safetensors")
        self.assert_exit(keel("convert", self.folder / "narrow", self.folder / "wide", "--dtype", "float32"), 0)
        want = read_weights(self.folder / "wide" / "model.safetensors")
        narrow, self.base = self.base, self.folder / "narrow"
        self.assert_exit(self.train("next", **{**plan, "train": {"steps": 0}}), 0)
        self.assert_exit(keel("convert", self.folder / "next", self.folder / "again", "--dtype", "float32"), 0)
        self.assertEqual(read_weights(self.folder / "again" / "model.safetensors"), want)
        numbers = self.generate("--temperature", 1).stdout
        self.base = self.folder / "wide"
        self.assertEqual(self.generate("--temperature", 1).stdout, numbers)
        # Changed weights are used if the manifest was removed.
        self.base = self.last("narrow")
        (self.base / "manifest.json").unlink()
        shutil.copy(narrow / "model.safetensors", self.base / "model.safetensors")
        changed = self.generate("--temperature", 1).stdout
        self.base = narrow
        self.assertEqual(changed, self.generate("--temperature", 1).stdout)

    def test_a_trained_adapter_survives_narrow_folders(self):
        self.write_weights(lambda name: "BF16")
        plan = dict(sft={"steps": 0, "noisy_steps": 0}, eval={"prompts": 20}, train={"steps": 2}, optimizer={"lr": 1e-5}, lora={"rank": 2})
        self.assert_exit(self.train("lora", **plan), 0)
        run, base = self.last("lora"), self.base
        self.base = run
        self.assert_exit(self.train("next", "--explain", **plan), 0)
        self.assert_exit(self.train("next", **plan), 0, "have an adapter merged and are rounded")
        self.base = base
        self.assert_exit(keel("convert", base, self.folder / "base32", "--dtype", "float32"), 0)
        self.assert_exit(keel("convert", run, self.folder / "wide", "--dtype", "float32"), 0)
        start, wide = (read_weights(self.folder / name / "model.safetensors") for name in ("base32", "wide"))
        adapter, settings = read_weights(run / "adapter/adapter_model.safetensors"), json.loads((run / "adapter/adapter_config.json").read_text())
        scale = settings["lora_alpha"] / settings["r"]
        for name, (shape, numbers) in wide.items():
            layer = "base_model.model." + name.removesuffix(".weight")
            want = start[name][1]
            if f"{layer}.lora_A.weight" in adapter:
                a, b, columns = adapter[f"{layer}.lora_A.weight"][1], adapter[f"{layer}.lora_B.weight"][1], shape[1]
                self.assertTrue(any(b), name)
                want = [w + scale * sum(b[2 * (i // columns) + k] * a[k * columns + i % columns] for k in (0, 1)) for i, w in enumerate(want)]
            self.assertLess(max(abs(x - y) for x, y in zip(numbers, want)), 1e-8, name)

        def numbers(model, *flags):
            self.base = model
            result = self.generate("--temperature", 1, *flags)
            self.assert_exit(result, 0)
            return result

        apart = numbers(base, "--adapter", run / "adapter").stdout
        rounded = self.folder / "rounded"  # as another program reads it
        shutil.copytree(run, rounded)
        (rounded / "manifest.json").unlink()
        for same in (run, self.folder / "wide"):
            self.assertEqual(numbers(same).stdout, apart)
        self.assertNotEqual(numbers(rounded).stdout, apart)
        self.assertEqual(numbers(run, "--precision", "bf16").stdout, numbers(base, "--adapter", run / "adapter", "--precision", "bf16").stdout)

        # A run rounds in its compute dtype, too; one in float32 does not.
        self.base = self.folder / "base32"
        self.assert_exit(self.train("computes_in_bf16", **plan, run={"precision": "bf16"}), 0)
        self.assert_exit(self.train("computes_in_float32", **plan), 0)
        for name, rounds in (("computes_in_bf16", True), ("computes_in_float32", False)):
            self.base = self.last(name)
            self.assertEqual("have an adapter merged" in self.train("after_" + name, **plan).stdout, rounds)
            self.assertEqual(numbers(self.last(name)).stdout, numbers(self.folder / "base32", "--adapter", self.last(name) / "adapter").stdout)
        # The base of a new network is created again.
        self.assert_exit(train(self.folder / "new", **plan, run={"precision": "bf16"}), 0)
        self.assertEqual(numbers(self.folder / "new").stderr.count("cannot be used"), 0)

        base.rename(self.folder / "moved")
        fallback = numbers(run)
        self.assertIn("The merged weights of the checkpoint are used instead", fallback.stderr)
        self.assertEqual(fallback.stdout, numbers(rounded).stdout)

    def test_config_json_is_written_back_as_it_was_read(self):
        plan = dict(sft={"steps": 0, "noisy_steps": 0}, eval={"prompts": 0}, train={"steps": 0})
        extra = {"transformers_version": "4.44.0", "_name_or_path": "someone/model", "my_own_key": {"a": [1, None, 0.5]}}
        cases = [({"dtype": ..., "torch_dtype": ...}, {}), ({"dtype": ..., "torch_dtype": "bfloat16"}, {"torch_dtype": "float16"}),
                 ({"dtype": "bfloat16", "torch_dtype": ...}, {"dtype": "float16"}), ({"head_dim": None, "rope_scaling": None}, {})]
        self.write_weights(lambda name: "BF16")
        for number, (keys, when_chosen) in enumerate(cases):
            config = self.change_config(**keys, **extra)
            self.assert_exit(self.train(f"as_read{number}", **plan), 0)
            saved = json.loads((self.last(f"as_read{number}") / "config.json").read_text())
            self.assertEqual(list(saved.items()), list(config.items()))
            self.assert_exit(keel("convert", self.folder / f"as_read{number}", self.folder / f"chosen{number}", "--dtype", "float16"), 0)
            saved = json.loads((self.folder / f"chosen{number}" / "config.json").read_text())
            if when_chosen:
                config.update(when_chosen)
            else:
                config.update({key: "float16" for key in ("dtype", "torch_dtype") if key in config})
            self.assertEqual(list(saved.items()), list(config.items()))

    def test_files_of_the_tokenizer_that_only_others_read_are_kept(self):
        files = {"tokenizer.model": b"\x0a\x00\xffsentencepiece", "added_tokens.json": b'{"<x>": 7}', "vocab.json": b"{}",
                 "merges.txt": b"#version: 0.2\n", "chat_template.jinja": b"{{ messages[0].content }}"}
        for name, content in files.items():
            (self.base / name).write_bytes(content)
        self.assert_exit(self.train("run", sft={"steps": 0, "noisy_steps": 0}, eval={"prompts": 0}, train={"steps": 0}), 0)
        for name, content in files.items():
            self.assertEqual((self.last("run") / name).read_bytes(), content, name)

    def test_ids_beyond_the_vocabulary_are_sampled_and_trained_on_and_shown_by_their_number(self):
        tokens = len(json.loads((self.base / "tokenizer.json").read_text())["model"]["vocab"])
        width = json.loads((self.base / "config.json").read_text())["hidden_size"]
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            shape, numbers = self.weights[name]
            self.weights[name] = ([tokens + 300, width], numbers + [0.01 * (i % 7 - 3) for i in range(300 * width)])
        self.write_weights()
        self.change_config(vocab_size=tokens + 300)
        plan = dict(sft={"steps": 0, "noisy_steps": 0}, train={"steps": 3})
        for critic in ({}, {"critic": {"body": "shared"}, "objective": {"method": "ppo_gae"}}):
            self.assert_exit(self.train("padded", "--overwrite", **plan, **critic), 0)
            rows = [json.loads(line) for line in (self.folder / "padded" / "samples.jsonl").read_text().splitlines()]
            texts = {token for row in rows for token in row["tokens"]}
            unknown = {text for text in texts if re.fullmatch(r"<id \d+>", text)}
            self.assertTrue(unknown and all(tokens <= int(text[4:-1]) < tokens + 300 for text in unknown), texts)
            self.assertFalse(any("<id " in row["completion"] for row in rows))

    def test_shards_are_read_whatever_else_the_folder_and_the_index_say(self):
        (want,) = self.generate().stdout.splitlines()
        names = list(self.weights)
        parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
        for file, mine in parts.items():
            write_weights(self.base / file, {name: self.weights[name] for name in mine})
        (self.base / "model.safetensors").unlink()
        index = {"metadata": {"total_size": 1, "total_parameters": 2, "note": ["x"]}, "more": None,
                 "weight_map": {name: file for file, mine in parts.items() for name in mine}}
        (self.base / "model.safetensors.index.json").write_text(json.dumps(index))
        (self.base / "pytorch_model.bin").write_bytes(b"not looked at")
        self.assertEqual(self.generate().stdout.splitlines(), [want])
        first, second = parts
        for weights, message in (
                ({**index["weight_map"], "extra": first}, ('"extra"', first, "in no file")),
                ({**index["weight_map"], names[0]: second}, (f'"{names[0]}"', second, f"is in {first}")),
                ({k: v for k, v in index["weight_map"].items() if k != names[1]}, (f'"{names[1]}"', second, "is missing"))):
            (self.base / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
            self.assert_refused(self.generate(), 3, "model.safetensors.index.json", *message)
        (self.base / "model.safetensors.index.json").write_text(json.dumps(index))
        for file in parts:
            (self.base / file).unlink()
        self.assert_refused(self.generate(), 3, "model-0000", "interrupted")
        (self.base / "model.safetensors.index.json").unlink()
        self.assert_refused(self.generate(), 3, "model.safetensors", "pytorch_model.bin", "save_pretrained")

    def test_a_folder_without_tokenizer_json_gets_a_fix(self):
        (self.base / "tokenizer.json").rename(self.base / "tokenizer.model")
        self.assert_refused(self.generate(), 3, "no tokenizer.json", "AutoTokenizer", "save_pretrained")

    def test_a_dangling_link_is_not_a_missing_file(self):
        for name in ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
            link = self.base / name
            kept = link.read_bytes() if link.exists() else None
            link.unlink(missing_ok=True)
            link.symlink_to("../blobs/0123")
            self.assert_refused(self.generate(), 3, name, "is a dangling link")
            link.unlink()
            if kept is not None:
                link.write_bytes(kept)
        self.assert_exit(self.generate(), 0)

    def test_a_completion_ends_at_any_token_that_generation_config_names(self):
        free = json.loads(self.generate("--temperature", "0").stdout)["tokens"]
        for ends, reason in ((free[1], "stop"), ([free[1], 0], "stop"), ([0], "length")):
            (self.base / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
            row = json.loads(self.generate("--temperature", "0").stdout)
            self.assertEqual(row["finish_reason"], reason if free[1] != 0 else "stop")
            if reason == "stop":
                self.assertEqual(row["tokens"], free[:free.index(free[1]) + 1])

    def test_invalid_stop_ids_are_refused_with_their_file_and_key(self):
        size = json.loads((self.base / "config.json").read_text())["vocab_size"]
        for ends in (4294967296, 2**63, -1, "x", True, 1.5, [0, size], [0, None], {"a": 1}, [[0]]):
            (self.base / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
            self.assert_refused(self.generate(), 3, "generation_config.json", "eos_token_id is " + json.dumps(ends, separators=(",", ":")), f"0 to {size - 1}")
        (self.base / "generation_config.json").write_text("[]")
        self.assert_refused(self.generate(), 3, "generation_config.json", "object")
        (self.base / "generation_config.json").write_text(json.dumps({"eos_token_id": None}))
        self.change_config(eos_token_id=size)
        self.assert_refused(self.generate(), 3, "config.json", "eos_token_id", str(size))
        self.change_config(eos_token_id=[size - 1, size - 1])
        self.assert_exit(self.generate(), 0)

    def test_the_template_of_a_processor_is_a_fallback_and_kept(self):
        template = "{% for m in messages %}<bos> {{ m.content }}{% endfor %}"
        ask = ("--temperature", 0)
        (want,) = self.generate(*ask).stdout.splitlines()
        chat = lambda: keel("generate", "--model", self.base, "--prompt", "1 + 2 =", "--chat", "--max-new-tokens", 4, "--json", *ask)
        self.assert_refused(chat(), 3, "no chat template")
        (self.base / "chat_template.json").write_text(json.dumps({"chat_template": template}))
        self.assertEqual(chat().stdout.splitlines(), [want])
        self.assert_exit(self.train("kept", sft={"steps": 0, "noisy_steps": 0}, eval={"prompts": 0}, train={"steps": 0}), 0)
        self.assertEqual(json.loads((self.last("kept") / "chat_template.json").read_text()), {"chat_template": template})
        (self.base / "chat_template.json").write_text(json.dumps({"chat_template": "{{ raise_exception('never asked') }}"}))
        (self.base / "chat_template.jinja").write_text(template)
        self.assertEqual(chat().stdout.splitlines(), [want])
        (self.base / "chat_template.jinja").unlink()
        (self.base / "chat_template.json").write_text("{}")
        self.assert_refused(chat(), 3, "chat_template.json", "chat_template")

    def test_a_run_from_an_adapter_resumes_to_the_same_bits_and_keeps_the_adapters_settings(self):
        plan = dict(sft={"steps": 0, "noisy_steps": 0}, eval={"prompts": 0})
        self.assert_exit(self.train("first", lora={"rank": 3, "alpha": 5}, train={"steps": 2}, **plan), 0)
        adapter = self.folder / "adapter"
        shutil.copytree(self.last("first") / "adapter", adapter)
        settings = json.loads((adapter / "adapter_config.json").read_text())
        settings |= {"alpha_pattern": {"q_proj": 2}, "eva_config": None}
        (adapter / "adapter_config.json").write_text(json.dumps(settings))
        self.assert_exit(self.train("whole", lora={"adapter": adapter}, train={"steps": 4}, **plan), 0)
        self.assert_exit(self.train("parts", lora={"adapter": adapter}, train={"steps": 2}, **plan), 0)
        self.assert_exit(keel("train", self.folder / "parts" / "config.yaml", "--resume", "train.steps=4"), 0)
        self.assert_same_run(self.folder / "whole", self.folder / "parts")
        saved = json.loads((self.last("parts") / "adapter" / "adapter_config.json").read_text())
        self.assertEqual(saved, {**settings, "base_model_name_or_path": str(self.base)})

    # Rejected folders ------------------------------------------------------------------------------------------------

    def test_incomplete_or_mixed_files_name_what_to_download(self):
        good, config, weights = dict(self.weights), self.base / "config.json", self.base / "model.safetensors"
        name, (shape, numbers) = next((n, w) for n, w in good.items() if "up_proj" in n)
        one_model = "download config.json and the weights of one model"
        for changed, parts in (({k: v for k, v in good.items() if k != name}, ("no tensor", f'"{name}"', "config.json requires")),
                               ({**good, name: (shape[::-1], numbers)}, (f'"{name}" has shape', "config.json requires")),
                               ({**good, "model.layers.9.x.weight": ([1], [0.0])}, ('"model.layers.9.x.weight"', "does not belong"))):
            self.weights = changed
            self.write_weights()
            self.assert_refused(self.generate(), 3, *parts, one_model)
        self.weights = good
        self.write_weights()
        for file in (config, self.base / "generation_config.json"):
            text = file.read_text()
            file.write_text(text[:20])
            self.assert_refused(self.generate(), 3, f"{file}:", "not valid JSON", "fetch it or write it again")
            file.write_text(text)
        weights.rename(self.base / "model-00001-of-00002.safetensors")
        self.assert_refused(self.generate(), 3, "model-00001-of-00002.safetensors", "model.safetensors.index.json is missing")
        weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1048576\n")
        self.assert_refused(self.generate(), 3, str(weights), "a Git LFS pointer", "git lfs pull")

    def test_inspect_explains_why_a_folder_is_not_a_usable_model(self):
        def why_not():
            result = keel("inspect", "--json", self.base)
            self.assert_exit(result, 0)
            return json.loads(result.stdout).get("why_not")
        self.assertIsNone(why_not())
        config = self.change_config()
        self.change_config(model_type="mamba")
        self.assertIn('model_type is "mamba"; known: llama', why_not())
        (self.base / "config.json").write_text(json.dumps(config))
        (self.base / "tokenizer.json").rename(self.base / "kept.json")
        self.assertIn("no tokenizer.json", why_not())
        (self.base / "kept.json").rename(self.base / "tokenizer.json")
        (self.base / "model.safetensors").unlink()
        self.assertIn("no model.safetensors", why_not())
        index = {"weight_map": {name: "model-00001-of-00001.safetensors" for name in self.weights}}
        (self.base / "model.safetensors.index.json").write_text(json.dumps(index))
        self.assertIn("shard model-00001-of-00001.safetensors does not exist", why_not())

    def test_non_float_weights_are_refused_by_name(self):
        odd = "model.layers.0.input_layernorm.weight"
        for dtype in ("I32", "U8", "I8", "F8_E4M3"):
            self.write_weights(lambda name: dtype if name == odd else "F32")
            self.assert_refused(self.generate(), 3, f'"{odd}"', dtype, "quantised", "GGUF")
        self.write_weights(lambda name: "F64" if name == odd else "F32")
        self.assert_exit(self.generate(), 0)

    def test_a_quantised_model_is_refused_with_its_method_and_a_fix(self):
        for section, method in (({"quant_method": "gptq", "bits": 4}, "gptq"), ({"quant_method": "awq"}, "awq"),
                                ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
                                ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bitsandbytes")):
            self.change_config(quantization_config=section)
            self.assert_refused(self.generate(), 3, "quantization_config", method, "before it was quantised", "GGUF")
        self.change_config(quantization_config=None)
        self.assert_exit(self.generate(), 0)

    def test_options_of_generate_that_mean_nothing_are_refused_by_name(self):
        for option, value, *parts in (("--temperature", "nan", "0.0001 to 100"), ("--temperature", "1e-300", "0.0001 to 100"),
                                      ("--temperature", "-1", "0.0001"), ("--temperature", "101", "100"),
                                      ("--top-p", "nan", "to 1"), ("--top-p", "0", "to 1"), ("--seed", "-1"), ("--seed", "18446744073709551616", "to 18446744073709551615"),
                                      ("--device", "foo", "foo", "cpu", "cuda"), ("--system", "x", "--chat")):
            result = self.generate(f"{option}={value}")
            self.assert_exit(result, 2, option, *parts)
            self.assertNotIn("run.device", result.stderr)
        for option in ("--temperature=0", "--temperature=0.0001", "--temperature=1e2", "--seed=18446744073709551615", "--top-p=0.5"):
            self.assert_exit(self.generate(option), 0)
        self.assert_refused(keel("eval", self.config(), f"model={self.base}", "eval.prompts=1", "eval.temperature=1e-300",
                                 f"run.dir={self.folder}/none"), 2, "temperature", "0.0001")
        self.assert_refused(keel("train", self.config(), f"model={self.base}", "rollout.temperature=1e-300",
                                 f"run.dir={self.folder}/none"), 2, "rollout.temperature", "at least 1e-04")

    def test_completion_length_defaults_to_the_models_limit(self):
        self.change_config(max_position_embeddings=20)
        (self.base / "generation_config.json").write_text("{}")
        self.change_config(eos_token_id=None)
        ask = ("generate", "--model", self.base, "--prompt", "<bos> 1 + 2 =", "--json", "--temperature", "0")
        row = json.loads(keel(*ask).stdout)
        self.assertTrue(row["finish_reason"] == "stop" or len(row["tokens"]) == 15, row)
        self.assert_refused(keel(*ask, "--max-new-tokens", 16), 2, "--max-new-tokens is 16", "at most 15")

    # The cache of huggingface_hub ----------------------------------------------------------------------------------------

    def put_into(self, cache):
        """Stores the base model as huggingface_hub 2.4 does."""
        model = cache / "models--some--model"
        shutil.copytree(self.base, model / "snapshots" / "abc")
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text("abc")
        return model / "snapshots" / "abc"

    def generate_cached(self, **variables):
        none = dict.fromkeys(("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"))
        return keel("generate", "--model", "some/model", "--prompt", "<bos> 1 + 2 =", "--max-new-tokens", 2,
                    env=support.environment(**{**none, "HOME": str(self.folder / "home"), **variables}))

    def test_the_cache_follows_huggingface_hub_variables(self):
        # The variables of huggingface_hub's constants.py by priority, and the folder that each appends; ~ and $NAME are expanded.
        places = [("HF_HUB_CACHE", "~/a", "home/a"), ("HUGGINGFACE_HUB_CACHE", "$HOME/b", "home/b"), ("HF_HOME", "${HOME}/c", "home/c/hub"),
                  ("XDG_CACHE_HOME", str(self.folder / "d"), "d/huggingface/hub"), (None, None, "home/.cache/huggingface/hub")]
        for number, (variable, value, place) in enumerate(places):
            later = {name: str(self.folder / "elsewhere") for name, _, _ in places[number + 1:] if name}
            variables = {**later, **({variable: value} if variable else {})}
            self.assert_refused(self.generate_cached(**variables), 3, "some/model", place, "hf download some/model")
            self.put_into(self.folder / place)
            self.assert_exit(self.generate_cached(**variables), 0)

    def test_an_incomplete_download_is_reported(self):
        shard = "model-00001-of-00001.safetensors"
        index = {"weight_map": {name: shard for name in self.weights}}
        for missing in ("config.json", "tokenizer.json", "model.safetensors", shard):
            cache = self.folder / missing
            snapshot = self.put_into(cache)
            (snapshot / (missing if missing != shard else "model.safetensors")).unlink()
            if missing == shard:
                (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
            self.assert_refused(self.generate_cached(HF_HUB_CACHE=str(cache)), 3, missing, "incomplete", "hf download some/model")
        (self.folder / "model.safetensors/models--some--model/snapshots/abc/pytorch_model.bin").write_bytes(b"")
        self.assert_refused(self.generate_cached(HF_HUB_CACHE=str(self.folder / "model.safetensors")), 3, "save_pretrained")

    def test_an_empty_name_is_reported(self):
        for command in (("generate", "--model", "", "--prompt", "a"), ("inspect", "")):
            self.assert_refused(keel(*command), 3, "name is empty", "owner/name")

    # Configurations ----------------------------------------------------------------------------------------------------

    def test_the_shorthand_model_prints_no_note(self):
        result = keel("eval", self.config(), f"model={self.base}", "eval.prompts=2", f"run.dir={self.folder}/none")
        self.assert_exit(result, 0)
        self.assertNotIn("TRL", result.stderr + result.stdout)
        self.assert_refused(keel("eval", self.config(), f"model_name_or_path={self.base}", "eval.prompts=2"), 2,
                            "TRL's model_name_or_path is model.path")

    def test_an_error_about_a_default_limit_names_its_origin(self):
        rows = self.folder / "rows.jsonl"
        rows.write_text(json.dumps({"prompt": "<bos> " + "1 + " * 70 + "1 =", "answer": "1"}) + "\n")
        config = self.folder / "data.yaml"
        config.write_text(f"model: {self.base}\nrun: {{dir: {self.folder}/data}}\ndata: {{files: [{rows}]}}\n"
                          "rollout: {max_new_tokens: 50}\nreward: {functions: [math]}\n")
        positions = json.loads((self.base / "config.json").read_text())["max_position_embeddings"]
        result = keel("train", config)
        self.assert_refused(result, 3, f"max_position_embeddings ({positions})", "rollout.max_new_tokens (50)", str(positions - 50))
        self.assertNotIn("max_prompt_tokens", result.stderr)
        self.assert_refused(keel("train", config, "data.max_prompt_tokens=9"), 3, "data.max_prompt_tokens is 9")


if __name__ == "__main__":
    support.main()
