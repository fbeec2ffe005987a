"""Keel reads the tokenizers of real models from GGUF files that are written as by the llama.cpp converter.

Needs the peers tokenizers and gguf (packages.py).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from gguf_parity_test import compare_ids, finish, sample_texts
from packages import count, folder_of

import gguf
from tokenizers import Tokenizer

# Package, name of the pre-tokenizer in the converter.
MODELS = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2_5": "qwen2", "mistral_nemo": "tekken", **count({}, {"qwen3": "qwen2"})}
SENTENCEPIECE = "llama2"


def tokens_of(tokenizer, description):
    """Returns all tokens by id, with the types that the converter assigns."""
    vocabulary = tokenizer.get_vocab()
    added = {token["id"]: token for token in description["added_tokens"]}
    by_id = {number: token for token, number in vocabulary.items()}
    tokens, types = [], []
    for number in range(max(by_id) + 1):
        token = by_id.get(number)
        tokens.append(f"[PAD{number}]" if token is None else token)
        types.append(5 if token is None else 1 if number not in added else 3 if added[number]["special"] else 4)
    return tokens, types


def write(path, name, tokenizer, description, config):
    tokens, types = tokens_of(tokenizer, description)
    writer = gguf.GGUFWriter(path.with_suffix(".gguf"), "llama")
    writer.add_token_list(tokens)
    if name == SENTENCEPIECE:
        # The file has no scores, but their order: merges are sorted by the scores of their results.
        scores = {}
        for rank, merge in enumerate(description["model"]["merges"]):
            scores.setdefault((merge if isinstance(merge, str) else " ".join(merge)).replace(" ", ""), -float(rank))
        writer.add_tokenizer_model("llama")
        writer.add_token_types([2] + types[1:3] + [6] * 256 + types[259:])
        writer.add_token_scores([scores.get(token, -1e6 - number) for number, token in enumerate(tokens)])
        writer.add_unk_token_id(0)
    else:
        merges = description["model"]["merges"]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(MODELS[name])
        writer.add_token_types(types)
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    for role, add in (("bos_token", writer.add_bos_token_id), ("eos_token", writer.add_eos_token_id)):
        token = config.get(role)
        if token is not None:
            add(tokenizer.token_to_id(token if isinstance(token, str) else token["content"]))
    first = tokenizer.encode("x").tokens[0]
    writer.add_add_bos_token(config.get("bos_token") in (first, {"content": first}))
    finish(writer)


def main():
    tests = pathlib.Path(os.environ["KEEL_BINARY"]).parent / "tests" / "keel_tests"
    peers = folder_of("tokenizers")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        originals = {}
        for name in [*MODELS, SENTENCEPIECE]:
            originals[name] = Tokenizer.from_file(str(peers / name / "tokenizer.json"))
            files = [json.loads((peers / name / file).read_text("utf-8")) for file in ("tokenizer.json", "tokenizer_config.json")]
            write(folder / name, name, originals[name], *files)
        subprocess.run([tests, "--gtest_filter=GgufParity.*"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "KEEL_GGUF_FOLDER": str(folder)})
        texts = sample_texts(count(150, 2000), seed=3)
        for name in MODELS:
            compare_ids(name, folder / name, originals[name], texts)
        # The file of the package adds a space before every piece of text. The conversion of transformers, which Keel
        # follows, adds it only at the beginning.
        plain = [text for text in texts if text[:1] not in ("", " ", "▁")
                 and not any(special in text for special in ("<unk>", "<s>", "</s>"))]
        compare_ids(SENTENCEPIECE, folder / SENTENCEPIECE, originals[SENTENCEPIECE], plain)


if __name__ == "__main__":
    sys.exit(main())
