"""Texts and small tokenizers for tokenizer_parity_test.py."""

import decimal
import itertools
import json
import random
import unicodedata

from packages import count
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SCRIPTS = [
    (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x5D0, 0x5EA),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x2000, 0x206F), (0x2190, 0x22FF),
    (0x3040, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1F300, 0x1F64F),
    (0x1F900, 0x1F9FF), (0x1D400, 0x1D4FF), (0x20000, 0x200FF), (0xE0020, 0xE007F), (0x1, 0x1F), (0x7F, 0x9F),
]
SNIPPETS = [" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'\u017F", " 123", "12345", "<|im_start|>", "<bos>", "</s>", "\u180E",
            "e\u0301", "\u1E9B\u0323", "\u0130", "\u00DF", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA",
            "...", "!!", "http://a.b/c?d=e&f", "def f(x):\n    return x\n", "a", "the", " the", "\u2581", "\uFFFD", "\u0000"]


def assigned(code):
    return unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")


def random_texts(count, seed):
    """Strings of mixed scripts, emoji and controls; one character in ten comes from all of Unicode."""
    draw = random.Random(seed)
    pools = [[chr(c) for c in range(low, high + 1) if assigned(c)] for low, high in SCRIPTS]
    everything = [chr(c) for c in range(0x110000) if assigned(c)]
    texts = []
    for _ in range(count):
        here = [draw.choice(pools) for _ in range(draw.randint(1, 3))]
        parts = []
        for _ in range(draw.randint(1, 24)):
            kind = draw.random()
            if kind < 0.1:
                parts.append(draw.choice(everything))
            elif kind < 0.3:
                parts.append(draw.choice(SNIPPETS))
            else:
                parts.append("".join(draw.choices(draw.choice(here), k=draw.randint(1, 4))))
        texts.append("".join(parts))
    return texts


def joining_texts():
    """Returns texts whose first character composes with the next one in some normal form."""
    starts = ["e\u0301", "\u00e9", "a\u0323\u0307", "\u0227\u0323", "\u1100\u1161\u11a8", "\uac01", "\u0041\u030a", "\u212b",
              "\ufb01e\u0301", "\u1eb9\u0327", "\u0301e", "\u0301\u0323e", "\u0fb2\u0f71\u0f80", "\u0b47\u0b3e", "\u0344", "\u0385"]
    return [text for start in starts for text in (start, start + " x", " " + start, start * 5, start + "\u0301\ub288")]


def code_points(alike, step):
    """Returns all code points except surrogates, with only every `step`-th of uniform ranges."""
    codes = set(range(1, 0xD800)) | set(range(0xE000, 0x110000))
    for first, last in alike:
        codes.difference_update(c for c in range(first, last + 1) if c % step)
    return sorted(codes)


def every_code_point():
    """Returns each assigned character between letters and marks, which reveals its class and normal forms; of long uniform
    ranges (ideographs, Hangul) every fiftieth."""
    alike = [(0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x12000, 0x18CFF), (0x1B000, 0x1B2FF), (0x20000, 0x3FFFF)]
    codes = [c for c in code_points(alike, 50) if assigned(c)]
    rows = [f"a{chr(c)}1{chr(c)}\u0301\u0f71 {chr(c)}\u0323b" for c in codes]
    return ["\n".join(rows[i : i + 200]) for i in range(0, len(rows), 200)]


def each_code_point_once():
    """Includes characters that are newer than the tables of Python, and some unassigned ones."""
    alike = [(0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x3FFFF), (0x40000, 0x10FFFF)]
    codes = code_points(alike, 97)
    return ["".join(map(chr, codes[i : i + 500])) for i in range(0, len(codes), 500)]


