"""Keel warns of a folder if and only if transformers' AutoTokenizer gives other tokens than the folder's tokenizer.json."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if int(transformers.__version__.split(".")[0]) < 5:
    print(f"skipped: transformers {transformers.__version__} reads tokenizer.json")
    sys.exit(77)

END = "<|endoftext|>"
REGEX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MERGES = [("1", "2"), ("12", "3"), ("Ġ", "a"), ("a", "b")]
TEXTS = ["a 123 ab", "ab 12345!", "a\u0301 ab", "ab  a"]  # several digits; a letter that NFC composes


def byte_level(digits="", normalizer=normalizers.NFC()):
    """A byte-level BPE tokenizer with the steps of Qwen2; `digits` {1,3} is the rule of Llama 3."""
    vocabulary = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, MERGES), END]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocabulary)}, merges=MERGES))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(REGEX % digits), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


def reads_differently(folder, tokenizer):
    read = transformers.AutoTokenizer.from_pretrained(folder)
    return any(read(text, add_special_tokens=False)["input_ids"] != tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS)


def warning_of_keel(folder):
    """The folder has no weights, so that keel fails after it has read the tokenizer."""
    result = subprocess.run([os.environ["KEEL_BINARY"], "convert", folder, folder / "out"], capture_output=True, text=True)
    assert result.returncode != 0, result.stdout
    return next((line for line in result.stderr.splitlines() if line.startswith("warning: ")), "")


def check(model_type, named, tokenizer, part):
    """`part`: the part of tokenizer.json that differs from Qwen2Tokenizer's."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, **({"tokenizer_class": named} if named else {})}))
        differs, warning = reads_differently(folder, tokenizer), warning_of_keel(folder)
        assert differs == bool(warning), (transformers.__version__, model_type, named, part, differs, warning)
        assert not differs or f"ignores {part} of this tokenizer.json" in warning, warning
        return differs


results = [check(model_type, named, byte_level("{1,3}"), "pre_tokenizer")
           for model_type in ("llama", "mistral", "qwen2", "qwen3")
           for named in ("", "Qwen2Tokenizer", "Qwen2TokenizerFast", "PreTrainedTokenizerFast")]
assert {True, False} == set(results), results
assert check("qwen2", "", byte_level(normalizer=None), "normalizer")
assert not check("qwen2", "Qwen2Tokenizer", byte_level(), "")
print(f"{len(results) + 2} folders with transformers {transformers.__version__}")
