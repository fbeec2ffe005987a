"""The configuration that verl puts together itself, with all its settings (Hydra keeps that of every run), is imported: what
has verl's own default and is not read is no obstacle, and what is read means what verl's file says."""

import importlib.util
import os
import pathlib
import re
import subprocess
import tempfile

import yaml

from packages import use

use("verl")
CONFIGURATION = pathlib.Path(importlib.util.find_spec("verl").origin).parent / "trainer" / "config" / "_generated_ppo_trainer.yaml"

KEEL = os.environ["KEEL_BINARY"]
OURS = ["algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.n=4", "data.train_files=rows.parquet", "data.val_files=rows.parquet",
        "actor_rollout_ref.model.path=model"]


def imported(*settings):
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder) / "config.yaml"
        recipe.write_bytes(CONFIGURATION.read_bytes())
        result = subprocess.run([KEEL, "import", str(recipe), *OURS, *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return result


def expect(got, want, what):
    assert got == want, f"{what}: got {got}, want {want}"


def check_defaults():
    theirs = yaml.safe_load(CONFIGURATION.read_text())
    actor = theirs["actor_rollout_ref"]["actor"]
    result = imported()
    assert result.returncode == 0, result.stderr
    settings = yaml.safe_load(result.stdout)
    for section, key, want in (("train", "prompts_per_step", theirs["data"]["train_batch_size"]),
                               ("train", "sequences_per_update", 4 * actor["ppo_mini_batch_size"]), ("train", "epochs", actor["ppo_epochs"]),
                               ("train", "data_epochs", theirs["trainer"]["total_epochs"]), ("objective", "method", "ppo"),
                               ("objective", "delta_low", actor["clip_ratio_low"]), ("objective", "delta_high", actor["clip_ratio_high"]),
                               ("objective", "parameters", [f"dual={actor['clip_ratio_c']}"]), ("objective", "aggregation", "token_mean"),
                               ("optimizer", "weight_decay", actor["optim"]["weight_decay"]), ("optimizer", "max_grad_norm", actor["grad_clip"]),
                               ("optimizer", "beta2", actor["optim"]["betas"][1]), ("run", "precision", "bf16"),
                               ("run", "dir", "checkpoints/verl_examples/gsm8k"), ("rollout", "samples_per_prompt", 4), ("lora", "rank", 0)):
        expect(settings[section][key], want, f"{section}.{key}")
    expect("kl_coefficient" in settings["reference"], False, "a KL is set")
    expect("critic" in settings, False, "a critic is set")


def check_what_is_on():
    """What such a configuration switches on is refused as anywhere."""
    for setting in ("actor_rollout_ref.actor.qat.enable=true", "actor_rollout_ref.model.lora.rank=8", "distillation.enabled=true",
                    "trainer.v1.trainer_mode=separate_async", "reward.reward_model.enable=true", "skip.rollout.enable=true",
                    "actor_rollout_ref.actor.optim.zero_indexed_step=false", "reward.sandbox_fusion.url=http://a"):
        result = imported(setting)
        expect(result.returncode, 2, setting)
        assert setting.split("=")[0] in result.stderr, result.stderr


def check_with_a_critic():
    """verl's critic has what the policy has, but for its model, its rate and its clip."""
    result = imported("algorithm.adv_estimator=gae", "actor_rollout_ref.rollout.n=1", "critic.model.path=model")
    assert result.returncode == 0, result.stderr
    theirs, settings = yaml.safe_load(CONFIGURATION.read_text()), yaml.safe_load(result.stdout)
    for section, key, want in (("objective", "method", "ppo_gae"), ("objective", "advantage", "gae"), ("critic", "body", "separate"),
                               ("critic", "lr", theirs["critic"]["optim"]["lr"]), ("critic", "value_clip", theirs["critic"]["cliprange_value"]),
                               ("critic", "gamma", theirs["algorithm"]["gamma"]), ("critic", "lambda", theirs["algorithm"]["lam"])):
        expect(type(want)(settings[section][key]), want, f"{section}.{key}")  # YAML 1.1 takes 1e-05 for a text
    for setting in ("critic.model.path=another", "critic.optim.weight_decay=0.5", "critic.ppo_epochs=2"):
        other = imported("algorithm.adv_estimator=gae", "actor_rollout_ref.rollout.n=1", "critic.model.path=model", setting)
        expect(other.returncode, 2, setting)
        assert setting.split("=")[0] in other.stderr, other.stderr


def check_what_is_told():
    """The screen counts by section what the comments of the configuration name one by one."""
    result = imported()
    names = [name for line in result.stdout.split("# left out:\n")[1].splitlines() if line.startswith("#   ")
             for name in line[4:].split(": ")[0].split(", ")]
    assert len(names) > 300 and "critic.model.use_shm" in names, names
    assert len(result.stderr) < 8000 and "critic.model.use_shm" not in result.stderr, result.stderr
    counts = [int(count) for count in re.findall(r"^  (\d+) names", result.stderr, re.M)]
    assert counts and sum(counts) > 300, result.stderr
    for line in re.findall(r"^  (\d+) names \((.*?)\)", result.stderr, re.M):
        expect(sum(int(part.split()[-1]) for part in line[1].split(", ")), int(line[0]), line[1])


if __name__ == "__main__":
    check_with_a_critic()
    check_what_is_told()
    check_defaults()
    check_what_is_on()
    print("ok")