CLASSES = [r"\p{Han}", r"[\p{Hiragana}\p{Katakana}]", r"\P{Hangul}", r"[^\p{Han}\p{Latin}]", r"[\P{Cyrillic}\p{Lu}]", r"\p{Greek}",
           r"\p{Common}", r"\p{Arab}", r"\p{Kawi}", r"\p{Letter}", r"\p{lowercase letter}", r"[\p{Number}\p{Punctuation}]",
           r"\p{^Mark}", r"\p{Other}", r"[\p{Unassigned}x]", r"\p{Alpha}", r"\p{Alnum}", r"\p{Lower}", r"\p{Upper}", r"\p{Emoji}",
           r"\p{Word}", r"\w", r"\W", r"[\w]", r"[^\w]", r"[\W]", r"[^\W_]", r"[\W\d]", r"[^\D]", r"[^\S\n]", r"[\w\s]", r"[^\w\s]",
           r"[[:word:][:punct:]]", r"[[:^alpha:]]", r"[a[^b-z]]", r"[^x[^a-z]]"]


def tied_unigrams(count, seed):
    """Returns (name, tokenizer.json) of Unigram models in which many segmentations have equal scores, up to rounding."""
    draw = random.Random(seed)
    for number in range(count):
        digits = draw.choice([0, 1, 3, 14, 15, 16, 17, 18, 19, 20, 25])
        few = [f"-{draw.randint(0, 20)}.{draw.randrange(10 ** digits):0{max(digits, 1)}d}" for _ in range(3)]
        pieces = {"<unk>": "0", **{letter: draw.choice(few) for letter in "abc"}}
        for _ in range(draw.randint(3, 20)):
            word = "".join(draw.choices("abc", k=draw.randint(2, 5)))
            parts = [pieces.get(word[:cut] if left else word[cut:]) for cut in [draw.randint(1, len(word) - 1)] for left in (True, False)]
            pieces[word] = format(sum(map(decimal.Decimal, parts)), "f") if all(parts) else draw.choice(few)
        vocabulary = ", ".join(f'["{piece}", {score}]' for piece, score in pieces.items())  # keeps the number format
        yield f"tie_{number}", '{"version": "1.0", "model": {"type": "Unigram", "unk_id": 0, "vocab": [%s]}}' % vocabulary


def tied_texts(seed):
    draw = random.Random(seed)
    return ["".join(draw.choices("abc", k=draw.randint(1, 30))) for _ in range(60)]


def trained(model, trainer, corpus, **parts):
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def bpe_base(corpus):
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=special, show_progress=False, limit_alphabet=200)
    return json.loads(trained(models.BPE(unk_token="<unk>"), trainer, corpus, pre_tokenizer=pre_tokenizers.Metaspace()).to_str())


def pre_tokenizer_list():
    regex = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    behaviours = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    for behaviour in behaviours:
        for invert in (False, True):
            yield f"split_regex_{behaviour}_{invert}", pre_tokenizers.Split(Regex(regex), behaviour, invert)
            yield f"split_string_{behaviour}_{invert}", pre_tokenizers.Split(" ", behaviour, invert)
            yield f"split_nothing_{behaviour}_{invert}", pre_tokenizers.Split("", behaviour, invert)
            yield f"split_empty_{behaviour}_{invert}", pre_tokenizers.Split(Regex(""), behaviour, invert)
        yield f"punctuation_{behaviour}", pre_tokenizers.Punctuation(behaviour)
    # Complex patterns use PCRE2, whose dialect differs.
    for number, pattern in enumerate([
            r"(?<=[a-z])(?=[A-Z])", r"\w+|[^\w\s]+", r"\s++|\S+?(?=\s)", r"[^\S\n]+", r"(?i:THE|an)+",
            r"^.|.$", r"\p{N}{1,3}+", r"a{2}?", r"(?m:e.)", r"[^(\s|[.,!?])]+", r"\P{L}+", r"\p{Han}|\p{^L}{,2}", r"(?>a|ab)c",
            r"x*", r"[\x41-\x{1F600}]+", r"\u00e9", r"e(?i)t|A", r"(?!\d)\w\d?"]):
        yield f"pcre_{number}", pre_tokenizers.Split(Regex(pattern), "isolated")
    for first in (False, True):
        for regex_on in (False, True):
            yield f"bytes_{first}_{regex_on}", pre_tokenizers.ByteLevel(add_prefix_space=first, use_regex=regex_on)
        yield f"digits_{first}", pre_tokenizers.Digits(individual_digits=first)
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            yield f"metaspace_{scheme}_{split}", pre_tokenizers.Metaspace("\u2581", prepend_scheme=scheme, split=split)
    yield "whitespace", pre_tokenizers.Whitespace()
    yield "whitespace_split", pre_tokenizers.WhitespaceSplit()
    yield "bert", pre_tokenizers.BertPreTokenizer()
    yield "delimiter", pre_tokenizers.CharDelimiterSplit("e")
    yield "fixed", pre_tokenizers.FixedLength(3)
    yield "sequence", pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(True), pre_tokenizers.Metaspace("_", "first")])


