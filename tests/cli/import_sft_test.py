"""Recipes of TRL's SFTTrainer (tests/recipes/trl_sft_*), imported and trained for an update, and what is refused of them.

What each means is written down here by hand, from TRL 1.16.0 (sft_config.py, sft_trainer.py) and transformers; tests/parity/trl_sft_test.py
asks TRL itself."""

import json
import math
import pathlib

import own_rows
import support
from import_test import PAGE, RECIPES, read_settings
from own_rows import TALKS

# Behind the recipe; then what it means. TRL's defaults: three passes, batches of 8, linear, 1024 tokens, beta2 0.999, all tokens of
# conversations and texts and the completions of prompts.
MEANT = {
    "trl_sft_example.yaml": (["SFTConfig={}"], dict(files=["texts.jsonl"], lr=1e-4, schedule="cosine", batch=8, data_epochs=3, max_tokens=1024,
                                                   beta2=0.999, loss_on="completion", weight_decay=0, rank=0)),
    "trl_sft_lora.sh": ([], dict(files=["talks.jsonl"], lr=2e-4, schedule="linear", batch=2 * 2 * 8, data_epochs=1, eval_every=100, rank=32, alpha=16,
                                layers=["q_proj", "v_proj"], dropout=0.05, loss_on="completion", dir="runs/sft-lora")),
    "trl_sft_open_r1.yaml": ([], dict(files=["talks.jsonl"], lr=4e-5, schedule="cosine", min_lr_ratio=0.1, warmup_ratio=0.03, batch=4, data_epochs=5,
                                     max_tokens=512, max_grad_norm=0.2, precision="bf16", keep=1, seed=42, recompute=True)),
    "trl_sft_completions.json": ([], dict(files=["pairs.jsonl"], steps=3, data_epochs=None, batch=4, schedule="constant", warmup_updates=2,
                                         weight_decay=0.1, beta2=0.98, every=2, lr=2e-5, rank=4, alpha=8, layers=7, loss_on="completion")),
}


def meaning(config):
    lora, run = config["lora"], config["run"]
    return dict(config["sft"], files=[pathlib.Path(name).name for name in config["sft"]["files"]], rank=lora["rank"], alpha=lora["alpha"],
                layers=lora["target_modules"], dropout=lora["dropout"], dir=run["dir"], seed=run["seed"], precision=run["precision"],
                keep=config["checkpoint"]["keep"], every=config["checkpoint"]["every"], recompute=config["train"]["recompute_activations"])


