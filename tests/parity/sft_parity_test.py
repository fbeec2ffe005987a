"""`keel sft` compared with transformers: the loss on rows of every format, with labels masked by hand or by {% generation %}
marks of the template; the weights after two updates compared with AdamW of torch; and the final loss of a run compared with
its folder, with full weights and with an adapter."""

import json
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "cli"))
import support  # noqa: E402
from packages import skip  # noqa: E402

try:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
except ImportError as missing:
    skip(missing)

torch.set_num_threads(1)

CHATML = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.role == 'assistant' %}{% generation %}"
          "{{ message.content }}<|im_end|>{% endgeneration %}{% else %}{{ message.content }}<|im_end|>{% endif %}\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# Like Qwen3: reasoning is kept only in the last turn, so a later prompt differs from the earlier conversation.
THINKING = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.role == 'assistant' and not loop.last %}"
            "{{ message.content.split('</think>')[-1] }}{% else %}{{ message.content }}{% endif %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# The Hermes tool format, as in Qwen2.5.
TOOLS_TEMPLATE = ("{% if tools %}<|im_start|>system\nfunctions:{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}<|im_end|>\n{% endif %}"
                  "{% for message in messages %}{% if message.role == 'tool' %}<|im_start|>user\n<tool_response>{{ message.content }}</tool_response><|im_end|>\n"
                  "{% elif message.role == 'assistant' %}<|im_start|>assistant\n{% generation %}{% if message.content %}{{ message.content }}{% endif %}"
                  "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>{% endgeneration %}\n"
                  "{% else %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endif %}{% endfor %}"
                  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# Like Qwen3 with reasoning_content: kept only in the last turn.
REASONING = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.reasoning_content and loop.last %}"
             "<think>{{ message.reasoning_content }}</think>{% endif %}{{ message.content }}<|im_end|>\n{% endfor %}"
             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
WORDS = "the cat sat on a mat and saw two dogs; what is 2 + 3? it is 5, said the owl. größe 日本 <think> no </think>"


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


TALKS = [[user("what is 2 + 3?"), assistant("it is 5")],
         [{"role": "system", "content": "said the owl"}, user("the cat\n\nsat"), assistant("on a mat"), user("and?"), assistant("saw two dogs; größe"),
          user("what?"), assistant(" no")],
         [user("a"), assistant("the mat"), user("two")],
         [user("日本"), assistant("\nit is"), user("dogs"), assistant("no, a cat sat on the mat and it saw 2 dogs")]]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "the sum", "parameters": {"a": "number", "b": "number"}}}]
CALL = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}]}
TOOL_TALKS = [[user("what is 2 + 3?"), CALL, {"role": "tool", "content": "5"}, assistant("it is 5")],
              [user("and?"), {**CALL, "content": "it is"}, {"role": "tool", "content": "5"}, assistant("5, said the owl")]]
REASONED = [[user("what is 2?"), assistant("2") | {"reasoning_content": "it is the owl"}, user("and 3?"), assistant("3") | {"reasoning_content": "no"}],
            [user("what is 2?"), assistant("2") | {"reasoning_content": "it is the owl"}, user("and 3?"), assistant("3")]]
THOUGHTS = [[user("what is 2?"), assistant("<think> it is the owl </think>2"), user("and 3?"), assistant("<think> no </think>3")], TALKS[0]]
PAIRS = [("the cat sat:", " on a mat"), ("what is 2 + 3?\n", "it is 5"), ("日本 ", "größe"), ("a", "b c d e f")]