def normalizer_list():
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Strip", "ByteLevel"):
        yield name, getattr(normalizers, name)()
    yield "strip_left", normalizers.Strip(left=True, right=False)
    yield "replace", normalizers.Replace(" ", "\u2581")
    yield "replace_nothing", normalizers.Replace("", "~")
    yield "replace_two", normalizers.Replace("xx", "ab")
    yield "replace_regex", normalizers.Replace(Regex(r"\s+"), " ")
    yield "replace_empty", normalizers.Replace(Regex(r"[aeiou]|\s"), "")
    yield "prepend", normalizers.Prepend("\u2581")
    yield "sequence", normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    forms = ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase")
    for names in (*itertools.product(forms, repeat=2), *[*itertools.product(forms[:5], repeat=3)][:: count(4, 1)]):
        yield "-".join(names), normalizers.Sequence([getattr(normalizers, name)() for name in names])


def decoder_list():
    yield "none", None
    yield "bytes", decoders.ByteLevel()
    yield "fallback", decoders.ByteFallback()
    yield "fuse", decoders.Fuse()
    yield "replace", decoders.Replace("\u2581", " ")
    yield "replace_nothing", decoders.Replace("", "~")
    yield "replace_regex", decoders.Replace(Regex(r"[aeiou]+"), "~")
    yield "strip", decoders.Strip("e", 1, 0)
    yield "metaspace", decoders.Metaspace()
    yield "metaspace_never", decoders.Metaspace("\u2581", "never")
    yield "word_piece", decoders.WordPiece("\u2581", True)
    yield "suffix", decoders.BPEDecoder("e")
    yield "llama", decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    yield "odd", decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Replace("e", "ee"), decoders.ByteLevel()])


def synthetic(corpus):
    """Returns (name, tokenizer.json) for each component and option."""
    base = bpe_base(corpus)

    def make(name, model=None, **parts):
        tree = json.loads(json.dumps(base))
        tree["pre_tokenizer"] = None
        tree["model"].update(model or {})
        tokenizer = Tokenizer.from_str(json.dumps(tree))
        for part, value in parts.items():
            setattr(tokenizer, part, value)
        return name, tokenizer.to_str()

    for fuse in (False, True):
        for fallback in (False, True):
            yield make(f"bpe_{fuse}_{fallback}", {"fuse_unk": fuse, "byte_fallback": fallback})
    yield make("bpe_ignore_merges", {"ignore_merges": True}, pre_tokenizer=pre_tokenizers.Whitespace())
    yield make("bpe_without_unknown", {"unk_token": None})
    half = {t: i for i, t in enumerate(t for t in base["model"]["vocab"] if not t.startswith("<0x8"))}
    merges = [m for m in base["model"]["merges"] if all(t in half for t in (m[0], m[1], m[0] + m[1]))]
    yield make("bpe_some_bytes", {"vocab": half, "merges": merges, "byte_fallback": True, "fuse_unk": True})
    tree = json.loads(json.dumps(base))
    tree["model"]["merges"] = ["#version: 0.2"] + [" ".join(m) for m in base["model"]["merges"]]
    yield "bpe_merges_as_strings", json.dumps(tree)
    for name, part in pre_tokenizer_list():
        yield make("pre_" + name, {"byte_fallback": True}, pre_tokenizer=part)
    for number, (name, part) in enumerate(normalizer_list()):
        both = count("-" not in name, True)  # chains of normal forms alternate between the two
        if both or number % 2:
            yield make("normal_" + name, {"byte_fallback": True}, normalizer=part)
        if both or not number % 2:
            yield make("normal_first_" + name, {"byte_fallback": True}, normalizer=part, pre_tokenizer=pre_tokenizers.Metaspace("\u2581", "first"))
    for number, pattern in enumerate(CLASSES):
        yield make(f"class_{number}", {"byte_fallback": True}, normalizer=normalizers.Replace(Regex(pattern), "~"))
    for name, part in decoder_list():
        yield make("decoder_" + name, {"byte_fallback": True}, decoder=part, pre_tokenizer=pre_tokenizers.Metaspace())
    yield from characters(corpus)
    yield from added_tokens(make)
    yield from other_models(corpus)
    yield from post_processors(make)


