"""GGUF export: tiny random models of every family, saved by transformers, are converted with `keel convert` and back.

The file is checked with the package gguf (keys, names, and every byte of every tensor against its quantisers), with the
import of transformers (equal logits), with Keel (equal weights, ids and greedy tokens) and, if installed, with llama.cpp
(package xllamacpp: equal ids and log-probs). Models that GGUF cannot represent are rejected. Needs torch, transformers and gguf;
the last comes with scripts/bootstrap.sh --tests.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

from gguf_parity_test import interleaved, sample_texts
from gguf_tokenizers import tokenizers
from packages import ROOT, count, folder_of, is_there, use

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Format
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

sys.path.append(str(ROOT / "tests" / "cli"))
from support import keel  # noqa: E402

torch.set_num_threads(1)
TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{% endfor %}"
FILE_TYPES = {"float32": (0, Format.F32), "float16": (1, Format.F16), "bfloat16": (32, Format.BF16), "q8_0": (7, Format.Q8_0)}


COMMON = dict(vocab_size=480, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.15, bos_token_id=None, eos_token_id=None,
              pad_token_id=None)


def cases():
    """Returns (name, configuration, tokenizer, specific keys of the file after the architecture)."""
    llama3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=128)
    yarn = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64, attention_factor=0.9, beta_fast=16.0)
    linear = dict(rope_type="linear", factor=8.0, rope_theta=1e6)
    wide = {**COMMON, "head_dim": 32}
    yield "llama", transformers.LlamaConfig(**COMMON, rms_norm_eps=1e-5, attention_bias=True, mlp_bias=True), "llama", {}
    yield ("llama_3", transformers.LlamaConfig(**wide, rope_parameters=llama3, tie_word_embeddings=True), "llama-bpe",
           {"rope.freq_base": 5e5, "rope.scaling.original_context_length": 128})
    yield ("llama_yarn", transformers.LlamaConfig(**{**COMMON, "hidden_size": 48}, rope_parameters=yarn), "smollm",
           {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64,
            "rope.scaling.yarn_beta_fast": 16.0, "rope.scaling.attn_factor": np.float32(0.9 / (0.1 * np.log(4) + 1))})
    # Another name, because transformers otherwise treats the file as an unsupported Mistral.
    yield "nemo", transformers.MistralConfig(**wide, sliding_window=300), "gpt-2", {"context_length": 300}
    yield ("qwen2", transformers.Qwen2Config(**COMMON, tie_word_embeddings=True,
                                             rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=1e6)), "qwen2",
           {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0})
    yield "qwen3", transformers.Qwen3Config(**wide), "qwen2", {"attention.key_length": 32}
    yield ("gemma2", transformers.Gemma2Config(**wide, sliding_window=6, query_pre_attn_scalar=32), "gemma",
           {"attention.sliding_window": 6, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})
    yield ("gemma3", transformers.Gemma3TextConfig(
        **{**wide, "num_hidden_layers": 7}, sliding_window=8, query_pre_attn_scalar=32,
        rope_parameters={"full_attention": linear, "sliding_attention": dict(rope_type="default", rope_theta=5e3)}), "gemma",
           {"attention.sliding_window": 8, "rope.freq_base": 1e6, "rope.freq_base_swa": 5e3, "rope.scaling.factor": 8.0})
    yield ("gemma3_period", transformers.Gemma3TextConfig(
        **{**wide, "num_hidden_layers": 3}, sliding_window=8, query_pre_attn_scalar=32, final_logit_softcapping=20.0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "gemma",
           {"attention.sliding_window_pattern": 2, "final_logit_softcapping": 20.0})


def save(path, config, tokenizer):
    torch.manual_seed(len(path.name))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # random norms and biases
                parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(path)
    save_tokenizer(path, *tokenizer)
    return model


def save_tokenizer(path, tokenizer, bos, eos):
    tokenizer.save(str(path / "tokenizer.json"))
    roles = {"bos_token": bos, "eos_token": eos, "chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"}
    (path / "tokenizer_config.json").write_text(json.dumps({key: value for key, value in roles.items() if value}))
    ids = [number for text in (eos, "<|im_end|>") if (number := tokenizer.token_to_id(text)) is not None]
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))


def convert(*arguments):
    result = keel("convert", *arguments)
    assert result.returncode == 0, (arguments, result.stderr)
    return result


def refused(*arguments, says, code=3):
    result = keel("convert", *arguments)
    assert result.returncode == code and all(part in result.stderr for part in says), (arguments, result.returncode, result.stderr)
    assert not pathlib.Path(arguments[1]).exists()


def expected_tensors(model, config):
    """Returns the float32 tensors by their names in the file, like the llama.cpp converter."""
    name = {"mistral": "llama", "gemma3_text": "gemma3"}.get(config.model_type, config.model_type)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[name.upper()], config.num_hidden_layers)
    tensors = {}
    for key, value in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, suffix = key.rsplit(".", 1)
        data = value.numpy()
        if name == "llama" and ".q_proj" in key:
            data = interleaved(data, config.num_attention_heads)
        if name == "llama" and ".k_proj" in key:
            data = interleaved(data, config.num_key_value_heads)
        if name.startswith("gemma") and key.endswith("norm.weight"):
            data = data + 1
        tensors[f"{names.get_name(stem)}.{suffix}"] = np.ascontiguousarray(data, dtype=np.float32)
    if not name.startswith("gemma") and config.rope_parameters["rope_type"] == "llama3":
        scaled, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
        plain = 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, config.head_dim, 2).float() / config.head_dim)
        tensors["rope_freqs.weight"] = (plain / scaled).numpy()
    return name, tensors


def judge_tensors(what, reader, tensors, wanted):
    found = {tensor.name: tensor for tensor in reader.tensors}
    assert found.keys() == tensors.keys(), (what, found.keys() ^ tensors.keys())
    for name, values in tensors.items():
        format = Format.F32 if values.ndim == 1 else wanted
        if format == Format.Q8_0 and values.shape[-1] % 32:
            format = Format.F16
        assert found[name].tensor_type == format, (what, name, found[name].tensor_type)
        assert tuple(found[name].shape) == values.shape[::-1], (what, name)
        mine = np.ascontiguousarray(found[name].data).view(np.uint8).ravel()
        if name == "rope_freqs.weight":
            assert np.allclose(found[name].data, values, rtol=1e-6), (what, name)
            continue
        theirs = np.ascontiguousarray(gguf.quants.quantize(values, format)).view(np.uint8).ravel()
        assert np.array_equal(mine, theirs), (what, name)


def judge_keys(what, reader, config, architecture, tokenizer, kind, file_type, own):
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    inner, bos, eos = tokenizer
    bytewise = kind not in ("llama", "gemma")
    keys = {
        "general.architecture": architecture, "general.name": what.split(".")[0], "general.file_type": file_type,
        "general.quantization_version": 2,
        f"{architecture}.block_count": config.num_hidden_layers, f"{architecture}.embedding_length": config.hidden_size,
        f"{architecture}.context_length": config.max_position_embeddings,
        f"{architecture}.feed_forward_length": config.intermediate_size,
        f"{architecture}.attention.head_count": config.num_attention_heads,
        f"{architecture}.attention.head_count_kv": config.num_key_value_heads,
        f"{architecture}.attention.layer_norm_rms_epsilon": np.float32(config.rms_norm_eps),
        "tokenizer.ggml.model": "gpt2" if bytewise else "llama", "tokenizer.ggml.pre": kind if bytewise else "default",
        "tokenizer.ggml.add_bos_token": bos is not None, "tokenizer.ggml.add_eos_token": False, "tokenizer.chat_template": TEMPLATE,
        "tokenizer.ggml.eos_token_id": inner.token_to_id(eos), **{f"{architecture}.{key}": value for key, value in own.items()}}
    if bos:
        keys["tokenizer.ggml.bos_token_id"] = inner.token_to_id(bos)
    if bytewise:
        keys["tokenizer.ggml.eot_token_id"] = inner.token_to_id("<|im_end|>")
    else:
        keys["tokenizer.ggml.add_space_prefix"] = kind == "llama"
    for key, value in keys.items():
        got = reader.fields[key].contents()
        assert got == value, (what, key, got, value)
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    assert len(tokens) == len(types) == config.vocab_size
    for number, (token, type) in enumerate(zip(tokens, types)):
        original = inner.id_to_token(number)
        assert token == (original or f"[PAD{number}]"), (what, number, token)
        assert (type == 5) == (original is None) and (type == 6) == (not bytewise and token.startswith("<0x")), (what, number, type)


def logits_of(model, seed):
    ids = torch.randint(0, model.config.vocab_size, (1, 40), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return model(ids, use_cache=False).logits


def judge_import(what, file, config, original):
    """Compares with the import of transformers. It ignores rope scaling, softcaps and attention scales, so they are set."""
    theirs = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
                "tie_word_embeddings"):
        assert getattr(theirs, key) == getattr(config, key), (what, key)
    given = theirs if what == "nemo" else config  # GGUF stores Mistral as llama
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, config=given, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    assert torch.equal(logits_of(model, 1), logits_of(original, 1)), (what, "logits of their import")


def judge_way_back(what, folder, config, original, source):
    back = load_file(folder / "model.safetensors")
    state = {key: value for key, value in original.state_dict().items() if key in back}
    assert back.keys() == state.keys() and len(state) == len(list(original.parameters()))
    for key, value in state.items():
        shift = 1 if "gemma" in config.model_type and key.endswith("norm.weight") else 0  # GGUF stores the sum
        assert torch.equal(back[key] + shift, value + shift), (what, key)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    difference = (logits_of(model, 2) - logits_of(original, 2)).abs().max().item()
    # Configuration values were rounded to float32.
    assert difference <= (1e-4 if "yarn" in what else 0), (what, "logits of the folder", difference)
    answers = [keel("generate", "--model", model, "--prompt", "def main():", "--temperature", "0", "--max-new-tokens", "12", "--json")
               for model in (source, folder, folder.with_name(folder.name + ".gguf"))]
    assert all(answer.returncode == 0 for answer in answers), answers[0].stderr + answers[2].stderr
    assert len({answer.stdout for answer in answers}) == 1 or "yarn" in what, (what, [answer.stdout for answer in answers])


def told_apart(texts):
    """Filters texts that these tokenizers treat differently after a round trip, because of added spaces."""
    return [text for text in texts if text[:1] not in ("", " ", "▁") and "<s>" not in text and "</s>" not in text]


def judge_ids(what, folder, original, texts):
    ours = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in texts:
        wanted, got = original.encode(text), ours.encode(text)
        assert got.ids == wanted.ids, (what, text[:300], got.tokens[:60], wanted.tokens[:60])
        assert ours.decode(got.ids, skip_special_tokens=False) == original.decode(wanted.ids, skip_special_tokens=False), (what, text)
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    assert config["chat_template"] == TEMPLATE


def judge_llama_cpp(what, file, original, tokenizer):
    """Checks that llama.cpp gives the same ids and the same probabilities of the most likely tokens."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.n_parallel, parameters.warmup = str(file), 256, 1, False
    parameters.verbosity = -1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(parameters)
    ask = dict(n_predict=1, temperature=0, logprobs=5, cache_prompt=False, ignore_eos=True)
    whole, compared = "def main(): return 4217  and\n\n   some é text", 0
    for end in range(3, len(whole) + 1, 4):
        ids = tokenizer.encode(whole[:end]).ids
        answer = server.handle_completions({**ask, "prompt": whole[:end]})
        assert answer["usage"]["prompt_tokens"] == len(ids), (what, "ids of a text", whole[:end], answer["usage"])
        if not answer["choices"][0]["logprobs"]:
            continue  # the most likely token is part of a character
        with torch.no_grad():
            logps = original(torch.tensor([ids]), use_cache=False).logits[0, -1].log_softmax(-1)
        for token in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
            # llama.cpp computes the MLP gate of Gemma with a float16 table.
            limit = 5e-3 if "gemma" in what else 1e-4
            assert abs(token["logprob"] - logps[token["id"]].item()) < limit, (what, whole[:end], token, logps[token["id"]])
            compared += 1
    assert compared >= 5, what


