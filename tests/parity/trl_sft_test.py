"""SFT configurations of TRL through `keel import`: rows of every format of TRL give the same tokens and labels as SFTTrainer,
and two updates give the same weights as trainer.train(). The expected values come from SFTTrainer."""

import json
import pathlib
import sys
import tempfile

from packages import count, skip, use

use("trl")
try:
    import torch
    import yaml
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer
except ImportError as missing:
    skip(missing)

from sft_parity_test import CHATML, PAIRS, TALKS, TOOL_TALKS, TOOLS, TOOLS_TEMPLATE, assistant, change, keel, model, tokenizer, user, write
import support

ON_CPU = {"use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True}  # otherwise TRL requires a GPU
TALKED = [talk for talk in TALKS if len(talk) != 3]

# Name, template, rows, arguments.
FORMS = [
    ("messages", CHATML, [{"messages": talk} for talk in TALKS], {}),
    ("messages, the words of the assistant", CHATML, [{"messages": talk} for talk in TALKS], {"assistant_only_loss": True}),
    ("prompts and completions, messages", CHATML, [{"prompt": talk[:-1], "completion": talk[-1:]} for talk in TALKED], {}),
    ("completions of several messages", CHATML,
     [{"prompt": [user("a")], "completion": [assistant("the mat"), user("and?"), assistant("two dogs")]},
      {"prompt": TALKS[0][:1], "completion": TALKS[0][1:]}], {}),
    ("prompts and completions, texts", CHATML, [{"prompt": a, "completion": b} for a, b in PAIRS if not a.endswith(" ")], {}),
    ("prompts, too", CHATML, [{"prompt": talk[:-1], "completion": talk[-1:]} for talk in TALKED], {"completion_only_loss": False}),
    ("texts", CHATML, [{"text": a + b} for a, b in PAIRS] + [{"text": "two dogs<|im_end|>"}], {}),
    ("texts of another column", CHATML, [{"story": a + b} for a, b in PAIRS], {"dataset_text_field": "story"}),
    ("tools", TOOLS_TEMPLATE, [{"messages": talk, "tools": json.dumps(TOOLS)} for talk in TOOL_TALKS], {}),
    ("tools, the words of the assistant", TOOLS_TEMPLATE, [{"messages": talk, "tools": json.dumps(TOOLS)} for talk in TOOL_TALKS],
     {"assistant_only_loss": True}),
]
# Extra settings of Keel for the columns of a format.
COLUMNS = {"texts": ["sft.text_key=text"]}


def loss_of(net, rows):
    """Returns the mean over all labels, and their count."""
    total, count = 0.0, 0
    for row in rows:
        logp = net(torch.tensor([row["input_ids"]])).logits[0, :-1].double().log_softmax(-1)
        for at, label in enumerate(row["labels"][1:]):
            if label != -100:
                total, count = total - float(logp[at, label]), count + 1
    return total / count, count


def imported(place, config, data, *settings):
    recipe = place / "recipe.json"
    recipe.write_text(json.dumps({"SFTConfig": json.loads(config.to_json_string()), "model_name_or_path": str(place), "dataset_name": str(data)}))
    result = support.keel("import", recipe, "-o", place / "keel.yaml", "--overwrite", *settings)
    assert result.returncode == 0, result.stderr
    return place / "keel.yaml", result.stderr


def check_form(folder, trains, name, template, rows, arguments):
    place = folder / name.replace(",", "").replace(" ", "_")
    theirs = tokenizer(place, template)
    net = model(place, "llama", len(theirs))
    data = write(place / "rows.jsonl", rows)
    start = [p.detach().double().clone() for p in net.parameters()]
    # An update has all rows, so their order does not matter; the rate decreases.
    config = SFTConfig(output_dir=str(place / "trl"), per_device_train_batch_size=1, gradient_accumulation_steps=len(rows), num_train_epochs=2,
                       learning_rate=1e-3, weight_decay=0.1, max_length=400, save_strategy="no", **ON_CPU, **arguments)
    trainer = SFTTrainer(model=net, args=config, train_dataset=Dataset.from_list(rows), processing_class=theirs)
    with torch.no_grad():
        loss, count = loss_of(net.eval(), trainer.train_dataset)
    written, messages = imported(place, config, data, *(["sft.text_key=text"] if "text" in rows[0] else []))
    keel("sft", written, f"run.dir={place / 'run'}", "run.threads=1", f"sft.eval_files=[{data}]")
    before = next(row for row in support.metrics(place / "run") if row["phase"] == "eval")
    assert before["sft/eval_tokens"] == count, (name, before["sft/eval_tokens"], count)
    gap = abs(before["sft/eval_loss"] - loss)
    assert gap < 1e-5, (name, before["sft/eval_loss"], loss)
    if not trains:
        return gap, 0.0
    trainer.train()
    wanted = change(net, start)
    folder_left = place / "run" / "checkpoints" / support.checkpoints(place / "run")[-1]
    found = change(AutoModelForCausalLM.from_pretrained(folder_left, dtype=torch.float32), start)
    way = float((found - wanted).norm() / wanted.norm())
    assert way < 3e-3, (name, way)
    return gap, way


def check_defaults(folder):
    """An SFTConfig saved by TRL: unsupported settings with their default give no warning."""
    config = SFTConfig(output_dir="runs/trl", **ON_CPU)
    written, messages = imported(folder, config, "rows.jsonl")
    settings = yaml.safe_load(written.read_text())
    for key, want in (("lr", config.learning_rate), ("schedule", "linear"), ("data_epochs", config.num_train_epochs),
                      ("batch", config.per_device_train_batch_size), ("max_tokens", config.max_length), ("beta2", config.adam_beta2),
                      ("loss_on", "completion"), ("max_grad_norm", config.max_grad_norm)):
        assert type(want)(settings["sft"][key]) == want, (key, settings["sft"][key], want)
    for key in ("steps", "text_key", "eval_every", "warmup_updates"):
        assert key not in settings["sft"] or not settings["sft"][key], (key, settings["sft"])
    assert "TRL truncates longer rows" in messages, messages


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_defaults(folder)
        gaps = [check_form(folder, i % count(4, 1) == 0, *form) for i, form in enumerate(FORMS)]
        print(f"{len(FORMS)} forms of rows: losses are TRL's to {max(g for g, _ in gaps):.1e}, weights after two updates to "
              f"{max(w for _, w in gaps):.1e} of the way")
    return 0


if __name__ == "__main__":
    sys.exit(main())