def characters(corpus):
    """Returns a character model: Split with an empty pattern."""
    vocabulary = {"<unk>": 0, **{c: i + 1 for i, c in enumerate(sorted(set("".join(corpus))))}}
    for prefix in (False, True):
        steps = [pre_tokenizers.Split("", "isolated")]
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), *steps] if prefix else steps)
        tokenizer.decoder = decoders.Fuse()
        yield f"characters_{prefix}", tokenizer.to_str()


def added_tokens(make):
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for bits in range(32):
        options = {flag: bool(bits >> i & 1) for i, flag in enumerate(flags)}
        name, text = make(f"added_{bits}", {"byte_fallback": True}, normalizer=normalizers.Lowercase(),
                          pre_tokenizer=pre_tokenizers.Metaspace("\u2581", "first"))
        tokenizer = Tokenizer.from_str(text)
        tokens = [AddedToken(content, **options) for content in ("The", "a", "<|im_start|>", "<|im_", "  ")]
        (tokenizer.add_special_tokens if options["special"] else tokenizer.add_tokens)(tokens)
        yield name, tokenizer.to_str()


def other_models(corpus):
    for fallback in (False, True):
        special = ["<unk>", "<s>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
        trainer = trainers.UnigramTrainer(vocab_size=1200, special_tokens=special, unk_token="<unk>", show_progress=False)
        tree = json.loads(trained(models.Unigram(), trainer, corpus, pre_tokenizer=pre_tokenizers.Metaspace(),
                                  normalizer=normalizers.NFKC()).to_str())
        tree["model"]["byte_fallback"] = fallback
        tree["decoder"] = json.loads(decoders.Metaspace().__getstate__())
        yield f"unigram_{fallback}", json.dumps(tree)
        tree["pre_tokenizer"] = None
        yield f"unigram_whole_{fallback}", json.dumps(tree)
    trainer = trainers.WordLevelTrainer(vocab_size=800, special_tokens=["<unk>"], show_progress=False)
    for name in ("Whitespace", "WhitespaceSplit"):
        yield f"words_{name}", trained(models.WordLevel(unk_token="<unk>"), trainer, corpus,
                                       pre_tokenizer=getattr(pre_tokenizers, name)()).to_str()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>"], show_progress=False,
                                  continuing_subword_prefix="##", end_of_word_suffix="</w>")
    model = models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>")
    yield "bpe_prefix_suffix", trained(model, trainer, corpus, pre_tokenizer=pre_tokenizers.Whitespace(),
                                       decoder=decoders.BPEDecoder()).to_str()


def post_processors(make):
    template = processors.TemplateProcessing(single="<s> $A </s> </s>", pair="<s> $A $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    yield make("post_template", post_processor=template)
    yield make("post_bert", post_processor=processors.BertProcessing(("</s>", 2), ("<s>", 1)))
    yield make("post_roberta", post_processor=processors.RobertaProcessing(("</s>", 2), ("<s>", 1)))
    yield make("post_sequence", post_processor=processors.Sequence([processors.ByteLevel(), template]))
    name, text = make("post_command_r", post_processor=template)
    tree = json.loads(text)
    tree["post_processor"].update(add_prefix_space=True, trim_offsets=False, use_regex=True)
    yield name, json.dumps(tree)
