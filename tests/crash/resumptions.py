"""Runs that are stopped after any step and resumed: once, twice, or after the last step. All rows of metrics.jsonl and samples.jsonl,
and so the order of prompts and samples, and all weights and moments equal those of an uninterrupted run."""

import trials
from trials import require, support

STEPS = 6
SMALL = {"sft": {"steps": 2, "noisy_steps": 0}, "eval": {"prompts": 0}, "checkpoint": {"every": 2, "keep": 2}}
# Supervised steps after which rewards differ.
LEARNED = {"task": {"steps": 1, "modulus": 2}, "sft": {"steps": 60, "noisy_steps": 0, "lr": 0.01}}
# The parts of a run's state other than its weights, on the built-in task.
TASKS = {
    "dppo_tv": {},
    "moving thresholds and a reference": {"objective": {"parameters": ["target_kept=0.8"]},
                                          "reference": {"kl_coefficient": 0.05}, "optimizer": {"lr": 0.01}},
    "a moving KL in the rewards, moments of 8 bits, layers computed again": {
        "reference": {"kl_in_reward": 0.1, "kl_in_reward_target": 0.001, "kl_in_reward_horizon": 100},
        "train": {"mask_truncated": True, "recompute_activations": True},
        "reward": {"overlong_buffer": 10}, "optimizer": {"lr": 0.01, "moments": "8bit"}},
    "drpo, two passes over each batch": {"objective": {"method": "drpo"}, "train": {"epochs": 2}},
    "gradients of many small batches": {"train": {"tokens_per_batch": 40}},
    "a critic": {"objective": {"method": "ppo_gae"}, "critic": {"body": "separate"}},
    "top-K divergences and weights of 8 bits": {"objective": {"method": "dppo_topk_kl"}, "rollout": {"weights": "fp8"}},
    "a sampler one step behind": {"rollout": {"staleness": 1}, "optimizer": {"lr": 0.01}, **LEARNED},
    "an adapter, and a sampler one step behind": {"lora": {"rank": 2}, "rollout": {"staleness": 1}, "optimizer": {"lr": 0.01}},
    "groups dropped, and a sampler two steps behind":
        {"rollout": {"staleness": 2, "dynamic_sampling": True, "max_batches": 2}, "optimizer": {"lr": 0.01}, **LEARNED},
    "float16, whose loss scale has to follow": {"run": {"precision": "fp16"}, "objective": {"entropy_coefficient": -1000},
                                                "optimizer": {"lr": 0.01}},
    "a sampler of 8 bits throughout, with noise": {"rollout": {"weights": "fp8_full", "logit_noise": 0.5}},
}
# Numbers of data rows; a step takes 4: epochs that end with a step, just before or after the end of one, and two in one
# step.
ROWS = (8, 7, 9, 3)


def stops():
    """The steps after which a run of STEPS is stopped and resumed; the last is the end."""
    yield from ((step,) for step in range(STEPS + 1))
    yield from ((step, step + 1) for step in range(STEPS))
    yield (0, 2, 5)


def trial_of(name, arguments, whole, at):
    def end_and_resume(trial):
        run = trial.folder / "run"
        for i, steps in enumerate((*at, STEPS)):
            flags = ["--resume"] if i else []
            result = support.keel("train", *arguments, f"run.dir={run}", f"train.steps={steps}", *flags)
            require(result.returncode == 0, f"{name}, ended after {at}:", trials.output(result))
        try:
            trials.require_finished(run, whole)
        except AssertionError as error:
            raise AssertionError(f"{name}, ended after {at}: {error}") from None
        trial.seen[name] += 1
    return end_and_resume


def resumptions(folder, count):
    runs = {}
    for name, changes in TASKS.items():
        settings = support.settings(**{**SMALL, **changes})
        runs[name] = [support.QUICKSTART, *(text for text in settings if not text.startswith("train.steps="))]
    start = trials.unbroken(folder / "start", **{**SMALL, "train": {"steps": 0}})
    model = start / "checkpoints" / trials.newest(start)
    for rows in ROWS:
        (folder / f"{rows} rows").mkdir()
        runs[f"{rows} rows"] = [trials.own_configuration(folder / f"{rows} rows", model, rows)]
    places = trials.spread([(name, at) for name in runs for at in stops()], count)
    wholes = {name: folder / f"{name} whole" for name, _ in places}
    for name, whole in wholes.items():
        result = support.keel("train", *runs[name], f"run.dir={whole}", f"train.steps={STEPS}")
        require(result.returncode == 0, trials.output(result))
    return [trial_of(name, runs[name], wholes[name], at) for name, at in places]