def judge_narrow(what, source, dtype, original, config):
    """Checks the rounding, and that the rounded values are read back."""
    file = source.parent / f"{what}.{dtype}.gguf"
    convert(source, file, "--dtype", dtype)
    architecture, tensors = expected_tensors(original, config)
    reader = gguf.GGUFReader(file)
    assert reader.fields["general.file_type"].contents() == FILE_TYPES[dtype][0]
    judge_tensors(file.name, reader, tensors, FILE_TYPES[dtype][1])
    again = source.parent / f"{what}.{dtype}.again.gguf"
    convert(file, again, "--dtype", dtype)
    assert again.read_bytes() == file.read_bytes(), (what, dtype, "a file from a file")


def judge_ends(folder, source):
    """Checks that three stop tokens are kept, and that a warning names a fourth one and sampling settings."""
    ids = Tokenizer.from_file(str(source / "tokenizer.json"))
    eos, turn, q, z = (ids.token_to_id(text) for text in ("<|endoftext|>", "<|im_end|>", "Q", "Z"))  # the template does not contain Q or Z
    for ends, keys, warned in (([eos, q], {"eos": eos, "eom": q}, []),
                             ([q, turn, eos], {"eos": eos, "eot": turn, "eom": q}, []),
                             ([eos, q, z], {"eos": eos, "eot": z, "eom": q}, []),
                             ([turn, q, z, eos], {"eos": eos, "eot": turn, "eom": q}, ["at most three: Z", "temperature 0.7, top_k 5"])):
        model = shutil.copytree(source, folder / "ends" / str(ends))
        settings = {"eos_token_id": ends, **({"temperature": 0.7, "top_k": 5} if warned else {})}
        (model / "generation_config.json").write_text(json.dumps(settings))
        file = folder / f"{ends}.gguf"
        result = convert(model, file)
        fields = gguf.GGUFReader(file).fields
        found = {key: fields[name].contents() for key in ("eos", "eot", "eom") if (name := f"tokenizer.ggml.{key}_token_id") in fields}
        assert found == keys, (ends, found)
        assert all(part in result.stderr for part in warned) and bool(warned) == bool(result.stderr), result.stderr
        convert(file, model / "back")
        back = json.loads((model / "back" / "generation_config.json").read_text())["eos_token_id"]
        assert set(back) == set(keys.values()), (ends, back)
    print("ends of completions")


