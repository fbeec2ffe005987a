"""Trust regions for reinforcement learning of language models, on torch tensors.

    decision = keel.token_coefficients("dppo_tv", {"low": 0.15, "high": 0.15}, logp=logp, behavior_logp=mu, advantages=A)
    loss = keel.policy_loss("drpo", logp=logp, behavior_logp=mu, advantages=A, lengths=lengths, aggregation="token_mean")
    loss.backward()

Tensors are flat, one number per token, the sequences one after another; `lengths` says how long each is (masked tokens
included), `groups` which prompt each sequence answers. float32 or float64, CPU or GPU. `keel.methods()` is the table of
methods; docs/methods.md explains each. Wrong arguments raise ValueError.
"""

import json
from typing import Any, Mapping, NamedTuple, Optional

import torch

from . import _operators

__all__ = [
    "AdvantagesAndReturns", "Aggregate", "Certificate", "Decision", "advantages", "aggregate", "certificate", "divergence", "methods",
    "policy_loss", "token_coefficients",
]

_ops = _operators.load()


class Decision(NamedTuple):
    """What was decided about each token. Masked tokens: coefficient 0, kept, inside, divergence 0."""

    coefficient: torch.Tensor  # [N] g: the ascent direction is sum of g grad log pi, before aggregation
    keep: torch.Tensor  # [N] bool, False where the hard mask blocks the token
    outside: torch.Tensor  # [N] bool, beyond the region, blocked or not
    divergence: torch.Tensor  # [N] what the region measured; may be infinite
    threshold: torch.Tensor  # [N] what the divergence was held against
    clamped: torch.Tensor  # [] how many tokens' log-ratio was beyond +-20 and clamped inside exp


class AdvantagesAndReturns(NamedTuple):
    advantages: torch.Tensor  # [N]
    returns: torch.Tensor  # [N] what the values should have been


class Aggregate(NamedTuple):
    loss: torch.Tensor  # scalar; its gradient with respect to the values is `weights`
    weights: torch.Tensor  # [N], 0 where masked


class Certificate(NamedTuple):
    """Theorem 3.2 of DPPO, estimated: a lower bound of J(pi) - J(mu). See docs/methods.md for what it is not."""

    gain: float  # mean over sequences of R sum_t (r_t - 1)
    max_penalty: float  # 2 xi T (T - 1) max(tv)^2
    average_penalty: float  # 4 xi times the mean over sequences of the sum of tv
    certificate: float  # gain - the smaller penalty
    divergence: str  # which total variation the penalties are made of


def _flags(mask):
    """A mask as a bool tensor; 0 and 1 are accepted."""
    if mask is None:
        return None
    mask = torch.as_tensor(mask)
    return mask if mask.dtype == torch.bool else mask != 0


def _integers(values):
    if values is None:
        return None
    values = torch.as_tensor(values)
    return values if values.numel() else values.to(torch.int64)  # an empty list has no type of its own


def _constant(tensor, name):
    if tensor is None:
        return None
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}; wanted a torch tensor")
    return tensor.detach()


@torch.compiler.assume_constant_result
def _text(params):
    """Parameters as the text the operator takes. None means "no limit" or "switched off"; so does an infinite number."""
    plain = {}
    for name, value in (params or {}).items():
        if isinstance(value, torch.Tensor) or hasattr(value, "item"):
            value = value.item()
        if isinstance(value, float) and value != value:
            raise ValueError(f"the parameter {name!r} is NaN; wanted a number above 0, or None for no limit")
        if isinstance(value, float) and value == float("inf"):
            value = None
        plain[name] = value
    return json.dumps(plain)


def token_coefficients(
    region: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    advantages: torch.Tensor,
    mask=None,
    lengths=None,
    groups=None,
    old_logp=None,
    topk_behavior_logp=None,
    topk_logp=None,
    sampled_in_topk=None,
    divergence=None,
) -> Decision:
    """The coefficient that multiplies grad log pi of every token, and why. No gradient flows through it.

    `region` is a row of `keel.methods()` (or ppo_clip, dppo_binary_tv, dppo_binary_kl), `params` overrides its
    defaults. `divergence` [N] feeds exact divergences to the rows that measure them (dppo_full_tv, drpo_full_kl, ...).
    """
    return Decision(*_ops.token_coefficients(
        region, _text(params), _constant(logp, "logp"), _constant(behavior_logp, "behavior_logp"),
        _constant(advantages, "advantages"), _flags(mask), _integers(lengths), _integers(groups),
        _constant(old_logp, "old_logp"), _constant(topk_behavior_logp, "topk_behavior_logp"),
        _constant(topk_logp, "topk_logp"), _flags(sampled_in_topk), _constant(divergence, "divergence")))


def divergence(
    kind: str,
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    topk_behavior_logp=None,
    topk_logp=None,
    sampled_in_topk=None,
    support: str = "union",
) -> torch.Tensor:
    """binary_tv, binary_kl, topk_tv, topk_kl, k1, k2 or k3 of each token [N], mu first; full_tv and full_kl take whole
    rows of log-probs [N, V] as logp and behavior_logp. `support` is the top-K divergences': "union", or "replace_last"
    as DPPO's authors released it."""
    return _ops.divergence(
        kind, _constant(logp, "logp"), _constant(behavior_logp, "behavior_logp"),
        _constant(topk_behavior_logp, "topk_behavior_logp"), _constant(topk_logp, "topk_logp"),
        _flags(sampled_in_topk), support)


