"""Keel imports the configuration that Hydra saves for a verl run (.hydra/config.yaml) and the output of `--cfg job --resolve`
with the same meaning. verl is not run: Hydra composes its files."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

from packages import folder_of, use

use("verl")
CONFIGURATION = pathlib.Path(importlib.util.find_spec("verl").origin).parent / "trainer" / "config"
KEEL = os.environ["KEEL_BINARY"]
OURS = ["algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.n=4", "data.train_files=rows.parquet", "data.val_files=rows.parquet",
        "actor_rollout_ref.model.path=model", "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8"]
PROGRAM = f"""
import hydra
@hydra.main(config_path={str(CONFIGURATION)!r}, config_name="ppo_trainer", version_base=None)
def main(config): pass
main()
"""


def compose(folder, *words):
    """Returns the saved and the printed configuration of Hydra for these overrides, as files."""
    call = [sys.executable, "-c", PROGRAM, *words]
    environment = {**os.environ, "PYTHONPATH": str(folder_of("verl"))}
    subprocess.run([*call, "hydra.run.dir=job"], cwd=folder, env=environment, check=True)
    resolved = pathlib.Path(folder) / "resolved.yaml"
    resolved.write_text(subprocess.run([*call, "--cfg", "job", "--resolve"], cwd=folder, env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout)
    return pathlib.Path(folder) / "job" / ".hydra" / "config.yaml", resolved


def imported(file, *words):
    return subprocess.run([KEEL, "import", str(file), *words], capture_output=True, text=True)


def settings_of(result):
    assert result.returncode == 0, result.stderr
    return yaml.safe_load(result.stdout)


def expect(got, want, what):
    assert got == want, f"{what}: got {got}, want {want}"


def check_defaults(kept, resolved):
    theirs = yaml.safe_load(kept.read_text())
    actor = theirs["actor_rollout_ref"]["actor"]
    expect(theirs["model_engine"], "dp", "verl's engine")
    assert "${" in kept.read_text() and "${" not in resolved.read_text()
    settings = settings_of(imported(kept))
    expect(settings_of(imported(resolved)), settings, "resolved")
    for section, key, want in (("train", "prompts_per_step", theirs["data"]["train_batch_size"]),
                               ("train", "sequences_per_update", 4 * actor["ppo_mini_batch_size"]), ("train", "epochs", actor["ppo_epochs"]),
                               ("train", "data_epochs", theirs["trainer"]["total_epochs"]), ("objective", "method", "ppo"),
                               ("objective", "delta_low", actor["clip_ratio_low"]), ("objective", "delta_high", actor["clip_ratio_high"]),
                               ("objective", "parameters", [f"dual={actor['clip_ratio_c']}"]), ("objective", "aggregation", "token_mean"),
                               ("optimizer", "weight_decay", actor["optim"]["weight_decay"]), ("optimizer", "max_grad_norm", actor["grad_clip"]),
                               ("optimizer", "beta2", actor["optim"]["betas"][1]), ("run", "precision", "bf16"),
                               ("run", "dir", "checkpoints/verl_examples/gsm8k"), ("rollout", "samples_per_prompt", 4)):
        expect(settings[section][key], want, f"{section}.{key}")
    for section, key in (("critic", "body"), ("lora", "rank"), ("reference", "kl_coefficient"), ("reference", "kl_in_reward")):
        expect(settings.get(section, {}).get(key), None, f"{section}.{key}")
    # The overrides alone mean the same, except for settings that equal the defaults of Keel, and run.dir.
    from_words = settings_of(imported(*OURS))
    for section, keys in from_words.items():
        for key, value in keys.items():
            expect(settings[section][key], value, f"{section}.{key} of words")


def check_what_is_on(kept):
    """Enabled features that are not supported are errors."""
    for setting in ("actor_rollout_ref.actor.qat.enable=true", "actor_rollout_ref.model.lora.rank=8", "distillation.enabled=true",
                    "trainer.v1.trainer_mode=separate_async", "reward.reward_model.enable=true", "skip.rollout.enable=true",
                    "actor_rollout_ref.actor.optim.zero_indexed_step=false", "reward.sandbox_fusion.url=http://a"):
        result = imported(kept, setting)
        expect(result.returncode, 2, setting)
        assert setting.split("=")[0] in result.stderr, result.stderr


def check_with_a_critic(kept):
    """The critic of verl has the settings of the policy, except for model, rate and clip."""
    gae = ("algorithm.adv_estimator=gae", "critic.model.path=model")
    theirs, settings = yaml.safe_load(kept.read_text()), settings_of(imported(kept, *gae))
    for section, key, want in (("objective", "method", "ppo_gae"), ("objective", "advantage", "gae"), ("critic", "body", "separate"),
                               ("critic", "lr", theirs["critic"]["optim"]["lr"]), ("critic", "value_clip", theirs["critic"]["cliprange_value"]),
                               ("critic", "gamma", theirs["algorithm"]["gamma"]), ("critic", "lambda", theirs["algorithm"]["lam"])):
        expect(type(want)(settings[section][key]), want, f"{section}.{key}")  # YAML 1.1 parses 1e-05 as a string
    for setting in ("critic.model.path=another", "critic.optim.weight_decay=0.5", "critic.ppo_epochs=2"):
        other = imported(kept, *gae, setting)
        expect(other.returncode, 2, setting)
        assert setting.split("=")[0] in other.stderr, other.stderr


def check_that_all_notes_are_printed(kept):
    """The output gives the number of notes that the configuration lists as comments."""
    result = imported(kept)
    assert len(result.stderr) < 2000 and "keys" in result.stderr, result.stderr
    assert "global_profiler" in result.stdout, result.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as job:
        files = compose(job, *OURS)
        check_defaults(*files)
        check_what_is_on(files[0])
        check_with_a_critic(files[0])
        check_that_all_notes_are_printed(files[0])
    print("ok")
