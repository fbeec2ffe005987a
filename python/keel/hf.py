"""Losses of Hugging Face's causal language models that never hold all logits.

    batch = dict(prompt_ids=..., prompt_mask=..., completion_ids=..., completion_mask=..., advantages=...)
    batch["behavior_logp"] = keel.hf.log_probs(model, batch)          # right after sampling, or what the sampler recorded
    out = keel.hf.fused_policy_loss(model, batch, method="dppo_tv", horizon=64)
    out.loss.backward()

Prompts [B, P] are padded on the left, completions [B, C] on the right, as `generate` and TRL have them; numbers per token
are [B, C], advantages also [B]. Needs nothing of the package transformers itself.
"""

import inspect
import weakref
from typing import Any, Mapping, Optional

import torch

from . import Decision, PolicyLoss
from . import fused_log_probs as _fused_log_probs
from . import fused_policy_loss as _fused_policy_loss

__all__ = ["fused_policy_loss", "log_probs"]

_REQUIRED = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
_TOP_K = ("topk_ids", "topk_behavior_logp")
_PER_TOKEN = ("behavior_logp", "old_logp", "behavior_other_logp", "old_other_logp", *_TOP_K)
_IDS = ("prompt_ids", "completion_ids", "topk_ids")
_known_heads: "weakref.WeakSet[torch.nn.Module]" = weakref.WeakSet()


def fused_policy_loss(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    method: str = "dppo_tv",
    parameters: Optional[Mapping[str, Any]] = None,
    *,
    temperature: float = 1.0,
    aggregation: Optional[str] = None,
    horizon: Optional[float] = None,
    weights: Optional[torch.Tensor] = None,
    entropy_coefficient: float = 0.0,
) -> PolicyLoss:
    """The loss of any row of `keel.methods()` on a batch, with the gradients of head and hidden states from the same pass.

    The batch may have, beside what the module's example has, `old_logp`, `behavior_other_logp`, `old_other_logp` [B, C],
    `topk_ids`, `topk_behavior_logp` [B, C, K] and `groups` [B]. `temperature` is the sampler's. `weights` [B, C] are the
    tokens' weights in the loss, for a batch that is a part of a larger one (keel.aggregate has them); otherwise
    `aggregation`, the row's own where it is not given, and `horizon` make them of this batch. What is returned about
    tokens is [B, C], and 0 (kept, inside) where there is none."""
    mask = _checked(batch, "behavior_logp", "advantages")
    if weights is not None and (not isinstance(weights, torch.Tensor) or weights.shape != mask.shape):
        given = list(weights.shape) if isinstance(weights, torch.Tensor) else f"{repr(weights):.80}"
        raise ValueError(f"weights is {given}; expected a tensor {list(mask.shape)}, a weight for each token of the completions")
    hidden, weight, softcap = _states(model, batch, mask)
    advantages = batch["advantages"]
    if advantages.dim() == 1:
        advantages = advantages[:, None].expand(mask.shape)
    known = {name: batch[name][mask] for name in _PER_TOKEN if batch.get(name) is not None}
    flat = _fused_policy_loss(
        method, parameters, hidden=hidden, weight=weight, targets=batch["completion_ids"][mask],
        advantages=advantages[mask].float(), lengths=mask.sum(1), groups=batch.get("groups"), aggregation=aggregation,
        horizon=horizon, weights=None if weights is None else weights[mask], entropy_coefficient=entropy_coefficient,
        temperature=temperature, softcap=softcap, **known)

    def padded(values, otherwise=0):
        return values.new_full(mask.shape, otherwise).masked_scatter(mask, values)

    g, keep, outside, divergence, threshold, clamped = flat.decision
    decision = Decision(padded(g), padded(keep, True), padded(outside), padded(divergence), padded(threshold), clamped)
    return PolicyLoss(flat.loss, padded(flat.logp), padded(flat.entropy), decision)


@torch.no_grad()
def log_probs(model: torch.nn.Module, batch: Mapping[str, torch.Tensor], temperature: float = 1.0) -> torch.Tensor:
    """The log-probability [B, C] of every token of the completions, 0 where there is none; no gradient."""
    mask = _checked(batch)
    hidden, weight, softcap = _states(model, batch, mask)
    logp = _fused_log_probs(hidden, weight, batch["completion_ids"][mask], temperature, softcap=softcap).logp
    return logp.new_zeros(mask.shape).masked_scatter(mask, logp)


