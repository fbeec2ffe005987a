"""Small tokenizers of every kind that a GGUF file can hold, for gguf_write_test.py."""

import json
import pathlib

from gguf_parity_test import LLAMA3, QWEN2, byte_level, split
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers


def sentencepiece(normalizer, names, user_defined=()):
    """Like the conversion of SentencePiece in transformers: a score per token, and all possible merges."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train([str(pathlib.Path(__file__).with_name("gguf_write_test.py"))], trainers.BpeTrainer(vocab_size=390, show_progress=False))
    learned = trained.get_vocab()
    letters = {letter for piece in learned for letter in piece}
    pieces = [p for p in sorted(learned, key=learned.get) if len(p) > 1][:60] + [p for p in user_defined if p not in learned]
    tokens = names + [f"<0x{byte:02X}>" for byte in range(256)] + pieces + sorted(letters | {"\n"})
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [(-number, len(piece[:at]), len(piece[at:]), (piece[:at], piece[at:])) for piece, number in vocabulary.items()
              for at in range(1, len(piece)) if piece[:at] in vocabulary and piece[at:] in vocabulary]
    merges = [merge for *_, merge in sorted(merges, key=lambda merge: merge[:3], reverse=True)]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    bos = names[1]
    tokenizer.post_processor = processors.TemplateProcessing(f"{bos} $A", f"{bos} $A {bos} $B", [(bos, vocabulary[bos])])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.add_special_tokens(names)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in user_defined])
    return tokenizer, steps


def llama_tokenizer():
    tokenizer, steps = sentencepiece(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                                     ["<unk>", "<s>", "</s>"])
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    return tokenizer, "<s>", "</s>"


def gemma_tokenizer():
    tokenizer, steps = sentencepiece(normalizers.Replace(" ", "▁"), ["<pad>", "<bos>", "<eos>", "<unk>"],
                                     ["\n\n", "\n\n\n", "▁▁", "▁▁▁", "<table>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer, "<bos>", "<eos>"


def bytes_tokenizer(pre, normalizer=None, whole_words=False, bos=False):
    tokenizer = byte_level(pre, normalizer)
    if whole_words:
        tree = json.loads(tokenizer.to_str())
        tree["model"]["ignore_merges"] = True
        tokenizer = Tokenizer.from_str(json.dumps(tree))
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing("<|im_start|> $A", "<|im_start|> $A $B", [("<|im_start|>", 1)])
    return tokenizer, "<|im_start|>" if bos else None, "<|endoftext|>"


def tokenizers():
    """Returns (name in the file, function that creates it)."""
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain])
    return {"llama": llama_tokenizer(), "gemma": gemma_tokenizer(), "gpt-2": bytes_tokenizer(plain), "smollm": bytes_tokenizer(digits),
            "llama-bpe": bytes_tokenizer(split(LLAMA3), whole_words=True, bos=True),
            "qwen2": bytes_tokenizer(split(QWEN2), normalizers.NFC())}
