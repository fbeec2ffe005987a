"""transformers loads a folder saved by Keel with the same logits, greedy continuations and tokens, and the folder of a
critic with the same values."""

import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForTokenClassification, AutoTokenizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from packages import count  # noqa: E402

torch.set_num_threads(1)  # the models are small, and other tests run in parallel
binary = os.environ["KEEL_BINARY"]
shapes = [
    [],  # as in the quickstart
    ["model.heads=8", "model.layers=3"],
    ["model.hidden_size=60", "model.heads=3"],
]


def check(folder, samples):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token_id is not None and model.config.eos_token_id == tokenizer.eos_token_id
    worst = 0.0
    for sample in samples:
        prompt = tokenizer(sample["prompt"], add_special_tokens=False).input_ids
        completion = tokenizer.convert_tokens_to_ids(sample["tokens"])
        assert completion == sample["token_ids"]
        assert tokenizer.unk_token_id is None or tokenizer.unk_token_id not in completion
        with torch.no_grad():
            logits = model(torch.tensor([prompt + completion])).logits[0]
        logp = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
        ours = torch.tensor(sample["behavior_logp"])
        theirs = logp[torch.arange(len(completion)), torch.tensor(completion)]
        worst = max(worst, (ours - theirs).abs().max().item())
        # Evaluated at temperature 0, so every token of the completion must be the model's first choice.
        assert completion == logits[len(prompt) - 1 : -1].argmax(-1).tolist(), sample
        generated = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
            max_new_tokens=len(completion), pad_token_id=tokenizer.pad_token_id)[0, len(prompt):].tolist()
        assert generated == completion, (generated, completion)
    return worst


def check_critic(shape):
    """Checks that the recorded values of a step are those of the critic saved after the previous step."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        settings = ["sft.steps=40", "sft.noisy_steps=10", "sft.stop_loss=0", "task.steps=1", "task.modulus=2",
                    "train.steps=3", "eval.prompts=0", "objective.method=ppo_gae", "critic.body=separate",
                    "checkpoint.every=21", "run.threads=1", f"run.dir={run}"]  # 21 x 2 is the step before the last
        subprocess.run([binary, "quickstart", *settings, *shape], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "samples.jsonl"), encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        last = max(row["step"] for row in rows)
        before = os.path.join(run, "checkpoints", f"step-{last - 1:06}")
        saved = os.path.join(before, "critic")
        critic = AutoModelForTokenClassification.from_pretrained(saved, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(before)
        worst = largest = 0.0
        for sample in [row for row in rows if row["step"] == last]:
            prompt = tokenizer(sample["prompt"], add_special_tokens=False).input_ids
            completion = tokenizer.convert_tokens_to_ids(sample["tokens"])
            with torch.no_grad():
                values = critic(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1, 0]
            worst = max(worst, (values - torch.tensor(sample["value"])).abs().max().item())
            largest = max(largest, values.abs().max().item())
        assert largest > 0.01, f"the critic has learned nothing, so this compares 0 with 0: {largest}"
        return worst


for shape in count(shapes[1:2], shapes):
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        settings = ["sft.steps=40", "sft.noisy_steps=10", "train.steps=1", "eval.prompts=8", "eval.temperature=0",
                    "run.threads=1", f"run.dir={run}"]
        subprocess.run([binary, "quickstart", *settings, *shape], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "samples.jsonl"), encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        last = max(row["step"] for row in rows)
        samples = [row for row in rows if row["phase"] == "eval" and row["step"] == last]
        assert samples
        with open(os.path.join(run, "checkpoints", "LATEST"), encoding="utf-8") as latest:
            checkpoint = os.path.join(run, "checkpoints", latest.read().strip())
        worst = check(checkpoint, samples)
        print(f"{shape or 'quickstart'}: {len(samples)} completions, largest |difference of log p| {worst:.1e}")
        assert worst < 1e-4, worst
for shape in count(shapes[2:], shapes):
    worst = check_critic(shape)
    print(f"{shape or 'quickstart'}: a critic, largest |difference of values| {worst:.1e}")
    assert worst < 1e-5, worst
