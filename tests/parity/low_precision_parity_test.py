"""The log-probs of each sampling precision match transformers with weights, activations, keys and values that are
rounded by torch."""

import json
import os
import pathlib
import subprocess
import tempfile

from packages import skip

try:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.llama import modeling_llama
except ImportError as missing:
    skip(missing)

KEEL = os.environ["KEEL_BINARY"]
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)  # in the order of their codes
rotate = modeling_llama.apply_rotary_pos_emb
TASK = {"name": "chains", "modulus": 5, "steps": 2}


def cast(x, dtype):
    """Rounds without a scale; 8-bit formats saturate."""
    if dtype.itemsize == 1:
        x = x.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max)
    return x.to(dtype).float()


def scaled(x, dtype):
    """Rounds with a scale per row."""
    scale = x.abs().amax(-1, keepdim=True) / torch.finfo(dtype).max
    return (x / scale).to(dtype).float() * scale


def integers(x, bits):
    scale = x.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
    return (x / scale).round() * scale


def nvfp4(x):
    of_tensor = x.abs().max() / (448 * 6)
    columns = []
    for block in x.split(16, dim=1):
        scale = (block.abs().amax(1, keepdim=True) / 6 / of_tensor).to(torch.float8_e4m3fn).float() * of_tensor
        distance = ((block / scale).double().abs().unsqueeze(-1) - E2M1).abs()
        code = (distance + torch.arange(8) % 2 * 1e-12).argmin(-1)  # ties go to the even code
        columns.append(E2M1[code].float() * block.sign() * scale)
    return torch.cat(columns, 1)


def same(x):
    return x


E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
# Weights, activations, keys and values.
PRECISIONS = {
    "exact": (same, same, same),
    "bf16": (lambda x: cast(x, torch.bfloat16),) * 3,
    "fp16": (lambda x: cast(x, torch.float16),) * 3,
    "fp8": (lambda x: scaled(x, E4M3), same, same),
    "fp8_full": (lambda x: scaled(x, E4M3), lambda x: scaled(x, E4M3), lambda x: cast(x, E4M3)),
    "fp8_e5m2_full": (lambda x: scaled(x, E4M3), lambda x: scaled(x, E5M2), lambda x: cast(x, E5M2)),
    "nvfp4": (nvfp4, same, same),
    "int8": (lambda x: integers(x, 8), same, same),
    "int4": (lambda x: integers(x, 4), same, same),
    "int3": (lambda x: integers(x, 3), same, same),
}


def train(folder, name, config):
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**config, "run": {"dir": str(folder / name), "threads": 1, "device": "cpu"}, "task": TASK,
                                "eval": {"prompts": 0}}))
    subprocess.run([KEEL, "train", str(path)], check=True, stdout=subprocess.DEVNULL)
    return folder / name


def model_of(folder, weights, activations, keys_and_values):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for name, layer in model.model.layers.named_modules():
        if not isinstance(layer, torch.nn.Linear):
            continue
        layer.weight.data = weights(layer.weight.data)
        layer.register_forward_pre_hook(lambda _, inputs: (activations(inputs[0]),))
        if name.endswith("v_proj"):
            layer.register_forward_hook(lambda _, __, value: keys_and_values(value))

    def rotated(*arguments, **named):  # keys are cached after RoPE
        query, key = rotate(*arguments, **named)
        return query, keys_and_values(key)

    modeling_llama.apply_rotary_pos_emb = rotated
    return model


def differences(model, vocabulary, rows):
    """Returns |recorded log mu - log p of this model| of every sampled token."""
    result = []
    for row in rows:
        prompt = [vocabulary[word] for word in row["prompt"].split()]
        tokens = torch.tensor(prompt + row["token_ids"])
        with torch.no_grad():
            logp = model(tokens.unsqueeze(0)).logits[0].double().log_softmax(-1)
        mine = logp[len(prompt) - 1:-1].gather(1, tokens[len(prompt):].unsqueeze(1)).squeeze(1)
        result.append((mine - torch.tensor(row["behavior_logp"], dtype=torch.float64)).abs())
    return torch.cat(result)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        start = train(folder, "start", {"model": {"hidden_size": 40, "heads": 2, "layers": 2}, "train": {"steps": 0},
                                        "sft": {"steps": 120, "noisy_steps": 0}}) / "checkpoints"
        start = start / (start / "LATEST").read_text().strip()
        vocabulary = json.loads((start / "tokenizer.json").read_text())["model"]["vocab"]
        for precision, functions in PRECISIONS.items():
            run = train(folder, precision, {
                "model": {"path": str(start)}, "rollout": {"weights": precision, "samples_per_prompt": 4},
                "train": {"steps": 1, "prompts_per_step": 8}, "record": {"samples_per_step": 32}})
            rows = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
            away = differences(model_of(start, same, same, same), vocabulary, rows)
            near = differences(model_of(start, *functions), vocabulary, rows)
            equal = (near < 1e-5).double().mean()
            print(f"{precision:14} {len(near)} tokens, mean difference {near.mean():.1e} (from exact weights {away.mean():.1e}), "
                  f"{100 * equal:.1f} % within 1e-5")
            assert len(rows) == 32 and len(near) > 300
            # With rounded activations, sums that differ in the last bit can round to different values.
            if functions[1] is same:
                assert near.max() < 1e-5, near.max()
            else:
                assert equal > 0.8, equal
            if precision != "exact":
                assert away.mean() > 5 * near.mean(), (away.mean(), near.mean())


if __name__ == "__main__":
    main()
