"""The defaults of verl and TRL, read from the sources of the packages, match `keel train --explain` of imported
configurations. The packages are not imported."""

import ast
import json
import os
import pathlib
import re
import subprocess
import tempfile

import yaml

from packages import folder_of

KEEL = os.environ["KEEL_BINARY"]
NO_DATA = ("data.files=[]", "train.steps=1")  # a built-in task
NO_MODEL = (*NO_DATA, "model.path=", "data.max_prompt_tokens=0")


def explained(values, *settings):
    """Returns method, advantage, aggregation and parameters of a configuration."""
    with tempfile.TemporaryDirectory() as folder:
        recipe, configuration = pathlib.Path(folder) / "recipe.json", pathlib.Path(folder) / "keel.yaml"
        recipe.write_text(json.dumps(values))
        subprocess.run([KEEL, "import", str(recipe), *settings, "-o", str(configuration)], check=True, stderr=subprocess.PIPE)
        out = subprocess.run([KEEL, "train", str(configuration), "--explain"], check=True, stdout=subprocess.PIPE, text=True).stdout
    method = re.search(r"^  method +(\w+): .*\n +(.*)$", out, re.M)
    advantage = re.search(r"^  advantage +(\w+); aggregation (\w+)", out, re.M)
    parameters = dict(pair.split(" = ") for pair in method[2].split(", ")) if " = " in method[2] else {}
    return method[1], advantage[1], advantage[2], parameters


def verl_defaults():
    folder = folder_of("verl") / "verl" / "trainer" / "config"
    actor = yaml.safe_load((folder / "actor" / "actor.yaml").read_text())
    algorithm = yaml.safe_load((folder / "ppo_trainer.yaml").read_text())["algorithm"]
    critic = yaml.safe_load((folder / "critic" / "critic.yaml").read_text())
    return actor, algorithm, critic


def trl_defaults():
    """Returns the defaults of the fields of GRPOConfig, from its source."""
    tree = ast.parse((folder_of("trl") / "trl" / "trainer" / "grpo_config.py").read_text())
    (config,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "GRPOConfig"]
    defaults = {}
    for field in config.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.value, ast.Call):
            for keyword in field.value.keywords:
                if keyword.arg == "default":
                    try:
                        defaults[field.target.id] = ast.literal_eval(keyword.value)
                    except ValueError:
                        pass
    return defaults


def expect(got, want, what):
    assert got == want, f"{what}: got {got}, want {want}"


def check_verl():
    actor, algorithm, critic = verl_defaults()
    expect(actor["policy_loss"]["loss_mode"], "vanilla", "verl's loss")
    expect((algorithm["adv_estimator"], algorithm["norm_adv_by_std_in_grpo"]), ("gae", True), "verl's advantages")
    rollout = {"n": 4}
    method, advantage, aggregation, numbers = explained({"algorithm": {"adv_estimator": "grpo"}, "actor_rollout_ref": {"rollout": rollout}}, *NO_MODEL)
    expect((method, advantage), ("ppo", "grpo"), "vanilla")
    expect(aggregation, actor["loss_agg_mode"].replace("-", "_"), "verl's average")
    for name, default in (("low", actor["clip_ratio_low"]), ("high", actor["clip_ratio_high"]), ("dual", actor["clip_ratio_c"])):
        expect(float(numbers[name]), default, f"vanilla's {name}")
    grpo = {"adv_estimator": "grpo"}
    for mode, names in (("dppo_tv", {"low": "clip_ratio_low", "high": "clip_ratio_high", "ratio_cap": "clip_ratio_c"}),
                        ("gspo", {"low": "clip_ratio_low", "high": "clip_ratio_high"}),
                        ("cispo", {"low": "clip_ratio_low", "high": "clip_ratio_high"}),
                        ("sapo", {"tau_positive": "tau_pos", "tau_negative": "tau_neg"})):
        found = explained({"algorithm": grpo, "actor_rollout_ref": {"rollout": rollout, "actor": {"policy_loss": {"loss_mode": mode}}}}, *NO_MODEL)
        expect(found[0], mode, "the method")
        for ours, theirs in names.items():
            expect(float(found[3][ours]), actor[theirs], f"{mode}'s {ours}")
    method, advantage, _, _ = explained({"actor_rollout_ref": {"rollout": rollout, "actor": {"clip_ratio_c": actor["clip_ratio_c"]}}}, *NO_MODEL)
    expect((method, advantage), ("ppo_gae", algorithm["adv_estimator"]), "verl's PPO")
    sampling = yaml.safe_load((folder_of("verl") / "verl" / "trainer" / "config" / "rollout" / "rollout.yaml").read_text())
    expect((sampling["n"], sampling["val_kwargs"]["temperature"], sampling["val_kwargs"]["do_sample"]), (1, 0, False), "verl's sampling")
    expect((actor["optim"]["weight_decay"], actor["ppo_mini_batch_size"]), (0.01, 256), "verl's update")
    print(f"critic: lambda {algorithm['lam']}, gamma {algorithm['gamma']}, value clip {critic['cliprange_value']}")
    expect((algorithm["gamma"], algorithm["lam"], critic["cliprange_value"]), (1.0, 1.0, 0.5), "verl's critic")


def check_trl():
    defaults = trl_defaults()
    expect((defaults["loss_type"], defaults["scale_rewards"], defaults["importance_sampling_level"]), ("dapo", "group", "token"),
           "TRL's loss")
    expect((defaults["epsilon_high"], defaults["delta"], defaults["beta"]), (None, None, 0.0), "TRL's other bounds")
    method, advantage, aggregation, numbers = explained({"num_generations": 4}, *NO_DATA)
    expect((method, advantage, aggregation), ("dapo", "grpo", "token_mean"), "TRL's method")
    expect((float(numbers["low"]), float(numbers["high"]), numbers["dual"]), (defaults["epsilon"], defaults["epsilon"], "none"), "TRL's bounds")
    trainer = (folder_of("trl") / "trl" / "trainer" / "grpo_trainer.py").read_text()
    expect("loss = (per_token_loss * mask).sum(-1).mean()" in trainer, True, "luspo is the mean of sums over tokens")
    model = (folder_of("trl") / "trl" / "trainer" / "model_config.py").read_text()
    for name, default in (("use_peft: bool", "False"), ("lora_r: int", "16"), ("lora_alpha: int", "32"), ("lora_dropout: float", "0.05")):
        found = re.search(re.escape(name) + r" = field\(\s*default=([^,]+),", model)
        expect(found[1], default, name)
    for loss, names in (("sapo", {"tau_positive": "sapo_temperature_pos", "tau_negative": "sapo_temperature_neg"}),
                        ("vespo", {"k_positive": "vespo_k_pos", "lambda_positive": "vespo_lambda_pos", "k_negative": "vespo_k_neg",
                                   "lambda_negative": "vespo_lambda_neg"})):
        found = explained({"loss_type": loss, "num_generations": 4}, *NO_DATA)
        expect(found[0], loss, "the method")
        for ours, theirs in names.items():
            expect(float(found[3][ours]), defaults[theirs], f"{loss}'s {ours}")


if __name__ == "__main__":
    check_verl()
    check_trl()
    print("ok")