def judge_odd_name(folder, source):
    """A folder name can be invalid UTF-8; the name in the file is a string."""
    model = shutil.copytree(source, folder / os.fsdecode(b"odd\xffname"))
    convert(model, folder / "odd.gguf")
    assert gguf.GGUFReader(folder / "odd.gguf").fields["general.name"].contents() == "odd\ufffdname"
    assert keel("inspect", folder / "odd.gguf").returncode == 0


def scattered(tree):
    """Moves the second merge into a token to the end, so that no score fits."""
    merges = tree["model"]["merges"]
    made = ["".join(merge) for merge in merges]
    merges.append(merges.pop(next(at for at in range(len(made)) if made[at] in made[:at])))


def nameless(tree):
    """Adds a token with an empty text before the last token, <|im_end|>."""
    tree["model"]["vocab"][""] = tree["added_tokens"][-1]["id"]
    tree["added_tokens"][-1]["id"] += 1


def judge_refusals(folder, made):
    def variant(name, base, says, **changes):
        path = folder / name
        path.mkdir()
        for file in made[base].iterdir():
            (path / file.name).write_bytes(file.read_bytes())
        for file, change in changes.items():
            file = path / f"{file}.json"
            tree = json.loads(file.read_text("utf-8"))
            change(tree)
            file.write_text(json.dumps(tree), "utf-8")
        refused(path, folder / f"{name}.gguf", says=[str(path), *says, "Hugging Face folder"])

    variant("activation", "llama", ["activation silu"], config=lambda c: c.update(hidden_act="gelu"))
    variant("uncapped", "gemma2", ["attn_logit_softcapping"], config=lambda c: c.update(attn_logit_softcapping=None))
    variant("scale", "gemma2", ["query_pre_attn_scalar of 32", "30"], config=lambda c: c.update(query_pre_attn_scalar=30))
    variant("layers", "gemma3", ["layer_types"],
            config=lambda c: c.update(layer_types=["full_attention"] + 2 * ["sliding_attention"] + 4 * ["full_attention"]))
    variant("band", "llama_yarn", ["truncate"], config=lambda c: c["rope_parameters"].update(truncate=False))
    variant("factors", "qwen2", ["llama3", "qwen2"], config=lambda c: c["rope_parameters"].update(
        rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))
    variant("empty", "qwen2", ["token 390", "empty text"], tokenizer=nameless)
    variant("strip", "llama", ['"<s>"', "lstrip"], tokenizer=lambda t: t["added_tokens"][1].update(lstrip=True))
    variant("cut", "nemo", ["pre_tokenizer", "no name", "llama-bpe"], tokenizer=lambda t: t["pre_tokenizer"].update(add_prefix_space=True))
    variant("merges", "llama", ["SentencePiece"], tokenizer=lambda t: t["model"]["merges"].pop())
    variant("order", "llama", ["SentencePiece", "order"], tokenizer=scattered)
    variant("spaces", "llama", ["spaces"], tokenizer=lambda t: t.update(normalizer={"type": "Lowercase"}))
    variant("around", "llama", ["other tokens to a text"], tokenizer=lambda t: t["post_processor"]["single"].insert(
        0, {"SpecialToken": {"id": "<s>", "type_id": 0}}))
    large = {key: value * 1e6 if key.endswith("embed_tokens.weight") else value
             for key, value in load_file(made["llama"] / "model.safetensors").items()}
    path = folder / "large"
    path.mkdir()
    for file in made["llama"].iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    save_file(large, path / "model.safetensors", {"format": "pt"})
    refused(path, folder / "large.gguf", "--dtype", "float16", says=["model.embed_tokens.weight", "65504", "bfloat16"])
    refused(made["llama"], folder / "a folder", "--dtype", "q8_0", says=["q8_0", ".gguf"], code=2)
    there = folder / "there.gguf"
    there.write_text("mine")
    result = keel("convert", made["llama"], there)
    assert result.returncode == 2 and "exists" in result.stderr and there.read_text() == "mine", result.stderr


