"""TRL's side of bench/learning: trains the start model with GRPOTrainer on the rows that run.py wrote.

    trl_worker.py JOB.json     writes the trained folder, and RESULT.json with the end time and mean reward of each step
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import problems  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from datasets import Dataset  # noqa: E402


class StepClock(transformers.TrainerCallback):
    """Records the time at the end of each step, which has several updates."""

    def __init__(self, updates: int):
        self.updates = updates
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **_):
        if state.global_step % self.updates == 0:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.ends.append(time.time())


def make_config(job: dict, folder: str) -> trl.GRPOConfig:
    sequences = job["prompts_per_step"] * job["samples_per_prompt"] // job["updates"]
    on_cpu = job["device"] == "cpu"
    return trl.GRPOConfig(
        output_dir=folder,
        seed=job["seed"],
        use_cpu=on_cpu,
        bf16=not on_cpu,  # master weights are float32, as in Keel
        # All sequences of an update in one micro-batch without activation checkpointing: the fastest setting.
        per_device_train_batch_size=sequences,
        gradient_accumulation_steps=1,
        gradient_checkpointing=False,
        steps_per_generation=job["updates"],
        num_iterations=1,
        max_steps=job["steps"] * job["updates"],
        num_generations=job["samples_per_prompt"],
        max_completion_length=job["max_new_tokens"],
        temperature=1.0,
        shuffle_dataset=False,
        loss_type="grpo",
        epsilon=0.2,
        beta=0.0,
        learning_rate=job["lr"],
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        max_grad_norm=1.0,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=not on_cpu,
    )


def main() -> None:
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(job["threads"])
    start, trained = pathlib.Path(job["start"]), pathlib.Path(job["trained"])
    rows = [json.loads(line) for line in pathlib.Path(job["rows"]).read_text().splitlines()]
    reward = getattr(problems, job["reward"])
    means = []

    def recorded_reward(completions, **columns):
        rewards = reward(completions, **columns)
        means.append(sum(rewards) / len(rewards))
        return rewards

    clock = StepClock(job["updates"])
    with tempfile.TemporaryDirectory() as folder:
        trainer = trl.GRPOTrainer(
            model=transformers.AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32),
            processing_class=transformers.AutoTokenizer.from_pretrained(start, padding_side="left"),
            reward_funcs=recorded_reward,
            args=make_config(job, folder),
            train_dataset=Dataset.from_list(rows),
            callbacks=[clock],
        )
        trainer.train()
    # Tokenizer and chat template are those of the start.
    shutil.copytree(start, trained, ignore=shutil.ignore_patterns("*.safetensors*"), dirs_exist_ok=True)
    trainer.accelerator.unwrap_model(trainer.model).save_pretrained(trained)
    result = {
        "step_ends": clock.ends,
        "rewards": means,
        "allocated_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
    }
    pathlib.Path(job["result"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