def _checked(batch, *more):
    """The mask of the completions [B, C], of a batch whose tensors fit one another."""
    for name in (*_REQUIRED, *more):
        if not isinstance(batch.get(name), torch.Tensor):
            given = f"{batch[name]!r}"[:80] if name in batch else "missing"
            raise ValueError(f"batch[{name!r}] is {given}; expected a tensor. A batch has {', '.join((*_REQUIRED, *more))}")
    for name in _PER_TOKEN:
        if batch.get(name) is not None and not isinstance(batch[name], torch.Tensor):
            raise ValueError(f"batch[{name!r}] is {repr(batch[name]):.80}; expected a tensor [{'B, C, K' if name in _TOP_K else 'B, C'}]")
    for name in _IDS:
        if batch.get(name) is not None and batch[name].dtype not in (torch.int64, torch.int32):
            raise ValueError(f"batch[{name!r}] is of {batch[name].dtype}; expected the numbers of tokens, torch.int64")
    shapes = {name: tuple(value.shape) for name, value in batch.items() if isinstance(value, torch.Tensor)}
    completions, prompts = shapes["completion_ids"], shapes["prompt_ids"]
    if len(completions) != 2 or len(prompts) != 2 or prompts[1] == 0:
        raise ValueError(f"completion_ids is {list(completions)} and prompt_ids {list(prompts)}; expected [B, C] and [B, P], P at least 1")
    wanted = {"completion_mask": completions, "prompt_mask": prompts, "prompt_ids": (completions[0], prompts[1]),
              **dict.fromkeys(_PER_TOKEN, completions)}
    for name, shape in wanted.items():
        if name in shapes and (shapes[name][:2] != shape or len(shapes[name]) != (3 if name in _TOP_K else 2)):
            raise ValueError(f"batch[{name!r}] is {list(shapes[name])} beside completions {list(completions)} and prompts {list(prompts)}; "
                             f"expected {list(shape)}{', with K behind them' if name in _TOP_K else ''}")
    if "advantages" in shapes and shapes["advantages"] not in (completions, completions[:1]):
        raise ValueError(f"batch['advantages'] is {list(shapes['advantages'])}; expected {list(completions[:1])} or {list(completions)}")
    if "advantages" in shapes and batch["advantages"].is_complex():
        raise ValueError("batch['advantages'] has complex numbers; expected real ones")
    _require_padding(batch, "prompt_mask", "left")
    _require_padding(batch, "completion_mask", "right")
    return batch["completion_mask"].bool()


def _require_padding(batch, name, side):
    """Padding in any other place would stand before a token, which would be predicted from it."""
    there = batch[name].bool()
    if (batch[name] != there).any():
        raise ValueError(f"batch[{name!r}] has other numbers than 0 and 1; expected 1 where there is a token and 0 where there is none")
    tokens_first = there.flip(1) if side == "left" else there
    misplaced = (tokens_first[:, 1:] > tokens_first[:, :-1]).any(1)
    if side == "left":
        misplaced |= ~there[:, -1]
    if misplaced.any():
        raise ValueError(f"batch[{name!r}] has padding in row {int(misplaced.nonzero()[0])} that is not on the {side}; expected prompts padded on "
                         "the left (padding_side=\"left\" of a tokenizer), each with a token at least, and completions padded on the right")


def _states(model, batch, mask):
    """The hidden states [N, H] that predict the completions' tokens, the head's weight, and its soft-cap."""
    body, head, softcap = _parts(model)
    if model not in _known_heads:
        _require_this_head(model, body, head, softcap, batch)
        _known_heads.add(model)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], mask.to(batch["prompt_mask"].dtype)], 1)
    first = batch["prompt_ids"].shape[1] - 1
    return _hidden_states(body, ids, attention)[:, first:-1][mask], head.weight, softcap


def _hidden_states(body, ids, attention):
    more = {}
    if "position_ids" in inspect.signature(body.forward).parameters:  # as generate counts them behind padding
        more["position_ids"] = (attention.long().cumsum(1) - 1).clamp(min=0)
    return body(input_ids=ids, attention_mask=attention, use_cache=False, **more).last_hidden_state


def _parts(model):
    """What makes hidden states, the head, and its soft-cap."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel) or hasattr(model, "_fsdp_wrapped_module"):
        raise ValueError(f"the model is wrapped in {type(model).__name__}, whose sums of gradients begin in its forward, which is not "
                         "called here; sum the gradients of the bare model, or use keel.trl.KeelGRPOTrainer")
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not hasattr(inner, "get_output_embeddings") or not hasattr(inner, "base_model"):
        raise ValueError(f"the model is a {type(model).__name__}; expected a causal language model of Hugging Face's")
    head = inner.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear) or hasattr(head, "base_layer") or not head.weight.is_floating_point():
        raise ValueError(f"the head is a {type(head).__name__}; expected a plain linear layer without an adapter or quantization: "
                         "take keel.policy_loss on the logits' log-probabilities instead")
    if head.bias is not None:
        raise ValueError("the head has a bias, which the fused head has not: take keel.policy_loss on the logits' "
                         "log-probabilities instead")
    config = inner.config.get_text_config() if hasattr(inner.config, "get_text_config") else inner.config
    return inner.base_model, head, getattr(config, "final_logit_softcapping", None) or 0.0


@torch.no_grad()
def _require_this_head(model, body, head, softcap, batch):
    """Asks the model itself once: a forward that does more to its logits (a scale, a bias, virtual tokens) would be trained
    as another model."""
    ids = batch["prompt_ids"][:1, -8:]
    was_training = model.training
    model.eval()
    try:
        want = torch.log_softmax(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, -1].float(), -1)[0]
        hidden = _hidden_states(body, ids, torch.ones_like(ids))[:, -1]
    finally:
        model.train(was_training)
    tokens = want.topk(min(32, want.numel())).indices
    got = _fused_log_probs(hidden.expand(len(tokens), -1), head.weight, tokens, softcap=softcap).logp
    off, allowed = (got - want[tokens]).abs().max().item(), 1e-3 if head.weight.dtype == torch.float32 else 0.1
    if not off <= allowed:
        raise ValueError(f"log-probabilities of the fused head are {off:.3g} off those of {type(model).__name__}: its forward does more to "
                         "logits than a head and a soft-cap. Take keel.policy_loss on the logits' log-probabilities instead")
