"""Random models of every family, made and saved by Hugging Face transformers, give the same logits, gradients and greedy
continuations in Keel; what Keel saves loads back in transformers and gives identical logits."""

import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import (AutoConfig, AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, LlamaConfig, MistralConfig,
                              Qwen2Config, Qwen3Config)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from packages import count
from random_models import random_configs

torch.set_num_threads(1)  # the models are small, and other tests run in parallel
RANDOM_PER_FAMILY = int(os.environ.get("KEEL_RANDOM_MODELS", count(1, 6)))
SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.15, bos_token_id=1, eos_token_id=0,
             pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)


def cases():
    """Returns (name, configuration, position of the first token of each sequence)."""
    odd = {**SIZES, "num_attention_heads": 5, "num_key_value_heads": 1, "hidden_size": 60, "num_hidden_layers": 2}
    wide = {**SIZES, "head_dim": 20}
    full = {**SIZES, "num_key_value_heads": 6}
    yield "llama", LlamaConfig(**SIZES), 0
    yield "llama-tied", LlamaConfig(**full, tie_word_embeddings=True, rms_norm_eps=1e-5), 0
    yield "llama-odd-heads", LlamaConfig(**odd), 0
    yield "llama-bias", LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True), 0
    yield "llama3-scaled", LlamaConfig(**SIZES, rope_theta=500000.0, rope_scaling=LLAMA3, head_dim=16), 300
    yield "llama-linear", LlamaConfig(**SIZES, rope_scaling=dict(rope_type="linear", factor=2.5)), 200
    yield "llama-yarn", LlamaConfig(**SIZES, rope_scaling=dict(YARN)), 250
    yield "llama-yarn-none", LlamaConfig(**SIZES, rope_scaling=dict(**YARN, mscale=0.707, mscale_all_dim=0.0, truncate=False)), 250
    yield "mistral-window", MistralConfig(**SIZES, sliding_window=7), 0
    yield "mistral-nemo", MistralConfig(**wide, sliding_window=None, rope_theta=1e6), 0
    yield "qwen2", Qwen2Config(**SIZES, rope_theta=1e6), 0
    yield "qwen2-tied-odd", Qwen2Config(**odd, tie_word_embeddings=True), 0
    yield "qwen2-window", Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=5, max_window_layers=1), 0
    yield "qwen3", Qwen3Config(**wide, rope_theta=1e6, tie_word_embeddings=True), 0
    yield "qwen3-bias", Qwen3Config(**odd, head_dim=16, attention_bias=True), 100
    yield "gemma2", Gemma2Config(**wide, sliding_window=6, query_pre_attn_scalar=30), 0
    yield "gemma2-tight-caps", Gemma2Config(**odd, head_dim=8, sliding_window=4, attn_logit_softcapping=1.5,
                                            final_logit_softcapping=2.0, query_pre_attn_scalar=8), 0
    yield "gemma2-uncapped", Gemma2Config(**wide, sliding_window=300, attn_logit_softcapping=None,
                                          final_logit_softcapping=None, tie_word_embeddings=False), 0
    yield "gemma3", Gemma3TextConfig(**{**wide, "num_hidden_layers": 7}, sliding_window=8, query_pre_attn_scalar=20), 0
    yield "gemma3-scaled", Gemma3TextConfig(
        **odd, head_dim=16, sliding_window=5, layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                         "sliding_attention": dict(rope_type="default", rope_theta=1e4)}), 50
    yield "gemma3-yarn", Gemma3TextConfig(
        **odd, head_dim=16, sliding_window=30, layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": {**YARN, "rope_theta": 1e4, "mscale": 0, "mscale_all_dim": 0.5},
                         "sliding_attention": {**YARN, "rope_theta": 1234.5, "beta_slow": 2.0, "truncate": False}}), 50
    # "type", the older name of "rope_type", which transformers ignores here.
    for name, scaling in (("old", dict(type="linear", factor=8.0)), ("both", dict(type="linear", rope_type="linear", factor=8.0))):
        yield f"gemma3-{name}-type", {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", **wide, "sliding_window": 8,
                                      "num_hidden_layers": 7, "query_pre_attn_scalar": 20, "rope_scaling": scaling}, 50
    yield from random_configs(RANDOM_PER_FAMILY, seed=int(os.environ.get("KEEL_RANDOM_SEED", 1)))


