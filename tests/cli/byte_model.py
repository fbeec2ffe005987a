"""A small model with a chat template and one token per byte, for chat tests."""

import json

import support

TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def write_model(folder):
    """A Llama with random weights, one token per byte and a chat template."""
    folder.mkdir()
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that GPT-2's alphabet writes as themselves
    others = [byte for byte in range(256) if byte not in kept]
    alphabet = {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [alphabet[byte] for byte in range(256)] + special
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": 256 + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, token in enumerate(special)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": TEMPLATE}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": len(tokens),
        "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "hidden_act": "silu", "eos_token_id": 258, "torch_dtype": "float32"}))
    return folder


def trained_model(folder, *settings):
    """The same model after an RL step; returns the run's folder."""
    folder.mkdir(exist_ok=True)
    shape = write_model(folder / "shape")
    data = folder / "rows.jsonl"
    data.write_text(json.dumps({"prompt": [{"role": "user", "content": "hi"}], "answer": "1"}) + "\n")
    result = support.keel("train", f"model={shape}", "model.random_weights=true", f"data.files=[{data}]",
                          "reward.functions=[length:3]", "rollout.max_new_tokens=4", "rollout.samples_per_prompt=2",
                          "train.steps=1", "train.prompts_per_step=1", "eval.prompts=0", f"run.dir={folder / 'run'}", "run.threads=1", *settings)
    assert result.returncode == 0, result.stderr
    return folder / "run"
