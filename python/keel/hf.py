"""Memory-efficient losses for Hugging Face causal language models: all logits are never in memory at once.

    batch = dict(prompt_ids=..., prompt_mask=..., completion_ids=..., completion_mask=..., advantages=...)
    batch["behavior_logp"] = keel.hf.log_probs(model, batch)          # right after sampling, or as recorded by the sampler
    out = keel.hf.fused_policy_loss(model, batch, method="dppo_tv", horizon=64)
    out.loss.backward()

Prompts [B, P] are padded left, completions [B, C] right, as in `generate` and TRL. Values per token are [B, C],
advantages also [B]. The package transformers is not imported.
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
_verified_models: "weakref.WeakSet[torch.nn.Module]" = weakref.WeakSet()


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
    """The loss of any method of `keel.methods()` on a batch. The gradients of head and hidden states come from the same pass.

    Optional keys of the batch: `old_logp`, `behavior_other_logp`, `old_other_logp` [B, C], `topk_ids`,
    `topk_behavior_logp` [B, C, K] and `groups` [B]. `temperature` is that of the sampler. `weights` [B, C] are the tokens'
    weights in the loss, for a part of a larger batch (see keel.aggregate). Without them, `aggregation` (default: the
    method's) and `horizon` define the weights. Results per token are [B, C]; padding has 0, is kept and inside."""
    mask = _check_batch(batch, "behavior_logp", "advantages")
    if weights is not None and (not isinstance(weights, torch.Tensor) or weights.shape != mask.shape):
        given = list(weights.shape) if isinstance(weights, torch.Tensor) else f"{repr(weights):.80}"
        raise ValueError(f"weights is {given}; expected a tensor {list(mask.shape)}, one weight per completion token")
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

    def padded(values, fill=0):
        return values.new_full(mask.shape, fill).masked_scatter(mask, values)

    g, keep, outside, divergence, threshold, clamped = flat.decision
    decision = Decision(padded(g), padded(keep, True), padded(outside), padded(divergence), padded(threshold), clamped)
    return PolicyLoss(flat.loss, padded(flat.logp), padded(flat.entropy), decision)


@torch.no_grad()
def log_probs(model: torch.nn.Module, batch: Mapping[str, torch.Tensor], temperature: float = 1.0) -> torch.Tensor:
    """The log-probabilities [B, C] of the completion tokens, 0 for padding; no gradient."""
    mask = _check_batch(batch)
    hidden, weight, softcap = _states(model, batch, mask)
    logp = _fused_log_probs(hidden, weight, batch["completion_ids"][mask], temperature, softcap=softcap).logp
    return logp.new_zeros(mask.shape).masked_scatter(mask, logp)


def _check_batch(batch, *more):
    """Checks a batch and returns the completion mask [B, C]."""
    for name in (*_REQUIRED, *more):
        if not isinstance(batch.get(name), torch.Tensor):
            given = f"{batch[name]!r}"[:80] if name in batch else "missing"
            raise ValueError(f"batch[{name!r}] is {given}; expected a tensor. A batch has {', '.join((*_REQUIRED, *more))}")
    for name in _PER_TOKEN:
        if batch.get(name) is not None and not isinstance(batch[name], torch.Tensor):
            raise ValueError(f"batch[{name!r}] is {repr(batch[name]):.80}; expected a tensor [{'B, C, K' if name in _TOP_K else 'B, C'}]")
    for name in _IDS:
        if batch.get(name) is not None and batch[name].dtype not in (torch.int64, torch.int32):
            raise ValueError(f"batch[{name!r}] is {batch[name].dtype}; expected token ids, torch.int64")
    shapes = {name: tuple(value.shape) for name, value in batch.items() if isinstance(value, torch.Tensor)}
    completions, prompts = shapes["completion_ids"], shapes["prompt_ids"]
    if len(completions) != 2 or len(prompts) != 2 or prompts[1] == 0:
        raise ValueError(f"completion_ids is {list(completions)} and prompt_ids {list(prompts)}; expected [B, C] and [B, P], P at least 1")
    expected = {"completion_mask": completions, "prompt_mask": prompts, "prompt_ids": (completions[0], prompts[1]),
                **dict.fromkeys(_PER_TOKEN, completions)}
    for name, shape in expected.items():
        if name in shapes and (shapes[name][:2] != shape or len(shapes[name]) != (3 if name in _TOP_K else 2)):
            raise ValueError(f"batch[{name!r}] is {list(shapes[name])}; completions are {list(completions)}, prompts {list(prompts)}; "
                             f"expected {list(shape)}{', with K as the last dimension' if name in _TOP_K else ''}")
    if "advantages" in shapes and shapes["advantages"] not in (completions, completions[:1]):
        raise ValueError(f"batch['advantages'] is {list(shapes['advantages'])}; expected {list(completions[:1])} or {list(completions)}")
    if "advantages" in shapes and batch["advantages"].is_complex():
        raise ValueError("batch['advantages'] is complex; expected real numbers")
    _require_padding(batch, "prompt_mask", "left")
    _require_padding(batch, "completion_mask", "right")
    return batch["completion_mask"].bool()


def _require_padding(batch, name, side):
    """Rejects padding between tokens, which would become their context."""
    is_token = batch[name].bool()
    if (batch[name] != is_token).any():
        raise ValueError(f"batch[{name!r}] has values other than 0 and 1; expected 1 for tokens and 0 for padding")
    tokens_first = is_token.flip(1) if side == "left" else is_token
    misplaced = (tokens_first[:, 1:] > tokens_first[:, :-1]).any(1)
    if side == "left":
        misplaced |= ~is_token[:, -1]
    if misplaced.any():
        raise ValueError(f"batch[{name!r}] has padding in row {int(misplaced.nonzero()[0])} that is not on the {side}; expected prompts padded "
                         "left (tokenizer padding_side=\"left\") with at least one token, and completions padded right")


def _states(model, batch, mask):
    """The hidden states [N, H] that predict the completion tokens, the head's weight, and its soft-cap."""
    body, head, softcap = _split_model(model)
    if model not in _verified_models:
        _verify_head(model, body, head, softcap, batch)
        _verified_models.add(model)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], mask.to(batch["prompt_mask"].dtype)], 1)
    first = batch["prompt_ids"].shape[1] - 1
    return _hidden_states(body, ids, attention)[:, first:-1][mask], head.weight, softcap


