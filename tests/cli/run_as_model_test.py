"""A run folder as a model name means its newest valid checkpoint."""

import json
import shutil

import support
from support import keel, train

START = {"sft": {"steps": 20, "noisy_steps": 3, "lr": 0.01}, "eval": {"prompts": 0}}
ADAPTER = {"lora": {"rank": 2}}


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


class RunAsModel(support.Test):
    def setUp(self):
        super().setUp()
        self.run = self.folder / "run"
        self.assert_exit(train(self.run, **START), 0)
        self.older, self.newest = (self.run / "checkpoints" / name for name in support.checkpoints(self.run))

    def generate(self, model, *flags):
        result = keel("generate", "--model", model, "--prompt", "<bos> 1 + 1 =", "--seed", 1, "--max-new-tokens", 6, "--json",
                      *flags)
        self.assert_exit(result, 0)
        return result

    def damage_newest(self):
        """Makes the older checkpoint the newest valid one, independent of LATEST."""
        flip(self.newest / "model.safetensors")
        self.assertEqual((self.run / "checkpoints" / "LATEST").read_text().strip(), self.newest.name)

    def test_generate_samples_from_it_and_names_it(self):
        result = self.generate(self.run)
        self.assertEqual(result.stdout, self.generate(self.newest).stdout)
        self.assertIn(f"{self.run} is a run; its newest valid checkpoint is {self.newest.name}", result.stderr)
        self.assertNotEqual(result.stdout, self.generate(self.older).stdout)
        self.damage_newest()
        result = self.generate(self.run)
        self.assertEqual(result.stdout, self.generate(self.older).stdout)
        self.assertIn(f"{self.newest.name} is damaged (model.safetensors", result.stderr)
        self.assertIn(f"checkpoint is {self.older.name}", result.stderr)

    def test_a_parent_or_subfolder_is_not_taken_for_the_run(self):
        for folder, *parts in ((self.folder, "a folder of runs", f"such as {self.run}"),
                               (self.run / "checkpoints", "belongs to a run", f"Set the run, {self.run}")):
            for command in (("generate", "--prompt", "x", "--model"), ("inspect",), ("chat",)):
                refused = keel(*command, folder)
                if command != ("inspect",):
                    self.assert_refused(refused, 3, str(folder), *parts)
                self.assertNotIn("save_pretrained", refused.stderr)

    def test_eval_measures_it(self):
        def evaluate(model):
            result = keel("eval", support.QUICKSTART, *support.eval_settings(eval={"prompts": 20}), "--model", model, "--json")
            self.assert_exit(result, 0)
            return json.loads(result.stdout), result.stderr

        numbers, output = evaluate(self.run)
        self.assertEqual(numbers["model"], str(self.newest))
        self.assertEqual(numbers, evaluate(self.newest)[0])
        self.assertIn("is a run", output)
        self.damage_newest()
        self.assertEqual(evaluate(self.run)[0], evaluate(self.older)[0])

    def test_inspect_describes_it_and_names_damaged_checkpoints(self):
        found = keel("inspect", self.run, "--json")
        self.assert_exit(found, 0)
        self.assertEqual(list(json.loads(found.stdout)["parts"]), [f"checkpoints/{self.newest.name}"])
        self.damage_newest()
        found = keel("inspect", self.run, "--json")
        self.assert_exit(found, 1)
        self.assertEqual(list(json.loads(found.stdout)["parts"]), [f"checkpoints/{self.older.name}"])
        self.assertIn(f"{self.newest.name} is damaged", found.stderr)

    def test_convert_writes_it_without_what_training_keeps(self):
        def convert(model, out, *flags):
            result = keel("convert", model, self.folder / out, *flags)
            self.assert_exit(result, 0)
            return result, self.folder / out

        result, out = convert(self.run, "out")
        self.assertIn(f"its newest valid checkpoint is {self.newest.name}", result.stderr)
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["config.json", "generation_config.json", "model.safetensors",
                         "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"])
        self.assertEqual(self.generate(out).stdout, self.generate(self.newest).stdout)
        for path in convert(self.newest, "same")[1].iterdir():
            self.assertEqual(path.read_bytes(), (out / path.name).read_bytes(), path.name)
        narrow = json.loads(keel("inspect", convert(self.run, "narrow", "--dtype", "bfloat16")[1], "--json").stdout)
        self.assertEqual((narrow["dtype"], set(narrow["dtypes"])), ("bfloat16", {"BF16"}))
        self.damage_newest()
        result, out = convert(self.run, "older")
        self.assertIn(f"{self.newest.name} is damaged", result.stderr)
        self.assertEqual(self.generate(out).stdout, self.generate(self.older).stdout)
        refused = keel("convert", self.newest, self.folder / "damaged")
        self.assert_exit(refused, 3, "is damaged")
        self.assertFalse((self.folder / "damaged").exists())
        # A GGUF file cannot store a word-level vocabulary.
        refused = keel("convert", out, self.folder / "words.gguf")
        self.assert_refused(refused, 3, "WordLevel", "GGUF", "Hugging Face folder")
        self.assertFalse((self.folder / "words.gguf").exists())
        again = keel("convert", self.run, out)
        self.assert_exit(again, 2, "not empty")

    def test_a_run_starts_from_it_and_keeps_to_it(self):
        # The example's network is random; a run from a folder must not set sizes.
        config = self.folder / "start.yaml"
        config.write_text(json.dumps({"model": "run", "train": {"steps": 1, "prompts_per_step": 2}, "eval": {"prompts": 0},
                                      "run": {"threads": 1, "dir": "second"}, "rollout": {"samples_per_prompt": 4},
                                      "objective": {"entropy_coefficient": -0.1}}))

        def second(*arguments):
            return keel("train", config, *arguments, cwd=self.folder)

        explained = second("--explain")
        self.assert_exit(explained, 0, f"run is a run; its newest valid checkpoint is {self.newest.name}")
        result = second()
        self.assert_exit(result, 0, f"run is a run; its newest valid checkpoint is {self.newest.name}")
        self.assertIn(f"path: {self.newest}\n", (self.folder / "second" / "config.yaml").read_text())
        self.assert_exit(second(f"model.path={self.newest}", "run.dir=same"), 0)
        self.assert_same_run(self.folder / "second", self.folder / "same")
        # The first run continues meanwhile; the second one resumes with its original starting model.
        self.assert_exit(train(self.run, "--resume", **START, train={"steps": 6}), 0)
        self.assertNotEqual(support.checkpoints(self.run)[-1], self.newest.name)
        self.assert_exit(second("--resume", "train.steps=2"), 0)
        self.assertIn(f"path: {self.newest}\n", (self.folder / "second" / "config.yaml").read_text())
        self.assert_exit(second(f"model.path={self.newest}", "run.dir=same", "--resume", "train.steps=2"), 0)
        self.assert_same_run(self.folder / "second", self.folder / "same")

    def test_an_adapter_is_found_in_a_run_and_in_a_checkpoint(self):
        base = {"model": str(self.newest), "train": {"prompts_per_step": 2}, "rollout": {"samples_per_prompt": 4},
                "eval": {"prompts": 0}, "objective": {"entropy_coefficient": -0.1}, "optimizer": {"lr": 0.01}}
        config = self.folder / "adapter.yaml"
        config.write_text(json.dumps(base))

        def run(name, *settings):
            result = keel("train", config, f"run.dir={self.folder / name}", "run.threads=1", "train.steps=2", *settings)
            self.assert_exit(result, 0)
            return self.folder / name

        first = run("first", "lora.rank=2")
        adapter = first / "checkpoints" / support.checkpoints(first)[-1] / "adapter"
        want = run("by adapter", f"lora.adapter={adapter}")
        explained = keel("train", config, f"lora.adapter={adapter}", "--explain")
        self.assert_exit(explained, 0, "rank 2, alpha 16.0, on q_proj, k_proj")
        for nothing in (self.folder / "nosuch", self.newest):
            self.assert_exit(keel("train", config, f"lora.adapter={nothing}", "--explain"), 3)
        for name, place in (("by run", first), ("by checkpoint", adapter.parent)):
            got = run(name, f"lora.adapter={place}")
            self.assert_same_run(got, want)
            self.assertIn(f"adapter: {adapter}\n", (got / "config.yaml").read_text())
            self.assert_exit(keel("train", config, f"run.dir={got}", "run.threads=1", "train.steps=3", f"lora.adapter={place}",
                                  "--resume"), 0)
        samples = self.generate(self.newest, "--adapter", adapter).stdout
        for place in (first, adapter.parent):
            self.assertEqual(self.generate(self.newest, "--adapter", place).stdout, samples)
        # The checkpoint's own weights include the adapter.
        self.assertEqual(self.generate(first).stdout, samples)
        twice = keel("generate", "--model", adapter.parent, "--adapter", adapter, "--prompt", "<bos> 1 =")
        self.assert_refused(twice, 2, "--adapter", "would count twice", str(self.newest), "Remove --adapter")
        twice = keel("train", config, f"run.dir={self.folder / 'twice'}", f"model.path={adapter.parent}", f"lora.adapter={adapter}")
        self.assert_refused(twice, 2, "lora.adapter", "would count twice", "Remove lora.adapter")

        # Everything derived from those weights includes it, too: a converted folder, and runs that start from it.
        self.assert_exit(keel("convert", first, self.folder / "converted"), 0)
        self.assertNotIn(str(self.folder), (self.folder / "converted" / "config.json").read_text())
        self.assertEqual(self.generate(self.folder / "converted").stdout, samples)
        for made in (self.folder / "converted", run("all", f"model.path={first}"), run("on it", f"model.path={first}", "lora.rank=2")):
            for arguments in (("generate", "--model", made, "--adapter", first, "--prompt", "<bos> 1 ="),
                              ("eval", config, "--model", made, "--adapter", first, "eval.prompts=2"),
                              ("train", config, f"run.dir={self.folder / 'twice'}", f"model.path={made}", f"lora.adapter={first}")):
                twice = keel(*arguments)
                self.assert_exit(twice, 2, "would count twice", str(self.newest))
        # For any spelling of its base, or without the name of a base.
        copied = shutil.copytree(adapter, self.folder / "copied")
        (self.folder / "link").symlink_to(self.newest)
        described = json.loads((copied / "adapter_config.json").read_text())
        for base in ("org/base", None, "link", f"{self.newest}/", f"{self.newest.parent}/./{self.newest.name}"):
            (copied / "adapter_config.json").write_text(json.dumps({**described, "base_model_name_or_path": base}))
            twice = keel("generate", "--model", first, "--adapter", copied, "--prompt", "<bos> 1 =", cwd=self.folder)
            self.assert_exit(twice, 2, "would count twice")
            self.assertEqual(self.generate(self.newest, "--adapter", copied).stdout, samples)
        # Nor is one applied to weights that lack the base's adapter or training; a copy of the base counts as the base.
        for number, base in enumerate((first, self.older)):
            own = run(f"own {number}", f"model.path={base}", "lora.rank=2")
            where = json.loads((own / "checkpoints" / support.checkpoints(own)[-1] / "adapter" / "adapter_config.json").read_text())
            for arguments in (("generate", "--model", self.newest, "--adapter", own, "--prompt", "<bos> 1 ="),
                              ("eval", config, "--model", self.newest, "--adapter", own, "eval.prompts=2"),
                              ("train", config, f"model.path={self.newest}", f"lora.adapter={own}", "--explain")):
                other = keel(*arguments)
                self.assert_exit(other, 2, f"which was trained on {where['base_model_name_or_path']}, but the weights of {self.newest} are different")
            for dtype in ("float32", "bfloat16"):
                copy = self.folder / f"copy {number} {dtype}"
                self.assert_exit(keel("convert", base, copy, "--dtype", dtype), 0)
                self.generate(copy, "--adapter", own)
        # An adapter is not a model.
        for arguments in (("generate", "--model", adapter, "--prompt", "x"), ("convert", adapter, self.folder / "none"),
                          ("train", config, f"model.path={adapter}", "--explain")):
            refused = keel(*arguments)
            self.assert_exit(refused, 3, f"{adapter} is an adapter, not a model")
        # But the adapter trained on those weights can be applied to them.
        self.assertEqual(self.generate(adapter.parent, "--adapter", self.folder / "on it").stdout, self.generate(self.folder / "on it").stdout)

        headline = keel("eval", config, f"run.dir={self.folder / 'none'}", "run.threads=1", "eval.prompts=2", "--adapter", first).stdout
        self.assertIn(f"{self.newest} with the adapter {adapter} on ", headline)

        def evaluate(*arguments):
            result = keel("eval", config, f"run.dir={self.folder / 'none'}", "run.threads=1", "eval.prompts=20", "--json", *arguments)
            self.assert_exit(result, 0)
            return {key: value for key, value in json.loads(result.stdout).items() if key != "model"}

        merged = evaluate("--model", first)
        self.assertEqual(evaluate("--model", self.newest, "--adapter", adapter), merged)
        self.assertEqual(evaluate("--model", self.newest, f"lora.adapter={adapter}"), merged)
        self.assertEqual(evaluate(f"lora.adapter={first}"), merged)
        self.assertNotEqual(evaluate("--model", self.newest), merged)
        # Settings on the command line override those of the run.
        typed = keel("eval", config, f"run.dir={first}", "run.threads=1", "eval.prompts=20", f"model.path={self.older}")
        self.assertIn(f"{self.older} on ", typed.stdout)
        both = keel("eval", config, "--model", first, f"model.path={self.older}", "eval.prompts=20")
        self.assert_refused(both, 2, "model.path", "--model", "keep one of them")
        refused = keel("generate", "--model", self.newest, "--adapter", self.run, "--prompt", "<bos> 1 =")
        self.assert_exit(refused, 3, f"keel: {self.run} is a run without an adapter")

    def test_a_run_does_not_replace_what_it_starts_from(self):
        config = self.folder / "self.yaml"
        config.write_text(json.dumps({"model": str(self.run), "run": {"dir": str(self.run), "threads": 1}, "eval": {"prompts": 0},
                                      "train": {"steps": 1, "prompts_per_step": 2}, "rollout": {"samples_per_prompt": 4}}))
        before = support.tree(self.run)
        self.assert_refused(keel("train", config, "lora.rank=2", "--overwrite"), 2, "model.path", str(self.run), "keel convert")
        self.assert_refused(keel("train", config, "--overwrite"), 2, "model.path")
        link = self.folder / "link"
        link.symlink_to(self.run)
        for setting in (f"model.path={link}", f"run.dir={link}"):
            self.assert_refused(keel("train", config, setting, "--overwrite"), 2, "model.path", "keel convert")
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"prompt": "<bos> 1 =", "answer": "1"}) + "\n" for _ in range(4)))
        model = shutil.copytree(self.newest, self.folder / "model")
        (self.folder / "linked.jsonl").symlink_to(self.run / "samples.jsonl")
        for name in (self.run / "samples.jsonl", self.folder / "linked.jsonl", self.run / "samp*.json?"):
            for section in ("data.files", "data.eval_files"):
                settings = {"data.files": rows, section: name}
                words = [f'{key}=["{value}"]' for key, value in settings.items()]
                refused = keel("train", config, f"model.path={model}", *words, "rollout.max_new_tokens=4", "--overwrite")
                self.assert_refused(refused, 2, "samples.jsonl" if "*" in name.name else str(name), "that would be replaced", "copy the file")
        self.assertEqual(support.tree(self.run), before)

    def test_an_adapter_with_a_missing_base_is_reported(self):
        config = self.folder / "adapter.yaml"
        config.write_text(json.dumps({"model": str(self.run), "run": {"dir": str(self.folder / "second"), "threads": 1}, "eval": {"prompts": 0},
                                      "train": {"steps": 1, "prompts_per_step": 2}, "rollout": {"samples_per_prompt": 4},
                                      "lora": {"rank": 2}}))
        result = keel("train", config)
        self.assert_exit(result, 0)
        for part in (str(self.newest), "checkpoint.keep", "keel convert"):
            self.assertIn(part, result.stdout + result.stderr)
        moved = self.folder / "moved" / self.newest.name
        moved.parent.mkdir()
        self.newest.rename(moved)
        resume = ("train", self.folder / "second" / "config.yaml", "--resume", "train.steps=2")
        self.assert_refused(keel(*resume), 3, str(self.newest), "is gone", "model.path=FOLDER")
        self.assert_exit(keel(*resume, f"model.path={moved}"), 0)

    def test_a_run_without_a_valid_checkpoint_is_refused_by_name(self):
        self.damage_newest()
        flip(self.older / "optimizer.safetensors")
        result = keel("generate", "--model", self.run, "--prompt", "<bos> 1 =")
        self.assert_refused(result, 3, str(self.run), "without a valid checkpoint", "optimizer.safetensors")
        shutil.rmtree(self.run / "checkpoints")
        result = keel("generate", "--model", self.run, "--prompt", "<bos> 1 =")
        self.assert_refused(result, 3, str(self.run), "without a valid checkpoint")


if __name__ == "__main__":
    support.main()