def advantages(
    kind: str,
    *,
    rewards: torch.Tensor,
    groups=None,
    lengths=None,
    mask=None,
    values=None,
    token_rewards=None,
    **params,
):
    """group_mean, grpo (eps) or rloo: one advantage per sequence [S]. reinforce_pp (gamma, eps), reinforce_pp_baseline
    (eps): one per token [N]. gae (gamma, lambda or lam): `AdvantagesAndReturns`, one each per token [N]."""
    known = {"group_mean": (), "grpo": ("eps",), "rloo": (), "reinforce_pp": ("gamma", "eps"),
             "reinforce_pp_baseline": ("eps",), "gae": ("gamma", "lambda")}
    if "lam" in params:
        params["lambda"] = params.pop("lam")
    for name in params:
        if name not in known.get(kind, (name,)):
            raise ValueError(f"advantage {kind} has no parameter {name!r}; it has: {', '.join(known[kind]) or 'none'}")
        most = float("inf") if name == "eps" else 1.0
        if params[name] is not None and not 0 <= params[name] <= most or params[name] == float("inf"):
            raise ValueError(f"{name} is {params[name]}; wanted a number from 0 {'on' if name == 'eps' else 'to 1'}")
    result, returns = _ops.advantages(
        kind, _constant(rewards, "rewards"), _integers(groups), _integers(lengths), _flags(mask),
        _constant(values, "values"), _constant(token_rewards, "token_rewards"), params.get("gamma"),
        params.get("lambda"), params.get("eps"))
    return AdvantagesAndReturns(result, returns) if kind == "gae" else result


def aggregate(kind: str, *, values: torch.Tensor, mask=None, lengths=None, horizon: Optional[float] = None) -> Aggregate:
    """token_mean, seq_mean_token_mean, seq_mean_token_sum or seq_mean_token_sum_norm (which divides by `horizon`).

    Differentiable in `values`; a value where the mask is 0 is never read. Nothing valid: the loss is 0."""
    mask = _flags(mask)
    weights = _ops.aggregation_weights(kind, _constant(values, "values"), mask, _integers(lengths), horizon)
    valid = values if mask is None else torch.where(mask, values, torch.zeros_like(values))
    return Aggregate((weights * valid).sum(), weights)


def policy_loss(
    region: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    advantages: torch.Tensor,
    mask=None,
    lengths=None,
    groups=None,
    aggregation: Optional[str] = None,
    horizon: Optional[float] = None,
    **known,
) -> torch.Tensor:
    """A scalar to minimise: -sum_t w_t g_t log pi_t with g (token_coefficients) and w (aggregate) held constant, so that
    d loss / d logp_t = -w_t g_t. `aggregation` defaults to the method's own row; `known` is what else
    token_coefficients takes (old_logp, topk_..., divergence)."""
    decision = token_coefficients(region, params, logp=logp, behavior_logp=behavior_logp, advantages=advantages,
                                  mask=mask, lengths=lengths, groups=groups, **known)
    if aggregation is None:
        aggregation = _row(region)["aggregation"]
    mask = _flags(mask)
    valid = logp if mask is None else torch.where(mask, logp, torch.zeros_like(logp))
    return -aggregate(aggregation, values=decision.coefficient * valid, mask=mask, lengths=lengths, horizon=horizon).loss


def certificate(
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    rewards: torch.Tensor,
    lengths=None,
    tv=None,
    xi: Optional[float] = None,
    horizon: Optional[int] = None,
    divergence: str = "full_tv",
) -> Certificate:
    """What Theorem 3.2 of DPPO says about an update, from sequences sampled from mu, all tokens valid. `tv` [N] is the
    total variation at each token and `divergence` names it ("full_tv", "topk_tv", "binary_tv"); left out, it is the
    binary one, a lower bound of the true one, and the certificate is optimistic. `xi` bounds |reward| (default: the
    largest here), `horizon` the length of a response (default: the longest here)."""
    if tv is None:
        tv, divergence = _ops.divergence("binary_tv", _constant(logp, "logp"), _constant(behavior_logp, "behavior_logp"),
                                         None, None, None, "union"), "binary_tv"
    lengths = _integers([logp.numel()] if lengths is None else lengths)
    if xi is None:
        xi = float(rewards.abs().max()) if rewards.numel() else 0.0
    if horizon is None:
        horizon = int(lengths.max()) if lengths.numel() else 0
    numbers = _ops.certificate(_constant(logp, "logp"), _constant(behavior_logp, "behavior_logp"), _constant(tv, "tv"),
                               _constant(rewards, "rewards"), lengths, float(xi), int(horizon), divergence)
    return Certificate(*numbers.tolist(), divergence)


def methods() -> dict:
    """The table of methods by name: sentence, equation, source, advantage, aggregation, parameters with their defaults
    (None: no limit), requirements."""
    return {row["name"]: row for row in json.loads(_ops.methods())}


@torch.compiler.assume_constant_result
def _row(region):
    also = {"ppo_clip": "ppo", "dppo_binary_tv": "dppo_tv", "dppo_binary_kl": "dppo_kl"}
    return methods()[also.get(region, region)]
