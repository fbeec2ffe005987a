"""LoRA compared with PEFT: an adapter written by PEFT gives the same results in Keel, and one trained by Keel gives the
same results in PEFT as the merged folder in transformers."""

import functools
import json
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "cli"))
import support  # noqa: E402
from packages import skip  # noqa: E402

PROMPT = "<bos> 1 + 2 * 3 ="


try:
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
except ImportError as missing:
    skip(missing)

torch.set_num_threads(1)  # the models are small, and other tests run in parallel


def keel(*arguments):
    result = support.keel(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def start_folder(folder):
    """Creates a model folder with the tokenizer of the quickstart; transformers then replaces its weights."""
    keel("train", pathlib.Path(__file__).parents[2] / "examples" / "quickstart.yaml", f"run.dir={folder}/start",
         "sft.steps=0", "train.steps=0", "eval.prompts=0")
    (checkpoint,) = (pathlib.Path(folder) / "start" / "checkpoints").glob("step-*")
    return checkpoint


def random_base(architecture, like, folder):
    torch.manual_seed(7)
    vocabulary = json.loads((like / "config.json").read_text())["vocab_size"]
    sizes = dict(vocab_size=vocabulary, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.2, bos_token_id=1, eos_token_id=2,
                 pad_token_id=0)
    model = LlamaForCausalLM(LlamaConfig(**sizes)) if architecture == "llama" else Qwen2ForCausalLM(Qwen2Config(**sizes))
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((like / name).read_bytes())


def samples(folder, adapter=None):
    """Returns completions of Keel: tokens and their log-probs."""
    extra = ("--adapter", adapter) if adapter else ()
    lines = keel("generate", "--model", folder, *extra, "--prompt", PROMPT, "-n", "8", "--max-new-tokens", "12", "--json")
    return [(row["tokens"], torch.tensor(row["logprobs"], dtype=torch.float64)) for row in map(json.loads, lines.splitlines())]


base_samples = functools.cache(samples)


def judge(model, prompt, tokens):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1:-1].double()
    return logits.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]


def prompt_ids(folder):
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    return [vocabulary[word] for word in PROMPT.split()]


def logits_of(model, prompt):
    with torch.no_grad():
        return model(torch.tensor([prompt])).logits.double()


def check_theirs_in_keel(base_folder, folder, options):
    base = AutoModelForCausalLM.from_pretrained(base_folder, dtype=torch.float32).eval()
    torch.manual_seed(3)  # also for the matrices A; a random adapter may not change the samples
    adapted = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **options))
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    adapted.save_pretrained(folder / "theirs")
    adapted.eval()
    prompt = prompt_ids(base_folder)
    adapted_samples = samples(base_folder, folder / "theirs")
    difference = max((mine - judge(adapted, prompt, tokens)).abs().max().item() for tokens, mine in adapted_samples)
    assert [tokens for tokens, _ in adapted_samples] != [tokens for tokens, _ in base_samples(base_folder)], "a void test"
    assert difference < 1e-4, f"{base_folder.name} {options}: log-probs differ by {difference}"
    return difference


def check_ours_in_peft(base_folder, folder, options):
    keel("train", pathlib.Path(__file__).parents[2] / "examples" / "quickstart.yaml", f"model.path={base_folder}",
         f"run.dir={folder}/run", *MODEL_RESET, "sft.steps=3", "sft.noisy_steps=1", "train.steps=1", "eval.prompts=0",
         "train.prompts_per_step=2", "train.sequences_per_update=0", *options)
    checkpoint = sorted((folder / "run" / "checkpoints").glob("step-*"))[-1]
    base = AutoModelForCausalLM.from_pretrained(base_folder, dtype=torch.float32).eval()
    prompt = prompt_ids(base_folder)
    before = logits_of(base, prompt)
    adapter = PeftModel.from_pretrained(base, checkpoint / "adapter")
    dropout = 0.25 if "lora.dropout=0.25" in options else 0
    assert adapter.peft_config["default"].lora_dropout == dropout, adapter.peft_config
    ours = logits_of(adapter.eval(), prompt)
    merged = logits_of(AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval(), prompt)
    assert (ours - before).abs().max() > 1e-4, "training moved nothing: a void test"
    difference = (ours - merged).abs().max().item()
    assert difference < 1e-4, f"{base_folder.name} {options}: adapter and merged folder differ by {difference}"
    return difference


# The example creates a network; a run from a folder must not set sizes.
MODEL_RESET = ("model.initializer_range=0.02", "model.max_positions=2048")
THEIRS = [dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
          dict(r=3, lora_alpha=5, use_rslora=True, target_modules="all-linear"),
          dict(r=8, lora_alpha=16, target_modules=["o_proj", "up_proj", "down_proj", "gate_proj", "k_proj"]),
          dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"],
               rank_pattern={"down_proj": 2, "layers.1.self_attn.q_proj": 6},
               alpha_pattern={"v_proj": 3, r"model\.layers\.0\..*q_proj": 20}),
          dict(r=4, lora_alpha=8, use_rslora=True, target_modules=["k_proj", "up_proj"], rank_pattern={"^model.*k_proj": 9},
               alpha_pattern={"up_proj": 1}),
          dict(r=2, lora_alpha=9, target_modules=["q_proj", "gate_proj"], layers_to_transform=[1], layers_pattern="layers"),
          dict(r=2, lora_alpha=9, target_modules=["o_proj", "model.layers.1.mlp.up_proj"], layers_to_transform=0),
          dict(r=2, lora_alpha=9, target_modules=r".*\.(q|k)_proj|model\.layers\.1\.mlp\..*_proj"),
          dict(r=2, lora_alpha=9, target_modules="all-linear", exclude_modules=["down_proj", "layers.0.self_attn.q_proj"]),
          dict(r=2, lora_alpha=9, target_modules=["v_proj", "o_proj"], exclude_modules=r".*layers\.0\..*o_proj")]
OURS = [("lora.rank=4",), ("lora.rank=4", "lora.dropout=0.25"), ("lora.rank=3", "lora.rank_stabilized=true", "lora.alpha=2"),
        ("lora.rank=2", 'lora.target_modules=["q_proj", "down_proj"]')]


def main():
    worst = 0.0
    with tempfile.TemporaryDirectory() as shared:
        like = start_folder(shared)
        for architecture in ("llama", "qwen2"):
            base_folder = pathlib.Path(shared) / architecture
            random_base(architecture, like, base_folder)
            for check, cases in ((check_theirs_in_keel, THEIRS), (check_ours_in_peft, OURS)):
                for options in cases:
                    with tempfile.TemporaryDirectory() as folder:
                        worst = max(worst, check(base_folder, pathlib.Path(folder), options))
    print(f"{2 * (len(THEIRS) + len(OURS))} adapters, worst difference {worst:.1e}")


main()