def judge_run(folder, base):
    """A run with an adapter is exported with the adapter merged, as in its folder."""
    run = folder / "a run"
    config = folder / "run.yaml"
    config.write_text("task: {name: countdown}\nlora: {rank: 2}\noptimizer: {lr: 0.1}\neval: {prompts: 2}\n"
                      "train: {steps: 1, prompts_per_step: 2, sequences_per_update: 4}\ncheckpoint: {every: 1}\n"
                      "rollout: {samples_per_prompt: 2, max_new_tokens: 8}\nobjective: {entropy_coefficient: -0.1}\n")
    result = keel("train", config, f"model={base}", f"run.dir={run}", "run.threads=1")
    assert result.returncode == 0, result.stderr
    convert(run, folder / "run.gguf", "--dtype", "float32")
    convert(run, folder / "run", "--dtype", "float32")
    weights = load_file(folder / "run" / "model.safetensors")
    before = load_file(base / "model.safetensors")
    assert not torch.equal(weights["model.layers.0.mlp.up_proj.weight"], before["model.layers.0.mlp.up_proj.weight"])
    reader = gguf.GGUFReader(folder / "run.gguf")
    assert reader.fields["general.name"].contents() == "a run"
    written = {tensor.name: tensor.data for tensor in reader.tensors}
    for name in ("ffn_up", "ffn_gate", "ffn_down"):
        key = f"model.layers.1.mlp.{name.removeprefix('ffn_')}_proj.weight"
        assert np.array_equal(written[f"blk.1.{name}.weight"], weights[key].numpy()), name


