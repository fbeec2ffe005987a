"""The fused LM head: log-probabilities and losses from hidden states [N, H] and the head's weight [V, H], with only the
logits of one chunk of rows in memory (64 MiB on a CPU, 768 MiB on a GPU)."""

from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import library

from . import _arguments as convert
from ._operators import check_devices


_PER_TOKEN = ("behavior_logp", "advantages", "weights", "lengths", "groups", "old_logp", "behavior_other_logp", "old_other_logp",
              "topk_ids", "topk_behavior_logp", "behavior_hidden", "behavior_weight")  # in the order of operator policy_head


class LogProbs(NamedTuple):
    logp: torch.Tensor  # [N] log p of the targets, differentiable
    entropy: torch.Tensor  # [N] entropy of the next-token distribution, differentiable
    other_logp: torch.Tensor  # [N] log(1 - p), exact where log p rounds to 0; no gradient
    topk_logp: Optional[torch.Tensor]  # [N, K] log p of topk_ids, no gradient; None without topk_ids


class PolicyLoss(NamedTuple):
    loss: torch.Tensor  # scalar, to be minimised
    logp: torch.Tensor  # [N] no gradient, as for the other fields below
    entropy: torch.Tensor  # [N]
    decision: Any  # keel.Decision, [N] each


def head_arguments(hidden, weight, targets, temperature, softcap, chunk_rows):
    """Checks the arguments and returns the options of the operators."""
    for name, value in (("hidden", hidden), ("weight", weight), ("targets", targets)):
        if not isinstance(value, torch.Tensor):
            convert.refuse(name, value, "a torch tensor")
    if isinstance(chunk_rows, bool) or not isinstance(chunk_rows, int):
        convert.refuse("chunk_rows", chunk_rows, "an integer, or 0 to fit the memory budget")
    return (convert.number("temperature", temperature, "a number above 0"),
            0.0 if softcap is None else convert.number("softcap", softcap, "a number, or None for no cap"), chunk_rows)


def fused_log_probs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    temperature: float = 1.0,
    *,
    softcap: Optional[float] = None,
    topk_ids: Optional[torch.Tensor] = None,
    chunk_rows: int = 0,
) -> LogProbs:
    """The log-probabilities of `targets` [N] under softmax(softcap(hidden weight^T) / temperature).

    Logits are computed chunk by chunk, and recomputed in the backward pass. Inputs are float32, bfloat16 or float16; sums
    and results are float32. `softcap` is the logit soft-cap of Gemma 2, `topk_ids` [N, K] are further tokens, `chunk_rows`
    is the number of rows per chunk. A bias is not supported."""
    options = head_arguments(hidden, weight, targets, temperature, softcap, chunk_rows)
    logp, other_logp, entropy, topk = torch.ops.keel.head_log_probs(
        hidden, weight, targets, convert.optional_tensor("topk_ids", topk_ids), *options)
    return LogProbs(logp, entropy, other_logp, None if topk_ids is None else topk)


def policy_head(hidden, weight, targets, method, params, token_weights, known, options, entropy_coefficient):
    """The loss and its gradients: the result of operator policy_head. `known` has the per-token inputs by the operator's
    names."""
    needs_grad = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    return torch.ops.keel.policy_head(
        hidden, weight, targets, convert.string("method", method, "the name of a method"), *convert.parameters(params),
        known["behavior_logp"], known["advantages"], token_weights, known["lengths"], known["groups"], known["old_logp"],
        known["behavior_other_logp"], known["old_other_logp"], known["topk_ids"], known["topk_behavior_logp"],
        known["behavior_hidden"], known["behavior_weight"], entropy_coefficient, *options, needs_grad,
        needs_grad and weight.requires_grad)


def register() -> None:
    """Registers fake implementations for torch.compile and the backward passes."""
    _register_log_probs()
    _register_policy_head()


def _float32(like, *shape):
    return like.new_empty(shape, dtype=torch.float32)


def _register_log_probs():
    @library.register_fake("keel::head_log_probs")
    def _(hidden, weight, targets, topk_ids, temperature, softcap, chunk_rows):
        check_devices(hidden, dict(weight=weight, targets=targets, topk_ids=topk_ids))
        rows = hidden.shape[0]
        return (*(_float32(hidden, rows) for _ in range(3)), _float32(hidden, rows, 0 if topk_ids is None else topk_ids.shape[1]))

    @library.register_fake("keel::head_gradients")
    def _(hidden, weight, targets, coefficient, entropy_coefficient, temperature, softcap, chunk_rows, weight_gradient):
        return _float32(hidden, *hidden.shape), _float32(weight, *(weight.shape if weight_gradient else (0,)))

    def setup(ctx, inputs, output):
        hidden, weight, targets, _, *ctx.options = inputs
        ctx.save_for_backward(hidden, weight, targets)
        ctx.mark_non_differentiable(output[1], output[3])

    def backward(ctx, grad_logp, grad_other_logp, grad_entropy, grad_topk):
        hidden, weight, targets = ctx.saved_tensors
        grad_hidden, grad_weight = torch.ops.keel.head_gradients(
            hidden, weight, targets, -grad_logp, -grad_entropy, *ctx.options, ctx.needs_input_grad[1])
        return (grad_hidden.to(hidden.dtype), grad_weight.to(weight.dtype) if ctx.needs_input_grad[1] else None, *(None,) * 5)

    library.register_autograd("keel::head_log_probs", backward, setup_context=setup)


def _register_policy_head():
    @library.register_fake("keel::policy_head")
    def _(hidden, weight, targets, *arguments):
        *_, gradients, weight_gradient = arguments
        named = dict(zip(_PER_TOKEN, arguments[5:]))
        any_device = [(name, named.pop(name)) for name in ("lengths", "groups")]
        check_devices(hidden, dict(weight=weight, targets=targets, **named), any_device)
        rows = hidden.shape[0]
        flags = [hidden.new_empty(rows, dtype=torch.bool) for _ in range(2)]
        values = [_float32(hidden, rows) for _ in range(5)]
        return (_float32(hidden), _float32(hidden, *(hidden.shape if gradients else (0,))),
                _float32(weight, *(weight.shape if weight_gradient else (0,))), *values[:3], *flags, *values[3:],
                hidden.new_empty((), dtype=torch.int64))

    def setup(ctx, inputs, output):
        hidden, weight = inputs[:2]
        ctx.types = hidden.dtype, weight.dtype
        ctx.save_for_backward(output[1], output[2])
        ctx.mark_non_differentiable(*output[1:])

    def backward(ctx, grad_loss, *_):
        gradients = [None, None]
        for i, (gradient, dtype) in enumerate(zip(ctx.saved_tensors, ctx.types)):
            if ctx.needs_input_grad[i]:
                gradients[i] = (gradient * grad_loss).to(dtype)
        return (*gradients, *(None,) * 24)

    library.register_autograd("keel::policy_head", backward, setup_context=setup)
