"""The TRL half of the benchmark: one GRPOTrainer that makes one training step for every line "step" it reads.

Prints "ready {facts}" after a first, unmeasured step, then one JSON line per step. Ends when its input ends.
`--set key=value` overrides a GRPOConfig field (value is JSON), which is how README.md's table of settings was made.
"""

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time

# Standard output is for the protocol; libraries print to standard error.
PROTOCOL = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
# Offline: a random model needs no downloads.
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import accelerate  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from datasets import Dataset  # noqa: E402

VOCABULARY = 54
PROMPTS, SAMPLES, PROMPT_TOKENS, NEW_TOKENS = 8, 8, 16, 40
COMPLETION_TOKENS = PROMPTS * SAMPLES * NEW_TOKENS
# Enough prompts to avoid the end of an epoch, which costs the peer extra time.
DATASET_PROMPTS = 8192


def make_model(attention: str) -> transformers.Qwen2ForCausalLM:
    """The fixed 3.2 M parameter model: Qwen2's shape, random weights, float32."""
    config = transformers.Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        intermediate_size=768,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        attn_implementation=attention,
    )
    torch.manual_seed(0)
    return transformers.Qwen2ForCausalLM(config).to(torch.float32)


def make_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One word per id. EOS is an id that the model has no logit for, so it can never be sampled: no completion ends
    early, and no logits processor is needed to forbid it (one would cost the peer time)."""
    words = {f"t{i}": i for i in range(VOCABULARY)} | {"<eos>": VOCABULARY}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="t0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>")


def make_dataset() -> Dataset:
    rng = random.Random(0)
    rows = [" ".join(f"t{rng.randrange(VOCABULARY)}" for _ in range(PROMPT_TOKENS)) for _ in range(DATASET_PROMPTS)]
    return Dataset.from_dict({"prompt": rows})


def make_config(overrides: dict, folder: str) -> trl.GRPOConfig:
    """TRL's defaults, apart from the fixed workload and the settings that README.md found fastest on a CPU."""
    settings = dict(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        # All 64 sequences in one forward and backward, without activation checkpointing.
        per_device_train_batch_size=PROMPTS * SAMPLES,
        gradient_accumulation_steps=1,
        gradient_checkpointing=False,
        num_generations=SAMPLES,
        max_completion_length=NEW_TOKENS,
        num_iterations=1,
        beta=0.0,
        optim="adamw_torch_fused",
        learning_rate=1e-5,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        max_steps=DATASET_PROMPTS // PROMPTS,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=0,
    )
    return trl.GRPOConfig(**(settings | overrides))


class Stepper(transformers.TrainerCallback):
    """Holds the trainer at the end of each step until the next "step" arrives, and measures from there to the next end:
    everything the trainer's loop does, fetching the batch included, falls inside some step."""

    def __init__(self, facts: dict):
        self.facts = facts
        self.started = self.scored = 0.0
        self.completion_tokens = 0
        self.steps = 0

    def reward(self, completion_ids: list[list[int]], **_) -> list[float]:
        """The trivial reward, the fraction of even token ids. A rollout ends with it, so it stops that part's clock."""
        self.completion_tokens = sum(len(ids) for ids in completion_ids)
        rewards = [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]
        self.scored = time.perf_counter()
        return rewards

    def on_step_end(self, args, state, control, **_):
        ended = time.perf_counter()
        if self.completion_tokens != COMPLETION_TOKENS:
            raise SystemExit(f"a step sampled {self.completion_tokens} tokens; the workload is {COMPLETION_TOKENS}")
        if self.steps == 0:
            print("ready", json.dumps(self.facts), file=PROTOCOL)
        else:
            result = {
                "seconds": ended - self.started,
                "rollout_seconds": self.scored - self.started,
                "train_seconds": ended - self.scored,
                "completion_tokens": self.completion_tokens,
            }
            print(json.dumps(result), file=PROTOCOL)
        self.steps += 1
        line = sys.stdin.readline()
        if line.strip() == "step":
            self.started = time.perf_counter()
        elif not line:
            control.should_training_stop = True
        else:
            raise SystemExit(f'unknown request {line!r}; the only one is "step"')
        return control


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="override a GRPOConfig field")
    parser.add_argument("--attention", default="sdpa", help="attention implementation of the model")
    options = parser.parse_args()
    overrides = {key: json.loads(value) for key, _, value in (item.partition("=") for item in options.set)}

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    transformers.logging.set_verbosity_error()
    model = make_model(options.attention)
    facts = {
        "versions": {m.__name__: m.__version__ for m in (trl, transformers, accelerate, torch)}
        | {"python": platform.python_version()},
        "parameters": sum(p.numel() for p in model.parameters()),
        "threads": torch.get_num_threads(),
        "overrides": overrides,
    }
    stepper = Stepper(facts)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=stepper.reward,
            args=make_config(overrides, folder),
            train_dataset=make_dataset(),
            processing_class=make_tokenizer(),
            callbacks=[stepper],
        )
        trainer.train()


if __name__ == "__main__":
    main()