def judge_released(folder, texts):
    """Checks that ids are unchanged and that the scores in the file give the same merges."""
    for name in count(["llama2"], ["llama2", "gemma2", "gemma3", "llama3_2", "mistral_nemo", "qwen3", "gpt2"]):
        source = folder_of("tokenizers") / name
        original = Tokenizer.from_file(str(source / "tokenizer.json"))
        path = folder / name
        size = max(original.get_vocab().values()) + 3
        sizes = {"vocab_size": size, "hidden_size": 8, "intermediate_size": 8}
        config = transformers.LlamaConfig(**{**COMMON, **sizes}, tie_word_embeddings=True)
        transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(path)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (path / file).write_bytes((source / file).read_bytes())
        convert(path, folder / f"{name}.gguf")
        convert(folder / f"{name}.gguf", folder / f"{name}-back")
        ours = Tokenizer.from_file(str(folder / f"{name}-back" / "tokenizer.json"))
        for text in told_apart(texts) if name == "llama2" else texts:
            assert ours.encode(text).ids == original.encode(text).ids, (name, text)
        print(f"{name}: ids come back")


def main():
    if is_there("llama-cpp"):
        use("llama-cpp")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        kinds, texts, made = tokenizers(), sample_texts(count(60, 400), seed=4), {}
        for what, config, kind, own in cases():
            path = made[what] = folder / what
            original = save(path, config, kinds[kind])
            file = folder / f"{what}-back.gguf"
            result = convert(path, folder / f"{what}-back.gguf")
            assert ("300" in result.stderr) == (what == "nemo"), result.stderr
            reader = gguf.GGUFReader(file)
            architecture, tensors = expected_tensors(original, config)
            judge_keys(what, reader, config, architecture, kinds[kind], kind, 0, own)
            judge_tensors(what, reader, tensors, Format.F32)
            judge_import(what, file, config, original)
            if is_there("llama-cpp"):
                judge_llama_cpp(what, file, original, kinds[kind][0])
            convert(file, folder / f"{what}-back")
            judge_way_back(what, folder / f"{what}-back", config, original, path)
            judge_ids(what, folder / f"{what}-back", kinds[kind][0], told_apart(texts) if kind == "llama" else texts)
            for dtype in ("float16", "bfloat16", "q8_0") if what in count(("llama_yarn", "gemma2"), made) else ():
                judge_narrow(what, path, dtype, original, config)
            print(f"{what}: {len(tensors)} tensors, keys, import, way back, ids")
        judge_ends(folder, made["qwen2"])
        judge_odd_name(folder, made["qwen2"])
        judge_refusals(folder, made)
        judge_run(folder, made["qwen2"])
        judge_released(folder / "released", texts)


if __name__ == "__main__":
    main()
