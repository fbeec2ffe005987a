"""Compares Keel's tokenizer with the Hugging Face libraries on the same files.

A folder has tokenizer.json, tokenizer_config.json and rows.json, the results of Keel: a list of
{text, ids, decoded, decoded_with_special}, where ids is null if Keel rejected the text. Every difference is printed.
"""

import json
import sys

import tokenizers
import transformers


def encode_or_none(encode, text):
    try:
        return list(encode(text))
    except Exception as error:  # the Rust library raises a bare Exception for a word without a token
        if "unk" in str(error).lower():
            return None
        raise


def differences_in(folder):
    rows = json.loads((folder / "rows.json").read_text("utf-8"))
    if not rows:
        sys.exit(f"{folder}: no rows to compare")

    auto = transformers.AutoTokenizer.from_pretrained(str(folder))
    core = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    sides = {
        "transformers": (lambda text: auto(text)["input_ids"], auto.decode),
        "tokenizers": (lambda text: core.encode(text).ids, core.decode),
    }

    differences = 0

    def compare(side, what, text, ours, theirs):
        nonlocal differences
        if ours != theirs:
            differences += 1
            print(f"{side}: {what} of {text!r}: ours {ours!r}, theirs {theirs!r}")

    for row in rows:
        for side, (encode, decode) in sides.items():
            text, ids = row["text"], row["ids"]
            compare(side, "ids", text, ids, encode_or_none(encode, text))
            if ids is not None:
                compare(side, "decoded", text, row["decoded"], decode(ids, skip_special_tokens=True))
                with_special = decode(ids, skip_special_tokens=False)
                compare(side, "decoded with special", text, row["decoded_with_special"], with_special)

    roles = json.loads((folder / "special_tokens_map.json").read_text("utf-8"))
    compare("transformers", "special tokens", "the folder", roles, auto.special_tokens_map)
    compare("transformers", "inputs", "the folder", ["input_ids", "attention_mask"], list(auto("").keys()))

    print(f"{folder.name}: {len(rows)} texts compared, {differences} differences")
    return differences