def _hidden_states(body, ids, attention):
    positions = {}
    if "position_ids" in inspect.signature(body.forward).parameters:  # as in generate: padding is not counted
        positions["position_ids"] = (attention.long().cumsum(1) - 1).clamp(min=0)
    return body(input_ids=ids, attention_mask=attention, use_cache=False, **positions).last_hidden_state


def _split_model(model):
    """The backbone, the head, and its soft-cap."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel) or hasattr(model, "_fsdp_wrapped_module"):
        raise ValueError(f"the model is wrapped in {type(model).__name__}, which synchronises gradients in its forward, which is not "
                         "called here. Fix: reduce the gradients of the unwrapped model, or use keel.trl.KeelGRPOTrainer")
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not hasattr(inner, "get_output_embeddings") or not hasattr(inner, "base_model"):
        raise ValueError(f"the model is a {type(model).__name__}; expected a Hugging Face causal language model")
    head = inner.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear) or hasattr(head, "base_layer") or not head.weight.is_floating_point():
        raise ValueError(f"the head is a {type(head).__name__}; expected a linear layer without adapter or quantization. "
                         "Fix: use keel.policy_loss with log-probabilities from the logits")
    if head.bias is not None:
        raise ValueError("the head has a bias, which the fused head does not support. Fix: use keel.policy_loss with "
                         "log-probabilities from the logits")
    config = inner.config.get_text_config() if hasattr(inner.config, "get_text_config") else inner.config
    return inner.base_model, head, getattr(config, "final_logit_softcapping", None) or 0.0


@torch.no_grad()
def _verify_head(model, body, head, softcap, batch):
    """Compares with the logits of the model once, since its forward may do more: a scale, a bias, virtual tokens."""
    ids = batch["prompt_ids"][:1, -8:]
    was_training = model.training
    model.eval()
    try:
        expected = torch.log_softmax(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, -1].float(), -1)[0]
        hidden = _hidden_states(body, ids, torch.ones_like(ids))[:, -1]
    finally:
        model.train(was_training)
    tokens = expected.topk(min(32, expected.numel())).indices
    actual = _fused_log_probs(hidden.expand(len(tokens), -1), head.weight, tokens, softcap=softcap).logp
    error, tolerance = (actual - expected[tokens]).abs().max().item(), 1e-3 if head.weight.dtype == torch.float32 else 0.1
    if not error <= tolerance:
        raise ValueError(f"log-probabilities of the fused head differ by {error:.3g} from those of {type(model).__name__}: its forward does "
                         "more than a head and a soft-cap. Fix: use keel.policy_loss with log-probabilities from the logits")
