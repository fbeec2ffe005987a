"""Special tokens in user messages: the rendered text matches transformers (jinja2), and its ids match the tokenizers package
when special tokens are parsed only in text from the template.

Small tokenizers with and without normalizers; explicit cases, and templates of many families with random conversations.
A second rendering with replaced user letters shows which bytes come from the template.
"""

import json
import os
import random
import re
import sys
import tempfile

import random_conversations
from packages import count
from random_conversations import FAMILY_TEMPLATES

try:
    import template_judge
    import tokenizers
except ImportError as error:
    print(f"cannot compare: {error}; install transformers, jinja2 and tokenizers")
    sys.exit(77)

ROUNDS = count(10, 20)
TOKEN = re.compile(r"<\|[^|<>\s{]+\|>|</?[a-z_]+>|\[/?[A-Z_]+\]")
SPECIAL = sorted({token for source in FAMILY_TEMPLATES.values() for token in TOKEN.findall(source)}
                 | {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>", "<|system|>"})
NORMALIZERS = {
    "none": None,
    "none, normalized tokens": None,
    "NFKC": {"type": "NFKC"},
    "Lowercase": {"type": "Lowercase"},
    "spaces": {
        "type": "Sequence",
        "normalizers": [{"type": "Replace", "pattern": {"String": " "}, "content": "_"}, {"type": "NFC"}],
    },
}


class Words:
    """A byte-level tokenizer with a few merges, in a folder."""

    def __init__(self, folder, name, normalizer):
        self.folder = os.path.join(folder, name.replace(" ", "_"))
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=400, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        )
        made.train_from_iterator(["user system assistant the end im_end im_start <| |> \n\n"] * 3, trainer)
        made.add_special_tokens(
            [tokenizers.AddedToken(t, special=True, normalized=name != "none") for t in SPECIAL]
        )
        tree = json.loads(made.to_str())
        tree["normalizer"] = normalizer
        os.makedirs(self.folder)
        with open(os.path.join(self.folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(tree, file)
        with open(os.path.join(self.folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"bos_token": "<s>", "eos_token": "</s>"}, file)
        self.tokens = tokenizers.Tokenizer.from_str(json.dumps(tree))

    def plain(self, text):
        self.tokens.encode_special_tokens = True  # in this package: as text
        return self.tokens.encode(text, add_special_tokens=False).ids

    def special(self, text):
        """Returns (begin, end, id) of the special tokens in a text."""
        self.tokens.encode_special_tokens = False
        found = self.tokens.encode(text, add_special_tokens=False)
        ids = {self.tokens.token_to_id(token) for token in SPECIAL}
        return [(*place, id) for place, id in zip(found.offsets, found.ids) if id in ids]

    def ids(self, parts):
        """Returns the ids of [(text, is from template)]."""
        ids, plain = [], ""
        for text, own in parts:
            done = 0
            for begin, end, special in self.special(text) if own else []:
                ids += self.plain(plain + text[done:begin]) + [special]
                plain, done = "", end
            plain += text[done:]
        return ids + self.plain(plain)


X = "hi <|im_end|> yo"
S = "<|im_start|>"
USER = [{"role": "user", "content": X}]
HALVES = [{"role": "system", "content": "<|im_"}, {"role": "user", "content": "end|> x"}]
CASES = [
    (S + "{{ messages[0].content }}</s>", USER, [(S, 1), (X, 0), ("</s>", 1)]),
    (S + "{{ [messages[0].content] }}", USER, [(S, 1), (str([X]), 0)]),
    (S + "{{ messages }}", USER, [(S, 1), (str(USER), 0)]),
    (S + "{{ messages|string }}", USER, [(S, 1), (str(USER), 0)]),
    (S + "{{ messages|tojson }}", USER, [(S, 1), (json.dumps(USER), 0)]),
    (S + "{{ messages[0].content|tojson(ensure_ascii=true) }}", USER, [(S, 1), (json.dumps(X), 0)]),
    (S + "{{ messages[0].content|length }}", USER, [(S + "16", 1)]),
    (S + "{{ 'Y' if '<|im_end|>' in messages[0].content else 'N' }}", USER, [(S + "Y", 1)]),
    (S + "{{ messages[0].content[:14] }}", USER, [(S, 1), (X[:14], 0)]),
    (S + "{{ messages[0].content.split('<|im_end|>')|last }}", USER, [(S, 1), (" yo", 0)]),
    (S + "{{ messages[0].content.split('<|im_end|>')|join('</s>') }}", USER,
     [(S, 1), ("hi ", 0), ("</s>", 1), (" yo", 0)]),
    (S + "{{ messages[0].content.ljust(30) }}", USER, [(S, 1), (X.ljust(30), 0)]),
    (S + "{{ messages[0].content|replace('yo', '</s>') }}", USER, [(S, 1), (X[:-2], 0), ("</s>", 1)]),
    (S + "{{ messages[0].content|upper|lower }}", USER, [(S, 1), (X, 0)]),
    (S + "{{ messages[0].content|list|join }}", USER, [(S, 1), (X, 0)]),
    (S + "{{ messages[0].content|e|replace('&lt;', '<')|replace('&gt;', '>') }}", USER, [(S, 1), (X, 0)]),
    ("{{ '%s<|im_end|>' % messages[0].content }}", USER, [(X, 0), ("<|im_end|>", 1)]),
    ("{{ '<s>{}<|im_end|>'.format(messages[0].content) }}", USER, [("<s>", 1), (X, 0), ("<|im_end|>", 1)]),
    ("{% for m in messages %}{{ m.content }}{% endfor %}", HALVES, [("<|im_end|> x", 0)]),
    ("<|im_{{ messages[1].content }}", HALVES, [("<|im_", 1), ("end|> x", 0)]),
    ("{{ messages[0].content }}end|><s>", HALVES, [("<|im_", 0), ("end|><s>", 1)]),
    ("{{ messages[0].content }}<|im_end|>", HALVES, [("<|im_", 0), ("<|im_end|>", 1)]),
    ("{{ messages[0].content }}</s>", [{"role": "user", "content": "a \uEFF0 <|IM_END|> \uFF1Cs>\u0338"}],
     [("a \uEFF0 <|IM_END|> \uFF1Cs>\u0338", 0), ("</s>", 1)]),
    ("<|{{ messages[0].role }}|>{{ messages[0].content }}", USER, [("<|user|>", 1), (X, 0)]),
    ("<|{{ messages[0].role }}|>", [{"role": "user|><|im_end", "content": ""}], [("<|user|><|im_end|>", 0)]),
]


def spelled(draws, tree, key=None):
    """Returns the tree with full or partial special tokens inserted into its strings."""
    if isinstance(tree, dict):
        return {name: spelled(draws, value, name) for name, value in tree.items()}
    if isinstance(tree, list):
        return [spelled(draws, value) for value in tree]
    if not isinstance(tree, str) or key in ("role", "type") or draws.random() < 0.3:
        return tree
    token, at = draws.choice(SPECIAL), draws.randrange(len(tree) + 1)
    cut = draws.randrange(len(token)) if draws.random() < 0.4 else 0
    return tree[:at] + (token[cut:] if draws.random() < 0.5 else token[: len(token) - cut]) + tree[at:]


def exchanged(tree, key=None):
    """Returns the tree with each letter replaced by a private-use character, which no template contains."""
    if isinstance(tree, dict):
        return {name: exchanged(value, name) for name, value in tree.items()}
    if isinstance(tree, list):
        return [exchanged(value) for value in tree]
    if not isinstance(tree, str) or key in ("role", "type"):
        return tree
    return "".join(c if c.isspace() else "\uE123" for c in tree)


def parts_of(row):
    """Returns [(text, is from template)], or None for a template that inspects user messages."""
    text = template_judge.expected(row).get("text")
    other = template_judge.expected({**row, "messages": exchanged(row["messages"])}).get("text")
    if text is None or other is None or len(text) != len(other):
        return None
    if any(a != b and b != "\uE123" for a, b in zip(text, other)):
        return None
    return [(a, b != "\uE123") for a, b in joined(text, other)]


def joined(text, other):
    """Groups adjacent characters of one kind; characters that are not replaced are their own kind."""
    begin = 0
    for i in range(1, len(text) + 1):
        if i == len(text) or (other[i] == "\uE123") != (other[begin] == "\uE123"):
            yield text[begin:i], other[begin]
            begin = i


def random_rows(draws):
    for source in FAMILY_TEMPLATES.values():
        for _ in range(ROUNDS):
            row = {"template": source, "messages": spelled(draws, random_conversations.messages(draws))}
            row["extra"] = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
            parts = parts_of(row)
            if parts is not None:
                yield row, parts


def main():
    extra = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    cases = [({"template": t, "messages": m, "extra": extra}, parts) for t, m, parts in CASES]
    rows = cases + list(random_rows(random.Random(4)))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, normalizer in NORMALIZERS.items():
            words = Words(folder, name, normalizer)
            answers = template_judge.ours([{**row, "tokenizer": words.folder} for row, _ in rows])
            for (row, parts), mine in zip(rows, answers, strict=True):
                theirs = {"text": template_judge.expected(row).get("text"), "ids": words.ids(parts)}
                if {key: mine.get(key) for key in theirs} == theirs:
                    continue
                wrong += 1
                if wrong <= 5:
                    print(f"--- {name} {row['template'][:900]!r}\n  {row['messages']}\n  {theirs}\n  ours {mine}")
            print(f"{name}: {len(rows)} conversations, {len(rows) - len(cases)} random; {wrong} wrong", flush=True)
    sys.exit(1 if wrong or len(rows) < 2 * len(cases) else 0)


if __name__ == "__main__":
    main()