def make(path, config, first_position, seed):
    torch.manual_seed(seed)
    written = None
    if isinstance(config, dict):  # a hand-written config.json
        written = json.dumps(config)
        os.mkdir(path)
        with open(os.path.join(path, "config.json"), "w") as file:
            file.write(written)
        config = AutoConfig.from_pretrained(path)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:  # random norms and biases
                parameter.add_(torch.randn_like(parameter) * 0.3)
    # Every second folder has two shards and an index.
    model.save_pretrained(path, max_shard_size="60KB" if seed % 2 else "1GB")
    if written:
        with open(os.path.join(path, "config.json"), "w") as file:
            file.write(written)
    lengths = [23, 1, 40, 8]
    tokens = torch.randint(0, config.vocab_size, (sum(lengths),))
    firsts = [first_position, 0, first_position // 2, 3 if first_position else 0]
    save_file({"tokens": tokens, "lengths": torch.tensor(lengths), "first_positions": torch.tensor(firsts)},
              os.path.join(path, "input.safetensors"))
    return model, tokens, lengths, firsts


def expected_logits(model, tokens, lengths, firsts):
    """Returns the logits of all tokens, computed one sequence at a time."""
    return torch.cat([model(ids[None], position_ids=torch.arange(first, first + len(ids))[None], use_cache=False).logits[0]
                      for ids, first in zip(tokens.split(lengths), firsts)])


def expected_gradients(model, logits, tokens, lengths):
    """Returns the gradients of the summed next-token loss."""
    loss = sum(torch.nn.functional.cross_entropy(out[:-1], ids[1:], reduction="sum")
               for out, ids in zip(logits.split(lengths), tokens.split(lengths)) if len(ids) > 1)
    loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def judge_bfloat16(name, path, got, logits, tokens, lengths, firsts):
    """Checks that Keel in bfloat16 is at least as close to float32 as transformers in bfloat16."""
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.bfloat16).eval()
    theirs, begin = [], 0
    with torch.no_grad():
        for length, first in zip(lengths, firsts):
            theirs.append(model(tokens[begin:begin + length][None], use_cache=False,
                                position_ids=torch.arange(first, first + length)[None]).logits[0].float())
            begin += length
    far = [(x - logits).pow(2).mean().sqrt().item() for x in (got, torch.cat(theirs))]
    assert 0 < far[0] < 1.2 * far[1], (name, "bfloat16", far)
    return far[0] / far[1]


def judge_greedy(name, model, got, tokens, lengths):
    """Checks that every token of Keel's continuations is the most likely one, up to ties, with one forward pass each: the
    cached attention of generate differs from the forward pass in llama-1. make test-full also compares with generate."""
    ties = 0
    for ids, ours in zip(tokens.split(lengths), got):
        with torch.no_grad():
            logits = model(torch.cat([ids, ours])[None], use_cache=False).logits[0, len(ids) - 1:-1]
        gaps = logits.max(1).values - logits.gather(1, ours[:, None])[:, 0]
        assert gaps.max() < 1e-4, (name, "greedy", gaps.argmax().item(), gaps.max().item())
        if count(False, True) and gaps.max() == 0:
            model.generation_config.eos_token_id = None  # no stop before the limit
            theirs = model.generate(ids[None], attention_mask=torch.ones_like(ids[None]), max_new_tokens=len(ours), do_sample=False,
                                    use_cache=False)
            assert theirs[0, len(ids):].equal(ours), (name, "generate")
        ties += int((gaps > 0).sum())
    return ties


def judge(name, path, model, tokens, lengths, firsts):
    logits = expected_logits(model, tokens, lengths, firsts)
    gradients = expected_gradients(model, logits, tokens, lengths)
    logits = logits.detach()
    got = load_file(os.path.join(path, "output.safetensors"))
    difference = (got["logits"] - logits).abs()
    spread = (logits.max(1).values - logits.min(1).values)[:, None]
    assert difference.max() <= 2e-4, (name, "logits", difference.max())
    assert (difference <= 1e-5 * spread).all(), (name, "of the spread", (difference / spread).max())
    assert torch.equal(got["logits"].argmax(1), logits.argmax(1)), (name, "argmax")
    ties = judge_greedy(name, model, got["greedy"], tokens, lengths)
    narrow = judge_bfloat16(name, path, got["logits.bfloat16"], logits, tokens, lengths, firsts)
    worst = 0.0
    mine = {key.removeprefix("gradient."): value for key, value in got.items() if key.startswith("gradient.")}
    assert set(mine) == set(gradients), (name, set(mine) ^ set(gradients))
    for key, want in gradients.items():
        error = ((mine[key] - want).norm() / want.norm().clamp(min=1e-30)).item()
        worst = max(worst, error)
        assert error <= 1e-4, (name, key, error)
    reloaded = AutoModelForCausalLM.from_pretrained(os.path.join(path, "saved"), attn_implementation="eager",
                                                    dtype=torch.float32).eval()
    with torch.no_grad():
        same = expected_logits(reloaded, tokens, lengths, firsts)
    assert torch.equal(same, logits), (name, "a folder saved by Keel", (same - logits).abs().max())
    print(f"{name:18} logits {difference.max():.1e}  of the spread {(difference / spread.clamp(min=1e-30)).max():.1e}  gradients {worst:.1e}"
          f"  bfloat16 {narrow:.2f} of transformers' error  greedy: {ties} ties")


tests = os.path.join(os.path.dirname(os.environ["KEEL_BINARY"]), "tests", "keel_tests")
with tempfile.TemporaryDirectory() as folder:
    made = {}
    for seed, (name, config, first_position) in enumerate(cases()):
        path = os.path.join(folder, name)
        made[name] = make(path, config, first_position, seed)
    subprocess.run([tests, "--gtest_filter=ArchitectureParity.*"], check=True,
                   env={**os.environ, "KEEL_PARITY_FOLDER": folder, "OMP_NUM_THREADS": "1"})
    for name, parts in made.items():
        judge(name, os.path.join(folder, name), *parts)
