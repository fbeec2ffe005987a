"""A GRPOConfig that TRL saves with all settings is imported; unsupported settings with the default of TRL give no warning."""

import json
import os
import pathlib
import subprocess
import tempfile

import yaml

from packages import use

use("trl")
from trl.trainer.grpo_config import GRPOConfig  # noqa: E402

KEEL = os.environ["KEEL_BINARY"]
ON_CPU = {"use_cpu": True, "bf16": False}  # otherwise TRL requires a GPU


def imported(config):
    """Imports what TRL prints, as the error about Python scripts recommends. Returns the settings and the messages."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder) / "recipe.json"
        recipe.write_text(config.to_json_string())
        result = subprocess.run([KEEL, "import", str(recipe), "model_name_or_path=model", "dataset_name=rows.jsonl", "reward_funcs=accuracy_reward"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 0, result.stderr
    return yaml.safe_load(result.stdout), result.stderr


def expect(got, want, what):
    assert got == want, f"{what}: got {got}, want {want}"


def check_defaults():
    config = GRPOConfig(output_dir="runs/trl", **ON_CPU)
    settings, messages = imported(config)
    for section, key, want in (("run", "dir", config.output_dir), ("run", "seed", config.seed),
                               ("train", "data_epochs", config.num_train_epochs), ("train", "recompute_activations", config.gradient_checkpointing),
                               ("optimizer", "lr", config.learning_rate),
                               ("optimizer", "schedule", "linear"), ("rollout", "samples_per_prompt", config.num_generations),
                               ("rollout", "max_new_tokens", config.max_completion_length), ("objective", "method", "dapo"),
                               ("train", "sequences_per_update", config.per_device_train_batch_size),
                               ("train", "prompts_per_step", config.generation_batch_size // config.num_generations)):
        expect(type(want)(settings[section][key]), want, f"{section}.{key}")  # YAML 1.1 parses 1e-06 as a string
    for section, key in (("train", "steps"), ("checkpoint", "keep"), ("eval", "samples"), ("reward", "weights"),
                         ("objective", "parameters")):
        expect(key in settings.get(section, {}), False, f"{section}.{key} is set")
    expect("save_total_limit" in messages, True, "a message says that not all checkpoints are kept")


def check_losses():
    methods = {"grpo": "grpo", "bnpo": "ppo", "dr_grpo": "dr_grpo", "luspo": "ppo", "cispo": "cispo", "sapo": "sapo", "vespo": "vespo"}
    for loss, method in methods.items():
        config = GRPOConfig(output_dir="runs/trl", loss_type=loss, epsilon_high=5.0 if loss == "cispo" else None, **ON_CPU)
        expect(imported(config)[0]["objective"]["method"], method, loss)


def check_batches_and_the_reference():
    config = GRPOConfig(output_dir="runs/trl", num_generations=4, gradient_accumulation_steps=2, steps_per_generation=6, beta=0.04, **ON_CPU)
    settings, messages = imported(config)
    expect((settings["train"]["prompts_per_step"], settings["train"]["sequences_per_update"]), (8 * 6 // 4, 8 * 2), "batches")
    expect("use_bias_correction_kl" in messages, True, "a message says that the KL correction is not supported")


def check_words_in_a_text():
    """TRL also accepts a mapping as a JSON string, and converts its strings to numbers and booleans."""
    text = '{"enable_thinking": "False", "style": "off", "n": "007", "share": "0.50", "below": "-3", "in": {"on": "TRUE", "list": ["1"]}, "x": "1.2.3"}'
    meant = GRPOConfig(output_dir="runs/trl", chat_template_kwargs=text, **ON_CPU).chat_template_kwargs
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder) / "recipe.yaml"
        recipe.write_text(yaml.safe_dump({"GRPOConfig": {"chat_template_kwargs": text}, "dataset_name": "rows.jsonl"}))
        for arguments in ([str(recipe)], ["--num_generations", "8", "--dataset_name", "rows.jsonl", "--chat_template_kwargs", text]):
            result = subprocess.run([KEEL, "import", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert result.returncode == 0, result.stderr
            words = dict(word.split("=", 1) for word in yaml.safe_load(result.stdout)["data"]["chat_template_kwargs"])
            expect({name: json.loads(word) for name, word in words.items()}, meant, arguments[0])


if __name__ == "__main__":
    check_words_in_a_text()
    check_defaults()
    check_losses()
    check_batches_and_the_reference()
    print("ok")