class ImportSft(own_rows.Test):
    def setUp(self):
        super().setUp()
        self.write("talks.jsonl", [{"messages": talk} for talk in TALKS])
        self.write("texts.jsonl", [{"text": talk[0]["content"]} for talk in TALKS])
        self.write("pairs.jsonl", [{"prompt": talk[0]["content"], "completion": talk[1]["content"]} for talk in TALKS])

    def imported(self, *arguments):
        return support.keel("import", *arguments, "-o", self.folder / "keel.yaml", "--overwrite", cwd=str(self.folder))

    def refused(self, *arguments):
        """By the import."""
        result = self.imported(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        return result.stderr

    def test_every_recipe_means_what_its_author_meant_and_trains(self):
        self.assertEqual({path.name for path in RECIPES.glob("trl_sft_*")}, set(MEANT))
        for name, (behind, meant) in MEANT.items():
            with self.subTest(recipe=name):
                result = self.imported(RECIPES / name, *behind)
                self.assert_exit(result, 0)
                self.assertIn("start it with keel sft", result.stderr)
                run = self.folder / name.partition(".")[0]
                for command in ("sft", "train"):  # either starts it
                    trained = support.keel(command, "keel.yaml", f"run.dir={run}", "model.random_weights=true", "run.threads=1", "run.precision=float32",
                                           "sft.steps=1", "--overwrite", cwd=str(self.folder))
                    self.assert_exit(trained, 0)
                    self.assertEqual([row["phase"] for row in support.metrics(run)], ["sft"])
                settings, imported = read_settings(run / "config.yaml"), read_settings(self.folder / "keel.yaml")
                for section, key in (("run", "dir"), ("run", "precision"), ("sft", "steps"), ("sft", "data_epochs")):  # typed for the test
                    settings[section][key] = imported[section].get(key) if section in imported else None
                found = {key: value for key, value in meaning(settings).items() if key in meant}
                if meant.get("layers") == 7:  # all-linear
                    found["layers"] = len(found["layers"])
                self.assertEqual(found, meant)

    def test_the_page_has_the_same_table(self):
        page = PAGE.read_text(encoding="utf-8")
        for name, (_, meant) in MEANT.items():
            row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` "))
            length = f"{meant['steps']} updates" if "steps" in meant else f"{meant['data_epochs']} pass"
            self.assertIn(f"| {length}", row)
            self.assertIn(meant["schedule"], row)
            self.assertEqual(meant["batch"], math.prod(map(int, row.split("|")[3].split("x"))))

    def test_tells_what_trl_does_otherwise(self):
        told = self.imported(RECIPES / "trl_sft_lora.sh").stderr
        for sentence in ("TRL cuts rows at 1024 tokens, Keel leaves longer ones out", "all tokens are learned, the user's words too",
                         "sft.eval_every does nothing", "test split, which one file does not have", "push_to_hub: nothing is uploaded"):
            self.assertIn(sentence, told)
        self.assertNotIn("num_processes is taken for 1", told)
        told = self.imported(RECIPES / "trl_sft_open_r1.yaml", "assistant_only_loss=true", "sft.held_out=0.2", "eval_strategy=steps").stderr
        for sentence in ("between {% generation %} marks", "num_processes is taken for 1", "with an update of the rows that are left",
                         "passes over the data are not counted here", "wandb: every step is in metrics.jsonl"):
            self.assertIn(sentence, told)
        self.assertNotIn("test split", told)

    def test_which_trainer_it_is(self):
        example = RECIPES / "trl_sft_example.yaml"
        self.assertIn("it could be a recipe of `trl sft` or of `trl grpo`; write SFTConfig={} or GRPOConfig={} behind it", self.refused(example))
        self.assertIn("which does not have num_generations", self.refused(example, "packing=false", "num_generations=4"))
        self.assertIn("arguments of both SFTConfig and GRPOConfig", self.refused(example, "SFTConfig={}", "GRPOConfig={}"))
        sections = {"SFTConfig": {"learning_rate": 1e-5, "dataset_name": "texts.jsonl"}, "GRPOConfig": {"max_steps": 5, "dataset_name": "texts.jsonl"}}
        recipe = self.folder / "sections.json"
        recipe.write_text(json.dumps({"SFTConfig": {"learning_rate": 1e-5}, "GRPOConfig": {"max_steps": 5}}))
        self.assertIn("arguments of both SFTConfig and GRPOConfig", self.refused(recipe))
        for name, command in (("SFTConfig", "keel sft"), ("GRPOConfig", "keel train")):
            recipe.write_text(json.dumps({name: sections[name], "ModelConfig": {"model_name_or_path": "model"}}))
            self.assertIn(f"start it with {command}", self.imported(recipe).stderr)
        grpo = self.imported(example, "GRPOConfig={}")
        self.assert_exit(grpo, 0)
        self.assertIn("start it with keel train", grpo.stderr)
        script = self.folder / "run.sh"
        script.write_text("trl sft --model_name_or_path model --dataset_name talks.jsonl --learning_rate 1e-4\n")
        self.assertIn("start it with keel sft", self.imported(script).stderr)
        for command in ("train", "sft"):
            result = support.keel(command, RECIPES / "trl_sft_open_r1.yaml", cwd=str(self.folder))
            self.assertEqual(result.returncode, 2)
            self.assertIn("keel import RECIPE -o keel.yaml", result.stderr)

    def test_what_would_train_something_else_is_refused(self):
        recipe = RECIPES / "trl_sft_open_r1.yaml"
        for settings, sentence in [
                (["packing=true"], "an update of TRL's has 4 blocks of max_length 512 tokens"),
                (["packing=true", "sft.batch=9", "packing_strategy=wrapped"], "rows are neither split nor joined"),
                (["eos_token=<|im_end|>"], "eos_token_id"),
                (["assistant_only_loss=true", "completion_only_loss=false"], "the assistant's words in a prompt"),
                (["optim=adafactor"], "supervised updates are AdamW's"),
                (["loss_type=dft"], "negative log-likelihood"),
                (["load_best_model_at_end=true"], "none is the best"),
                (["neftune_noise_alpha=5"], "something else would be trained"),
                (["adam_beta1=0.8"], "beta1 is 0.9"),
                (["chat_template_path=x.jinja"], "something else would be trained"),
                (["dataset_kwargs={\"skip_prepare_dataset\": true}"], "rows are read as they stand"),
                (["train_sampling_strategy=group_by_length"], "wanted random or sequential"),
                (["dataset_name=trl-lib/Capybara"], "Keel reads files"),
                (["packng=true"], "did you mean packing?"),
                (["lr_scheduler_type=polynomial"], "wanted constant, linear or cosine")]:
            with self.subTest(settings=settings):
                self.assertIn(sentence, self.refused(recipe, *settings))
        self.assertIn("names its rows", self.refused("max_length=5", "learning_rate=1e-4"))

    def test_settings_behind_the_recipe_win(self):
        recipe = RECIPES / "trl_sft_open_r1.yaml"
        for settings, meant in [
                (["packing=true", "sft.batch=9"], dict(batch=9)),
                (["max_steps=20"], dict(steps=20, data_epochs=None)),
                (["num_train_epochs=2"], dict(data_epochs=2)),
                (["num_processes=4"], dict(batch=16)),
                (["max_length=null"], dict(max_tokens=0)),
                (["completion_only_loss=false"], dict(loss_on="all")),
                (["assistant_only_loss=true"], dict(loss_on="assistant")),
                (["dataset_text_field=story"], dict(text_key="story")),
                (["~dataset_name", "datasets=[{\"path\": \"json\", \"data_files\": [\"a.jsonl\", \"b.jsonl\"]}]", "test_split_size=0.1"],
                 dict(files=["a.jsonl", "b.jsonl"], held_out=0.1))]:
            with self.subTest(settings=settings):
                self.assert_exit(self.imported(recipe, *settings), 0)
                found = read_settings(self.folder / "keel.yaml")["sft"]
                self.assertEqual({key: found.get(key) for key in meant}, meant)


if __name__ == "__main__":
    support.main()