def tokenizer(folder, template, metaspace=False):
    """Returns a byte-level tokenizer, or one like Llama 2 and Mistral, which adds a space before a text."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace() if metaspace else pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.Metaspace() if metaspace else decoders.ByteLevel()
    alphabet = sorted({*WORDS, *str(PAIRS), "\n", "|"}) if metaspace else pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator([WORDS] * 4, trainers.BpeTrainer(vocab_size=330, show_progress=False, initial_alphabet=alphabet))
    trained.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    theirs = PreTrainedTokenizerFast(tokenizer_object=trained, eos_token="<|im_end|>", chat_template=template)
    theirs.save_pretrained(folder)
    return theirs


def model(folder, family, size):
    torch.manual_seed(5)
    sizes = dict(vocab_size=size, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 max_position_embeddings=512, initializer_range=0.2, bos_token_id=None, eos_token_id=size - 1, pad_token_id=None)
    made = LlamaForCausalLM(LlamaConfig(**sizes)) if family == "llama" else Qwen2ForCausalLM(Qwen2Config(**sizes))
    made.save_pretrained(folder)
    return made.eval()


def marked(theirs, messages, **options):
    """Returns the ids and the mask that transformers computes from the marks in the template."""
    made = theirs.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **options)
    return made["input_ids"], made["assistant_masks"]


def ids(theirs, messages, **options):
    return theirs.apply_chat_template(messages, tokenize=True, return_dict=True, **options)["input_ids"]


def whole(tokens):
    return tokens, [0] + [1] * (len(tokens) - 1)


def last_turn(theirs, messages):
    """Returns the prompt of the model, and the tokens after it up to the stop token."""
    prompt, whole = ids(theirs, messages[:-1], add_generation_prompt=True), ids(theirs, messages)
    assert whole[:len(prompt)] == prompt
    end = whole.index(theirs.eos_token_id, len(prompt)) + 1
    return whole[:end], [0] * len(prompt) + [1] * (end - len(prompt))


def text_pair(theirs, prompt, completion):
    """Returns the ids of prompt and completion. If the ids of the joined text do not start with those of the prompt, the
    completion is encoded after a separator."""
    first, both = theirs(prompt)["input_ids"], theirs(prompt + completion)["input_ids"]
    mark = theirs("|")["input_ids"]
    behind = theirs("|" + completion)["input_ids"]
    assert behind[:len(mark)] == mark
    completion_ids = both[len(first):] if both[:len(first)] == first else behind[len(mark):]
    assert theirs.decode(first + completion_ids) == prompt + completion
    return first + completion_ids + [theirs.eos_token_id], [0] * len(first) + [1] * (len(completion_ids) + 1)


def negative_logp(net, sequences):
    """Returns the sum over the trained tokens of all sequences, and their count."""
    total, count = 0, 0
    for tokens, mask in sequences:
        logits = net(torch.tensor([tokens])).logits[0, :-1].double()
        logp = logits.log_softmax(-1).gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
        chosen = torch.tensor(mask[1:], dtype=torch.bool)
        total, count = total - logp[chosen].sum(), count + int(chosen.sum())
    return total, count


def keel(*arguments):
    result = support.keel(*arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Case:
    def __init__(self, name, template, rows, expected, *settings, metaspace=False):
        self.name, self.template, self.rows, self.expected, self.settings = name, template, rows, expected, settings
        self.metaspace = metaspace


CASES = [
    Case("messages", CHATML, [{"messages": talk} for talk in TALKS], lambda t: [marked(t, talk) for talk in TALKS]),
    Case("all tokens", CHATML, [{"messages": talk} for talk in TALKS],
         lambda t: [whole(ids(t, talk)) for talk in TALKS], "sft.loss_on=all"),
    Case("prompt and completion, messages", CHATML, [{"prompt": talk[:-1], "completion": talk[-1:]} for talk in TALKS if len(talk) != 3],
         lambda t: [last_turn(t, talk) for talk in TALKS if len(talk) != 3]),
    Case("prompt and completion, texts", CHATML, [{"prompt": a, "completion": b} for a, b in PAIRS], lambda t: [text_pair(t, a, b) for a, b in PAIRS],
         "data.chat=never"),
    Case("texts whose tokens begin with a blank", CHATML, [{"prompt": a, "completion": b} for a, b in PAIRS],
         lambda t: [text_pair(t, a, b) for a, b in PAIRS], "data.chat=never", metaspace=True),
    Case("texts as messages", CHATML, [{"question": a, "answer": b} for a, b in PAIRS],
         lambda t: [last_turn(t, [{"role": "system", "content": "owl"}, user(a), assistant(b)]) for a, b in PAIRS], "data.chat=always", "data.system_prompt=owl",
         "sft.prompt_key=question", "sft.completion_key=answer"),
    Case("columns by name", CHATML, [{"extra": {"q": a, "a": b}, "prompt": "no"} for a, b in PAIRS], lambda t: [text_pair(t, a, b) for a, b in PAIRS],
         "sft.prompt_key=extra.q", "sft.completion_key=extra.a", "data.chat=never"),
    Case("texts by themselves", CHATML, [{"text": a + b} for a, b in PAIRS],
         lambda t: [whole(t(a + b + t.eos_token)["input_ids"]) for a, b in PAIRS], "sft.text_key=text"),
    Case("a text column by its name", CHATML, [{"story": a + b, "text": "no"} for a, b in PAIRS],
         lambda t: [whole(t(a + b + t.eos_token)["input_ids"]) for a, b in PAIRS], "sft.text_key=story"),
    Case("tools", TOOLS_TEMPLATE, [{"messages": talk, "tools": TOOLS} for talk in TOOL_TALKS],
         lambda t: [marked(t, talk, tools=TOOLS) for talk in TOOL_TALKS]),
    Case("tools as a text, all tokens", TOOLS_TEMPLATE, [{"prompt": talk[:-1], "completion": talk[-1:], "tools": json.dumps(TOOLS)} for talk in TOOL_TALKS],
         lambda t: [whole(ids(t, talk, tools=TOOLS)) for talk in TOOL_TALKS], "sft.loss_on=all"),
    Case("reasoning_content", REASONING, [{"messages": talk} for talk in REASONED],
         lambda t: [last_turn(t, talk[:i + 1]) for talk in REASONED for i, m in enumerate(talk) if m["role"] == "assistant"]),
    Case("a template that rewrites", THINKING, [{"messages": talk} for talk in THOUGHTS],
         lambda t: [last_turn(t, talk[:i + 1]) for talk in THOUGHTS for i, m in enumerate(talk) if m["role"] == "assistant"]),
]


def check_losses(folder):
    """Compares the loss before the first update, on rows of every format."""
    worst = 0.0
    for case in CASES:
        place = folder / case.name.replace(",", "").replace(" ", "_")
        theirs = tokenizer(place, case.template, case.metaspace)
        net = model(place, "llama", len(theirs))
        data = write(place / "rows.jsonl", case.rows)
        keel("sft", f"model={place}", f"data.files=[{data}]", f"data.eval_files=[{data}]", f"run.dir={place / 'run'}", "run.threads=1",
             "sft.steps=1", "sft.batch=1", "checkpoint.every=0", *case.settings)
        before = next(row for row in support.metrics(place / "run") if row["phase"] == "eval")
        with torch.no_grad():
            total, count = negative_logp(net, case.expected(theirs))
        assert before["sft/eval_tokens"] == count, (case.name, before, count)
        gap = abs(before["sft/eval_loss"] - float(total) / count)
        assert gap < 1e-5, (case.name, before, float(total) / count)
        worst = max(worst, gap)
    print(f"{len(CASES)} forms of rows: the loss is transformers', to {worst:.1e}")


def change(net, start):
    return torch.cat([(p.detach().double() - s).flatten() for p, s in zip(net.parameters(), start)])


def check_updates(folder, family):
    """Two updates of three rows each; in one packed batch, and in batches of one row."""
    place = folder / family
    theirs = tokenizer(place, CHATML)
    net = model(place, family, len(theirs))
    talks = [TALKS[i] for i in (0, 1, 2, 3, 1, 0)]
    data = write(place / "rows.jsonl", [{"messages": talk} for talk in talks])
    start = [p.detach().double().clone() for p in net.parameters()]
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0)
    losses = []
    for update in range(2):
        total, count = negative_logp(net, [marked(theirs, talk) for talk in talks[3 * update:3 * update + 3]])
        losses.append(total.item() / count)
        (total / count).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    wanted, found = change(net, start), {}
    for tokens in (4096, 1):
        run = place / f"run-{tokens}"
        keel("sft", f"model={place}", f"data.files=[{data}]", f"run.dir={run}", "run.threads=1", "sft.batch=3", "sft.lr=1e-3", "data.shuffle=false",
             f"train.tokens_per_batch={tokens}")
        rows = [row["sft/loss"] for row in support.metrics(run) if row["phase"] == "sft"]
        assert len(rows) == 2 and all(abs(a - b) < 1e-5 for a, b in zip(rows, losses)), (rows, losses)
        trained = AutoModelForCausalLM.from_pretrained(run / "checkpoints" / support.checkpoints(run)[-1], dtype=torch.float32)
        found[tokens] = change(trained, start)
        gap = float((found[tokens] - wanted).norm() / wanted.norm())
        assert gap < 2e-3, (family, tokens, gap)
    packed = float((found[4096] - found[1]).norm() / wanted.norm())
    assert packed < 1e-3, packed
    print(f"{family}: two updates move the weights as torch's AdamW does, to {gap:.1e} of the way; packing changes {packed:.1e}")


def check_what_is_left(folder):
    """Checks that the last reported loss is that of the saved folder."""
    place = folder / "left"
    theirs = tokenizer(place, CHATML)
    model(place, "llama", len(theirs))
    data = write(place / "rows.jsonl", [{"messages": talk} for talk in TALKS])
    for name, settings in (("whole", ["sft.lr=1e-2"]), ("adapter", ["lora.rank=4", "sft.lr=5e-2", "lora.dropout=0.1"])):
        run = place / name
        keel("sft", f"model={place}", f"data.files=[{data}]", f"data.eval_files=[{data}]", f"run.dir={run}", "run.threads=1", "sft.batch=3",
             "sft.data_epochs=5", "sft.schedule=linear", "sft.warmup_updates=0.1", *settings)
        losses = [row["sft/eval_loss"] for row in support.metrics(run) if row["phase"] == "eval"]
        with torch.no_grad():
            trained = AutoModelForCausalLM.from_pretrained(run / "checkpoints" / support.checkpoints(run)[-1], dtype=torch.float32).eval()
            total, count = negative_logp(trained, [marked(theirs, talk) for talk in TALKS])
        assert abs(losses[-1] - float(total) / count) < 1e-4, (name, losses, float(total) / count)
        assert losses[-1] < 0.7 * losses[0], (name, losses)
        print(f"{name}: the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}, and transformers says the same of the folder")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_losses(folder)
        for family in ("llama", "qwen"):
            check_updates(folder, family)
        check_what_is_left(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
