"""keel.hf.fused_policy_loss on Hugging Face models, compared with their logits and autograd; and its errors. Needs only the package
transformers."""

import os
import sys

import torch

from peers import refused, run, skip

try:
    import peft
    import transformers
except ImportError as error:
    skip(f"{error.name} is missing; scripts/bootstrap.sh --tests installs it")

import keel.hf  # noqa: E402

torch.set_num_threads(1)
SIZES = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)


def make(kind, **changes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, **changes})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def make_batch(model, seed=1):
    """Prompts padded left, completions padded right, and a sampler that differs slightly."""
    torch.manual_seed(seed)
    rows, before, behind = 4, 6, 9
    places = torch.arange(before)
    batch = dict(prompt_ids=torch.randint(3, 61, (rows, before)), prompt_mask=(places >= torch.tensor([0, 2, 4, 1])[:, None]).long(),
                 completion_ids=torch.randint(3, 61, (rows, behind)),
                 completion_mask=(torch.arange(behind) < torch.tensor([9, 1, 5, 8])[:, None]).long(), advantages=torch.randn(rows))
    batch["behavior_logp"] = (keel.hf.log_probs(model, batch) + 0.3 * torch.randn(rows, behind)).clamp(max=-1e-3)
    return batch


def own_logp(model, batch, temperature=1.0):
    """From the model's own logits, with the positions that generate uses."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=attention, position_ids=positions).logits[:, batch["prompt_ids"].shape[1] - 1:-1]
    return torch.log_softmax(logits.double() / temperature, -1)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def compare(model, method="dppo_tv", parameters=None, temperature=1.0):
    batch = make_batch(model)
    mask = batch["completion_mask"]
    out = keel.hf.fused_policy_loss(model, batch, method, parameters, temperature=temperature, horizon=16)
    ours = gradients(model, out.loss)
    every = own_logp(model, batch, temperature)
    logp = every.gather(-1, batch["completion_ids"][..., None])[..., 0].clamp(max=0)
    known = {name: batch[name].double() for name in ("behavior_logp", "advantages")}
    want = keel.policy_loss(method, parameters, logp=logp, mask=mask, horizon=16, **known)
    theirs = gradients(model, want)
    assert abs(out.loss.item() - want.item()) < 1e-5 * max(1, abs(want.item())), f"{out.loss.item()}, by its logits {want.item()}"
    assert ours.keys() == theirs.keys()
    scale = max(gradient.abs().max() for gradient in theirs.values())
    off = max(((ours[name] - theirs[name]).abs().max() / scale).item() for name in ours)
    assert off < 1e-5, f"gradients are {off:.2g} off, relative to the largest"
    assert (out.logp - logp.detach() * mask).abs().max() < 1e-5
    assert (out.entropy - (-(every.exp() * every).sum(-1) * mask).detach()).abs().max() < 1e-5
    assert out.decision.keep.shape == mask.shape and out.decision.keep[mask == 0].all()
    return off


def loss_and_gradients_equal_those_from_the_models_logits():
    worst = max(compare(make("Llama", tie_word_embeddings=False)), compare(make("Qwen2", tie_word_embeddings=True), "ppo", temperature=0.7),
                compare(make("Gemma2", final_logit_softcapping=3.0, head_dim=8), "dppo_kl", {"high": 0.02}),
                compare(make("Qwen3", head_dim=8, tie_word_embeddings=False), "gspo", {"low": 0.01, "high": 0.01}))
    return f"four families, at most {worst:.1g} off"


def an_adapter_is_trained_while_the_head_is_frozen():
    model = peft.get_peft_model(make("Llama", tie_word_embeddings=False), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    compare(model)
    assert model.get_base_model().lm_head.weight.grad is None


def a_batch_without_valid_tokens_has_zero_gradients():
    model = make("Llama", tie_word_embeddings=False)
    batch = make_batch(model)
    batch["completion_mask"] = batch["completion_mask"] * 0
    likeliest = own_logp(model, batch, 1.0).detach().topk(3)
    for method in ("dppo_tv", "grpo", "dppo_topk_tv", "dppo_topk_kl"):
        rows = {"topk_ids": likeliest.indices, "topk_behavior_logp": likeliest.values.float()} if "topk" in method else {}
        out = keel.hf.fused_policy_loss(model, {**batch, **rows}, method, horizon=8)
        assert out.loss.item() == 0, f"{method}: {out.loss.item()}"
        assert all(gradient.abs().max() == 0 for gradient in gradients(model, out.loss).values()), method


def parts_with_the_weights_of_the_whole_add_up():
    model = make("Llama", tie_word_embeddings=False)
    batch = make_batch(model)
    whole = gradients(model, keel.hf.fused_policy_loss(model, batch, "drpo", aggregation="token_mean").loss)
    weights = batch["completion_mask"] / batch["completion_mask"].sum()
    model.zero_grad()
    for rows in (slice(0, 1), slice(1, 4)):
        part = {name: value[rows] for name, value in batch.items()}
        keel.hf.fused_policy_loss(model, part, "drpo", weights=weights[rows]).loss.backward()
    off = max((parameter.grad - whole[name]).abs().max().item() for name, parameter in model.named_parameters())
    assert off < 1e-6, f"{off:.2g}"


def unsupported_inputs_are_refused():
    model = make("Llama", tie_word_embeddings=False)
    batch = make_batch(model)
    loss = keel.hf.fused_policy_loss
    biased = make("Llama", tie_word_embeddings=False)
    biased.lm_head = torch.nn.Linear(32, 61)
    scaled = make("Granite", logits_scaling=4.0)
    adapted = peft.get_peft_model(make("Llama", tie_word_embeddings=False), peft.LoraConfig(r=2, target_modules=["lm_head"]))

    top = own_logp(model, batch).float().topk(3)
    likeliest = dict(topk_ids=top.indices, topk_behavior_logp=top.values.detach())

    class Wrapped(torch.nn.parallel.DistributedDataParallel):
        def __init__(self, module):
            torch.nn.Module.__init__(self)
            self.module = module

    cases = [
        (lambda: loss(biased, batch), "the head has a bias"),
        (lambda: loss(scaled, batch), "more than a head and a soft-cap"),
        (lambda: loss(adapted, batch), "without adapter"),
        (lambda: loss(Wrapped(model), batch), "is wrapped in Wrapped"),
        (lambda: loss(torch.nn.Linear(2, 2), batch), "expected a Hugging Face causal language model"),
        (lambda: loss(model, {**batch, "behavior_logp": None}), "batch['behavior_logp'] is None"),
        (lambda: loss(model, {name: value for name, value in batch.items() if name != "advantages"}), "batch['advantages'] is missing"),
        (lambda: loss(model, {**batch, "behavior_logp": batch["behavior_logp"][:, 1:]}), "batch['behavior_logp'] is [4, 8]"),
        (lambda: loss(model, {**batch, "advantages": torch.randn(3)}), "batch['advantages'] is [3]"),
        (lambda: loss(model, {**batch, "prompt_mask": batch["prompt_mask"].flip(1)}), "batch['prompt_mask'] has padding in row 1 that is not on the left"),
        (lambda: loss(model, {**batch, "prompt_mask": batch["prompt_mask"] * 0}), "batch['prompt_mask'] has padding in row 0"),
        (lambda: loss(model, {**batch, "completion_mask": batch["completion_mask"].flip(1)}), "batch['completion_mask'] has padding in row 1"),
        (lambda: loss(model, {**batch, "completion_mask": batch["completion_mask"] / 2}), "batch['completion_mask'] has values other than 0 and 1"),
        (lambda: keel.hf.log_probs(model, {**batch, "prompt_mask": batch["prompt_mask"] * float("nan")}), "batch['prompt_mask'] has values other"),
        (lambda: loss(model, batch), "horizon is not given"),
        (lambda: loss(model, {**batch, "advantages": batch["advantages"] * 1j}, horizon=8), "batch['advantages'] is complex"),
        (lambda: loss(model, batch, "dppo_topk_tv", horizon=8), "needs topk_ids"),
        (lambda: loss(model, {**batch, **likeliest, "topk_behavior_logp": likeliest["topk_behavior_logp"][..., :2]}, "dppo_topk_tv", horizon=8),
         "topk_behavior_logp is [23, 2], but topk_ids is [23, 3]"),
        (lambda: loss(model, {**batch, **likeliest, "topk_ids": likeliest["topk_ids"][..., [0, 1, 1]]}, "dppo_topk_tv", horizon=8),
         "topk_ids[0] has a duplicate token"),
        *((lambda name=name, value=value: loss(model, {**batch, **likeliest, name: value}, "dppo_topk_tv", horizon=8), message)
          for name, value, message in (
              ("topk_ids", top.indices.tolist(), "batch['topk_ids'] is [[["),
              ("topk_ids", top.indices.float(), "batch['topk_ids'] is torch.float32; expected token ids"),
              ("topk_ids", top.indices[..., 0], "batch['topk_ids'] is [4, 9]; completions are [4, 9], prompts [4, 6]; expected [4, 9], with K"),
              ("old_logp", [0.5], "batch['old_logp'] is [0.5]; expected a tensor [B, C]"),
              ("behavior_logp", top.values.detach(), "batch['behavior_logp'] is [4, 9, 3]"),
              ("completion_ids", batch["completion_ids"].double(), "batch['completion_ids'] is torch.float64"))),
        *((lambda weights=weights: loss(model, batch, weights=weights), message)
          for weights, message in ((torch.ones(4), "weights is [4]; expected a tensor [4, 9]"), (torch.ones(9, 4), "weights is [9, 4]; expected"),
                                   ([1.0], "weights is [1.0]; expected a tensor [4, 9]"))),
    ]
    refused(cases)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(run([loss_and_gradients_equal_those_from_the_models_logits, an_adapter_is_trained_while_the_head_is_frozen,
                  parts_with_the_weights_of_the_whole_add_up, a_batch_without_valid_tokens_has_zero_gradients,
                  unsupported_inputs_are_refused]))
