"""Prompts that are texts with their chat markup already in them, as TRL's standard format has them: the ids that Keel
trains on are those of Hugging Face's tokenizer(prompt)."""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "build" / "tests" / "keel_tests"
WORDS = ["user", "assistant", "hi", "What is 2 + 2?", "größe", "日本語", "\n", " ", "  ", "<", "|", "<|im_", "</s", "<think>"]
CORPUS = [" ".join(WORDS), "user\nassistant\nsystem\nYou are helpful. What is 12 + 30?", "größe 日本語 <think>"] * 3


def chatml():
    """Like Qwen: byte-level, no tokens around a text, one added token that is not special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=350, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(["<think>"])
    return tokenizer, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def with_bos():
    """Like Llama 3: the post-processor adds a token before a text, even if the text already starts with it."""
    tokenizer, specials = chatml()
    tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", pair="$A $B", special_tokens=[
        ("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))])
    return tokenizer, specials


def with_spaces():
    """Like Gemma and older Llamas: spaces are part of tokens, and added tokens strip adjacent spaces."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=500, show_progress=False, special_tokens=["<unk>"] + [f"<0x{i:02X}>" for i in range(256)]))
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False, rstrip=True),
                                  AddedToken("<start_of_turn>", normalized=False, lstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="$A $B", special_tokens=[
        ("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer, ["<s>", "</s>", "<start_of_turn>"]


def prompts(specials, seed):
    draw = random.Random(seed)
    start, end = specials[-2:]
    yield f"{start}user\nhi{end}\n{start}assistant\n"
    yield f"{specials[0]}{start}system\nBe brief.{end} {start} user"
    yield "no markup at all"
    for _ in range(300):
        text = "".join(draw.choices(specials + WORDS, k=draw.randint(1, 14)))
        if text.strip():
            yield text


def transformers_ids(file, texts):
    """Returns the input ids of TRL, or None if transformers is not installed."""
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not here: compared with the package tokenizers alone")
        return None
    from transformers import PreTrainedTokenizerFast
    return PreTrainedTokenizerFast(tokenizer_file=str(file))(text=texts)["input_ids"]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder, cases = pathlib.Path(name), {}
        for make in (chatml, with_bos, with_spaces):
            tokenizer, specials = make()
            case = folder / make.__name__
            case.mkdir()
            tokenizer.save(str(case / "tokenizer.json"))
            texts = list(prompts(specials, seed=3))
            (case / "rows.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
            cases[case] = texts, [tokenizer.encode(text).ids for text in texts]
        listed = folder / "list.tsv"
        listed.write_text("".join(f"{case}\t{case}/rows.jsonl\t{case}/ids\n" for case in cases))
        done = subprocess.run([TESTS, "--gtest_filter=DataPromptsParity.*"], cwd=ROOT, capture_output=True, text=True,
                              env=os.environ | {"KEEL_PROMPTS_LIST": str(listed)})
        assert done.returncode == 0, done.stdout + done.stderr
        for case, (texts, expected) in cases.items():
            ours = [json.loads(line) for line in (case / "ids").read_text().splitlines()]
            assert transformers_ids(case / "tokenizer.json", texts) in (None, expected)
            wrong = [row for row in zip(texts, ours, expected) if row[1] != row[2]]
            print(f"{case.name}: {len(texts)} prompts, {len(wrong) + abs(len(ours) - len(texts))} differ; the first has "
                  f"{len(expected[0])} tokens")
            for text, got, wanted in wrong[:3]:
                print(f"  {text!r}: got {got}, expected {wanted}")
            failed += bool(wrong) or len(ours) != len(texts)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
