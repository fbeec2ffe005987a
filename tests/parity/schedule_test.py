"""The learning rate of every update matches the schedulers of transformers, stepped after each optimizer step as in Trainer
(and TRL), and stepped after the last update of a step as in verl 0.9.1."""

import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "cli"))
import support  # noqa: E402
from packages import skip  # noqa: E402

try:
    import torch
    from transformers import TrainingArguments, get_scheduler
except ImportError as missing:
    skip(missing)

LR, STEPS = 3e-5, 33
# Settings of Keel, scheduler of transformers, warm-up arguments.
CASES = [
    ({"schedule": "constant"}, ("constant", {}), 0),
    ({"schedule": "constant", "warmup_updates": 7}, ("constant_with_warmup", {}), 7),
    ({"schedule": "linear"}, ("linear", {}), 0),
    ({"schedule": "linear", "warmup_updates": 7}, ("linear", {}), 7),
    ({"schedule": "linear", "warmup_updates": 0.1}, ("linear", {}), 0.1),
    ({"schedule": "cosine"}, ("cosine", {}), 0),
    ({"schedule": "cosine", "warmup_updates": 0.31}, ("cosine", {}), 0.31),
    ({"schedule": "cosine", "warmup_updates": 5, "min_lr_ratio": 0.2}, ("cosine_with_min_lr", {"min_lr_rate": 0.2}), 5),
    ({"schedule": "cosine", "min_lr_ratio": 0.125}, ("cosine_with_min_lr", {"min_lr": LR / 8}), 0),
    ({"schedule": "cosine", "warmup_updates": 40}, ("cosine", {}), 40),  # longer than the run
]
# Like verl, with the warm-up in steps: int(ratio * steps) (workers/engine/fsdp/transformer_impl.py).
BY_STEPS = [
    ({"warmup_updates": 0.1}, ("constant_with_warmup", {}), int(0.1 * STEPS)),
    ({"schedule": "cosine", "warmup_updates": 10, "min_lr_ratio": 0.2}, ("cosine_with_min_lr", {"min_lr_rate": 0.2}), 5),
]


def theirs(name, arguments, warmup):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    with tempfile.TemporaryDirectory() as folder:
        warmup_steps = TrainingArguments(folder, warmup_steps=warmup, use_cpu=True).get_warmup_steps(STEPS)
    scheduler = get_scheduler(name, optimizer, warmup_steps, STEPS, scheduler_specific_kwargs=arguments)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def ours(options, sequences_per_update=0):
    """Returns the rate of the last update of each step; by default a step has one update."""
    with tempfile.TemporaryDirectory() as folder:
        result = support.train(pathlib.Path(folder) / "run", sft={"steps": 0, "noisy_steps": 0}, optimizer={"lr": LR, **options},
                               train={"steps": STEPS, "prompts_per_step": 1, "sequences_per_update": sequences_per_update, "shuffle": "rollouts"},
                               rollout={"samples_per_prompt": 2, "max_new_tokens": 2}, eval={"prompts": 0},
                               checkpoint={"every": 0}, record={"certificate_every": 0, "samples_per_step": 0})
        assert result.returncode == 0, result.stderr
        return [row["optimizer/lr"] for row in support.metrics(pathlib.Path(folder) / "run") if row["phase"] == "rl"]


def main():
    worst = 0.0
    per_step = [({"schedule_per": "step", **options}, *case) for options, *case in BY_STEPS]
    for options, (name, arguments), warmup in CASES + per_step:
        want, got = theirs(name, arguments, warmup), ours(options, 1 if "schedule_per" in options else 0)
        assert len(got) == STEPS, f"{options}: {len(got)} updates"
        for update, (mine, other) in enumerate(zip(got, want)):
            difference = abs(mine - other) / other if other else abs(mine)
            assert difference <= 1e-12, f"{options}: update {update} has {mine}, {name} has {other}"
            worst = max(worst, difference)
    print(f"{len(CASES + per_step)} schedules of {STEPS} updates, worst relative difference {worst:.1e}")


main()
