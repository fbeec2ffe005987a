"""Random configurations of every family, for architectures_parity_test.py: config.json with older and newer
keys, where keys can be missing, null, or ignored."""

import random


def sizes(rng):
    heads = rng.choice([1, 2, 3, 4, 5, 6, 7, 8])
    kv_heads = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
    return dict(vocab_size=rng.choice([61, 97, 128]), hidden_size=heads * rng.choice([8, 12, 16]),
                intermediate_size=rng.choice([24, 56, 80]), num_hidden_layers=rng.randint(1, 4), num_attention_heads=heads,
                num_key_value_heads=kv_heads, max_position_embeddings=rng.choice([64, 256, 512]), initializer_range=0.15,
                rms_norm_eps=rng.choice([1e-5, 1e-6, 1e-3]), bos_token_id=1, eos_token_id=0, pad_token_id=rng.choice([None, 0, 5]))


def scaling(rng, positions):
    """Returns a random rope_scaling without theta, usually none."""
    kind = rng.choice(["none", "none", "default", "linear", "dynamic", "llama3", "yarn", "yarn"])
    if kind == "none":
        return None
    tree = {"rope_type": kind}
    if kind != "default":
        tree["factor"] = rng.choice([1.0, 2.0, 4, 8.0])
    if kind == "llama3":
        tree |= dict(low_freq_factor=1.0, high_freq_factor=rng.choice([2.0, 4.0]))
    if kind in ("llama3", "yarn") and rng.random() < 0.7:
        tree["original_max_position_embeddings"] = rng.choice([16, positions // 2])
    if kind == "yarn":
        extra = dict(beta_fast=rng.choice([8, 32.0]), beta_slow=rng.choice([1, 2.0]), truncate=rng.random() < 0.5,
                     attention_factor=rng.choice([None, 0.7]), mscale=rng.choice([0.0, 0.8]), mscale_all_dim=0.5)
        tree |= {key: extra[key] for key in rng.sample(sorted(extra), rng.randint(0, len(extra)))}
    if kind == "default" and rng.random() < 0.5:
        tree["partial_rotary_factor"] = 0.5  # unused
    return tree


def rope(rng, config):
    theta, tree = rng.choice([1e4, 5e5, 1e6]), scaling(rng, config["max_position_embeddings"])
    if rng.random() < 0.5:  # as in transformers 5
        config["rope_parameters"] = {"rope_type": "default", **(tree or {}), "rope_theta": theta}
        return
    if rng.random() < 0.8:
        config["rope_theta"] = theta
    if tree or rng.random() < 0.5:
        config["rope_scaling"] = tree
        if tree and "rope_type" in tree and rng.random() < 0.3:
            tree["type"] = tree.pop("rope_type")
        if tree and rng.random() < 0.2:  # both: the older one takes precedence
            config["rope_parameters"] = {"rope_type": "linear", "factor": 3.0, "rope_theta": theta}


def maybe(rng, config, **keys):
    """Sets each key to one of its values, or leaves it out."""
    for key, values in keys.items():
        if rng.random() < 0.6:
            config[key] = rng.choice(values)


def layer_types(rng, config):
    if rng.random() < 0.3:
        kinds = ["sliding_attention", "full_attention"]
        config["layer_types"] = [rng.choice(kinds) for _ in range(config["num_hidden_layers"])]


def llama(rng, config):
    maybe(rng, config, attention_bias=[False, True], mlp_bias=[False, True], head_dim=[None, 8, 20], pretraining_tp=[1, 2],
          tie_word_embeddings=[False, True], hidden_act=["silu", "gelu", "gelu_pytorch_tanh"], partial_rotary_factor=[1.0],
          attention_dropout=[0.0, 0.5], hidden_activation=["relu"], sliding_window=[3])
    if rng.random() < 0.2:
        del config["num_key_value_heads"]


def mistral(rng, config):
    maybe(rng, config, sliding_window=[None, 3, 7, 4096], head_dim=[None, 16, 20], tie_word_embeddings=[False, True],
          attention_bias=[True], mlp_bias=[True])
    if rng.random() < 0.4:
        config |= dict(head_dim=16, sliding_window=5)
        layer_types(rng, config)  # as in Ministral
    if config["num_attention_heads"] == 8 and rng.random() < 0.5:
        del config["num_key_value_heads"]


def qwen2(rng, config):
    maybe(rng, config, use_sliding_window=[False, True], sliding_window=[5, 4096], max_window_layers=[0, 1, 2],
          tie_word_embeddings=[False, True], attention_bias=[False], head_dim=[20])
    if config.get("use_sliding_window"):
        layer_types(rng, config)


def qwen3(rng, config):
    qwen2(rng, config)
    config["head_dim"] = rng.choice([8, 16, 20])
    config["attention_bias"] = rng.random() < 0.5


def gemma2(rng, config):
    maybe(rng, config, attn_logit_softcapping=[None, 2.0, 50.0], final_logit_softcapping=[None, 3.0], attention_bias=[True],
          hidden_activation=["gelu_pytorch_tanh", "gelu", "silu"], hidden_act=["silu", "relu"], sliding_window=[4, 4096],
          tie_word_embeddings=[False, True], query_pre_attn_scalar=[8, 30, 256])
    config["head_dim"] = rng.choice([8, 16, 20])
    layer_types(rng, config)


def gemma3(rng, config):
    gemma2(rng, config)
    if config["num_hidden_layers"] > 1:
        maybe(rng, config, sliding_window_pattern=[1, 2, 3], _sliding_window_pattern=[2])
    if rng.random() < 0.5:
        config.pop("rope_parameters", None)
        maybe(rng, config, rope_local_base_freq=[1e3, 5e4], rope_theta=[1e5])
        return
    for key in ("rope_theta", "rope_scaling"):
        config.pop(key, None)
    config["rope_parameters"] = {}
    maybe(rng, config, rope_theta=[1e5], rope_local_base_freq=[1e3])
    maybe(rng, config["rope_parameters"], full_attention=[{"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}],
          sliding_attention=[{"rope_type": "default"}, {"rope_type": "default", "rope_theta": 5e3}])
    if "full_attention" in config["rope_parameters"]:
        maybe(rng, config, rope_scaling=[{"rope_type": "linear", "factor": 2.0}])


FAMILIES = {"llama": (llama, "LlamaForCausalLM"), "mistral": (mistral, "MistralForCausalLM"), "qwen2": (qwen2, "Qwen2ForCausalLM"),
            "qwen3": (qwen3, "Qwen3ForCausalLM"), "gemma2": (gemma2, "Gemma2ForCausalLM"), "gemma3_text": (gemma3, "Gemma3ForCausalLM")}


def random_configs(count, seed):
    """Returns (name, config.json, position of the first token of each sequence), `count` per family."""
    rng = random.Random(seed)
    for family, (add, architecture) in FAMILIES.items():
        for number in range(count):
            config = {"architectures": [architecture], "model_type": family, **sizes(rng)}
            rope(rng, config)
            add(rng, config)
            yield f"{family}-{number}", config, rng.choice([0, config["max_position_embeddings"] - 41])
