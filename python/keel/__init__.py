"""Trust regions for reinforcement learning of language models, on torch tensors.

    decision = keel.token_coefficients("dppo_tv", {"low": 0.15, "high": 0.15}, logp=logp, behavior_logp=mu, advantages=A)
    loss = keel.policy_loss("drpo", logp=logp, behavior_logp=mu, advantages=A, lengths=lengths, horizon=4096)
    loss.backward()

Tensors are flat, one number per token, the sequences one after another; `lengths` says how long each is (masked tokens
included), `groups` which prompt each sequence answers. token_coefficients and policy_loss take padded tensors [B, T] with
a mask, too. float32 or float64, CPU or GPU. `keel.methods()` is the table of
methods; docs/methods.md explains each. Wrong arguments raise ValueError.

`keel.fused_log_probs` and `keel.fused_policy_loss` begin at the hidden states and never hold all logits; `keel.hf` has
the latter for models of Hugging Face's, `keel.trl` a trainer of TRL's with these methods (docs/trl.md).
"""

import json
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Union

import torch

from . import _arguments as take
from . import _head, _operators
from ._head import LogProbs, PolicyLoss, fused_log_probs

__all__ = [
    "AdvantagesAndReturns", "Aggregate", "Certificate", "Decision", "LogProbs", "PolicyLoss", "advantages", "aggregate", "certificate",
    "divergence", "fused_log_probs", "fused_policy_loss", "methods", "policy_loss", "token_coefficients",
]

Integers = Union[torch.Tensor, Sequence[int]]  # one per sequence
Flags = Union[torch.Tensor, Sequence[int], Sequence[bool]]  # one per token: booleans, or 0 and 1

_ops = _operators.load()
_head.register()


class Decision(NamedTuple):
    """What was decided about each token. Masked tokens: coefficient 0, kept, inside, divergence 0."""

    coefficient: torch.Tensor  # [N] g: the ascent direction is sum of g grad log pi, before aggregation
    keep: torch.Tensor  # [N] bool, False where the hard mask blocks the token
    outside: torch.Tensor  # [N] bool, beyond the region, blocked or not
    divergence: torch.Tensor  # [N] what the region measured; may be infinite
    threshold: torch.Tensor  # [N] what the divergence was held against
    clamped: torch.Tensor  # [] how many log-ratios, a token's or a sequence's, were beyond +-20 and clamped inside exp


class AdvantagesAndReturns(NamedTuple):
    advantages: torch.Tensor  # [N]
    returns: torch.Tensor  # [N] what the values should have been


class Aggregate(NamedTuple):
    loss: torch.Tensor  # scalar; its gradient with respect to the values is `weights`
    weights: torch.Tensor  # [N], 0 where masked


class Certificate(NamedTuple):
    """Theorem 3.2 of DPPO, estimated: a lower bound of J(pi) - J(mu). See docs/methods.md for what it is not."""

    gain: float  # mean over sequences of (R - b) sum_t (r_t - 1), b the mean reward of the group's others
    max_penalty: float  # 2 xi T (T - 1) max(tv)^2
    average_penalty: float  # 4 xi times the mean over sequences of the sum of tv, or of |r - 1|/2 where tv is too small
    average_penalty_low: float  # the same from tv, be it too small or not
    certificate: float  # gain - the smaller of the first two penalties
    standard_error: float  # of the certificate, over groups; inf where there are fewer than two
    improved: bool  # the certificate is above 0 by more than its error and rounding explain
    divergence: str  # which total variation tv is; "unnamed" where the caller did not say


def token_coefficients(
    region: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    advantages: torch.Tensor,
    mask: Optional[Flags] = None,
    lengths: Optional[Integers] = None,
    groups: Optional[Integers] = None,
    old_logp: Optional[torch.Tensor] = None,
    other_logp: Optional[torch.Tensor] = None,
    behavior_other_logp: Optional[torch.Tensor] = None,
    old_other_logp: Optional[torch.Tensor] = None,
    topk_behavior_logp: Optional[torch.Tensor] = None,
    topk_logp: Optional[torch.Tensor] = None,
    sampled_in_topk: Optional[Flags] = None,
    divergence: Optional[torch.Tensor] = None,
) -> Decision:
    """The coefficient that multiplies grad log pi of every token, and why. No gradient flows through it.

    `region` is a row of `keel.methods()` (or ppo_clip, dppo_binary_tv, dppo_binary_kl), `params` overrides its
    defaults. `divergence` [N] feeds exact divergences to the rows that measure them (dppo_full_tv, drpo_full_kl, ...).
    `other_logp`, `behavior_other_logp` and `old_other_logp` [N] are log(1 - p) beside logp, behavior_logp and old_logp.
    A binary KL needs them. Left out, they are made from the log-probs, and a logp that was rounded to 0 beside a
    behavior_logp below 0 is infinitely far from it; take them from the logits where tokens may be that sure.
    Padded tensors [B, T] (top-K ones [B, T, K], advantages also [B]) give padded ones; `mask` [B, T] says which tokens
    are there.
    """
    if isinstance(logp, torch.Tensor) and logp.dim() == 2:
        flat, row_lengths = take.rows_as_sequences(logp.shape, dict(
            logp=logp, behavior_logp=behavior_logp, advantages=advantages, mask=mask, old_logp=old_logp,
            other_logp=other_logp, behavior_other_logp=behavior_other_logp, old_other_logp=old_other_logp,
            topk_behavior_logp=topk_behavior_logp, topk_logp=topk_logp, sampled_in_topk=sampled_in_topk,
            divergence=divergence), lengths)
        *per_token, clamped = token_coefficients(region, params, lengths=row_lengths, groups=groups, **flat)
        return Decision(*(numbers.reshape(logp.shape) for numbers in per_token), clamped)
    logp = take.tensor("logp", logp)
    return Decision(*_ops.token_coefficients(
        take.word("region", region, "the name of a method"), *take.parameters(params), logp,
        take.tensor("behavior_logp", behavior_logp), take.tensor("advantages", advantages),
        take.flags("mask", mask, logp), take.integers("lengths", lengths), take.integers("groups", groups),
        take.optional_tensor("old_logp", old_logp), take.optional_tensor("other_logp", other_logp),
        take.optional_tensor("behavior_other_logp", behavior_other_logp),
        take.optional_tensor("old_other_logp", old_other_logp),
        take.optional_tensor("topk_behavior_logp", topk_behavior_logp),
        take.optional_tensor("topk_logp", topk_logp), take.flags("sampled_in_topk", sampled_in_topk, logp),
        take.optional_tensor("divergence", divergence)))


def divergence(
    kind: str,
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    other_logp: Optional[torch.Tensor] = None,
    behavior_other_logp: Optional[torch.Tensor] = None,
    topk_behavior_logp: Optional[torch.Tensor] = None,
    topk_logp: Optional[torch.Tensor] = None,
    sampled_in_topk: Optional[Flags] = None,
    support: str = "union",
) -> torch.Tensor:
    """binary_tv, binary_kl, topk_tv, topk_kl, k1, k2 or k3 of each token [N], mu first; full_tv and full_kl take whole
    rows of log-probs [N, V] as logp and behavior_logp. `other_logp` and `behavior_other_logp` [N], log(1 - p), are read
    by binary_kl and made from the log-probs where they are left out. `support` is the top-K divergences': "union", or
    "replace_last" as DPPO's authors released it."""
    logp = take.tensor("logp", logp)
    return _ops.divergence(
        take.word("kind", kind, "the name of a divergence"), logp, take.tensor("behavior_logp", behavior_logp),
        take.optional_tensor("other_logp", other_logp), take.optional_tensor("behavior_other_logp", behavior_other_logp),
        take.optional_tensor("topk_behavior_logp", topk_behavior_logp), take.optional_tensor("topk_logp", topk_logp),
        take.flags("sampled_in_topk", sampled_in_topk, logp), take.word("support", support, "union or replace_last"))


def advantages(
    kind: str,
    *,
    rewards: torch.Tensor,
    groups: Optional[Integers] = None,
    lengths: Optional[Integers] = None,
    mask: Optional[Flags] = None,
    values: Optional[torch.Tensor] = None,
    token_rewards: Optional[torch.Tensor] = None,
    **params: float,
) -> Union[torch.Tensor, AdvantagesAndReturns]:
    """group_mean, grpo (eps) or rloo: one advantage per sequence [S]. reinforce_pp (gamma, eps), reinforce_pp_baseline
    (eps): one per token [N]. gae (gamma, lambda or lam): `AdvantagesAndReturns`, one each per token [N]. `values` and
    `token_rewards` are read by gae alone: the others put a sequence's reward on its last valid token."""
    known = {"group_mean": (), "grpo": ("eps",), "rloo": (), "reinforce_pp": ("gamma", "eps"),
             "reinforce_pp_baseline": ("eps",), "gae": ("gamma", "lambda")}
    take.word("kind", kind, "the name of an advantage")
    if "lam" in params and "lambda" in params:
        raise ValueError(f"lam is {params['lam']!r} and lambda is {params['lambda']!r}: they are one parameter; keep one of them")
    numbers = {"lambda" if name == "lam" else name: value for name, value in params.items()}
    for name, value in numbers.items():
        if name not in known.get(kind, (name,)):
            raise ValueError(f"advantage {kind} has no parameter {name!r}; it has: {', '.join(known[kind]) or 'none'}")
        numbers[name] = take.optional_number(name, value, "a number")
    rewards = take.tensor("rewards", rewards)
    result, returns = _ops.advantages(
        kind, rewards, take.integers("groups", groups), take.integers("lengths", lengths),
        take.flags("mask", mask, rewards), take.optional_tensor("values", values),
        take.optional_tensor("token_rewards", token_rewards), numbers.get("gamma"), numbers.get("lambda"),
        numbers.get("eps"))
    return AdvantagesAndReturns(result, returns) if kind == "gae" else result


def aggregate(
    kind: str,
    *,
    values: torch.Tensor,
    mask: Optional[Flags] = None,
    lengths: Optional[Integers] = None,
    horizon: Optional[float] = None,
) -> Aggregate:
    """token_mean, seq_mean_token_mean, seq_mean_token_sum or seq_mean_token_sum_norm (which divides by `horizon`).

    Differentiable in `values`; a value where the mask is 0 is never read. Nothing valid: the loss is 0."""
    mask = take.flags("mask", mask, take.tensor("values", values))
    weights = _ops.aggregation_weights(
        take.word("kind", kind, "the name of an aggregation"), values.detach(), mask, take.integers("lengths", lengths),
        take.optional_number("horizon", horizon, "a number above 0"))
    return Aggregate((weights * _where_valid(mask, values)).sum(), weights)


def _aggregation(region, aggregation, lengths, like):
    """Its name: the row's own where none is given."""
    if aggregation is None:
        aggregation = _row(region)["aggregation"]
    take.word("aggregation", aggregation, "the name of an aggregation")
    if lengths is None and aggregation.startswith("seq_mean"):
        raise ValueError(f"lengths is not given, but {aggregation} is a mean over sequences; expected the length of each "
                         f"([{like.numel()}] where all tokens are of one), or padded tensors [B, T] with a mask")
    return aggregation


def _where_valid(mask, values):
    return values if mask is None else torch.where(mask != 0, values, torch.zeros_like(values))


def policy_loss(
    region: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    advantages: torch.Tensor,
    mask: Optional[Flags] = None,
    lengths: Optional[Integers] = None,
    groups: Optional[Integers] = None,
    aggregation: Optional[str] = None,
    horizon: Optional[float] = None,
    **known: Any,
) -> torch.Tensor:
    """A scalar to minimise: -sum_t w_t g_t log pi_t with g (token_coefficients) and w (aggregate) held constant, so that
    d loss / d logp_t = -w_t g_t. `aggregation` defaults to the method's own row; where that is seq_mean_token_sum_norm
    it divides by `horizon`, usually the longest completion, which must then be given. `known` is what else
    token_coefficients takes (old_logp, other_logp, topk_..., divergence). Padded tensors [B, T] with a mask are taken as
    there."""
    if isinstance(logp, torch.Tensor) and logp.dim() == 2:
        flat, lengths = take.rows_as_sequences(logp.shape, dict(
            logp=logp, behavior_logp=behavior_logp, advantages=advantages, mask=mask, **known), lengths)
        return policy_loss(region, params, lengths=lengths, groups=groups, aggregation=aggregation, horizon=horizon, **flat)
    decision = token_coefficients(region, params, logp=logp, behavior_logp=behavior_logp, advantages=advantages,
                                  mask=mask, lengths=lengths, groups=groups, **known)
    aggregation = _aggregation(region, aggregation, lengths, logp)
    values = decision.coefficient * _where_valid(take.flags("mask", mask, logp), logp)
    return -aggregate(aggregation, values=values, mask=mask, lengths=lengths, horizon=horizon).loss


def fused_policy_loss(
    region: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    behavior_logp: torch.Tensor,
    advantages: torch.Tensor,
    lengths: Optional[Integers] = None,
    groups: Optional[Integers] = None,
    aggregation: Optional[str] = None,
    horizon: Optional[float] = None,
    weights: Optional[torch.Tensor] = None,
    entropy_coefficient: float = 0.0,
    temperature: float = 1.0,
    softcap: Optional[float] = None,
    old_logp: Optional[torch.Tensor] = None,
    behavior_other_logp: Optional[torch.Tensor] = None,
    old_other_logp: Optional[torch.Tensor] = None,
    topk_ids: Optional[torch.Tensor] = None,
    topk_behavior_logp: Optional[torch.Tensor] = None,
    behavior_hidden: Optional[torch.Tensor] = None,
    behavior_weight: Optional[torch.Tensor] = None,
    chunk_rows: int = 0,
) -> PolicyLoss:
    """policy_loss from the hidden states [N, H] that predict `targets` [N] and the LM head's `weight` [V, H]: the loss, and
    its gradients in the same pass, while a chunk's logits are alive (backward() scales them). Numbers per token are float32
    and all of them count. Methods that judge more than a token compute the logits twice.

    `weights` [N] are the tokens' weights in the loss in place of an aggregation of this batch: those of the whole batch,
    where this is a part of it. The loss also has - entropy_coefficient sum w H. Rows over the sampler's likeliest tokens
    take `topk_ids` and `topk_behavior_logp` [N, K], exact ones `behavior_hidden` [N, H] and `behavior_weight` [V, H]."""
    options = _head.head_arguments(hidden, weight, targets, temperature, softcap, chunk_rows)
    advantages, lengths = take.tensor("advantages", advantages), take.integers("lengths", lengths)
    if weights is None:
        weights = _ops.aggregation_weights(_aggregation(region, aggregation, lengths, advantages), advantages, None, lengths,
                                           take.optional_number("horizon", horizon, "a number above 0"))
    elif aggregation is not None or horizon is not None:
        raise ValueError("weights are given beside aggregation or horizon, which would make others; keep one of them")
    optional = dict(old_logp=old_logp, behavior_other_logp=behavior_other_logp, old_other_logp=old_other_logp, topk_ids=topk_ids,
                    topk_behavior_logp=topk_behavior_logp, behavior_hidden=behavior_hidden, behavior_weight=behavior_weight)
    known = {name: take.optional_tensor(name, value) for name, value in optional.items()}
    known.update(behavior_logp=take.tensor("behavior_logp", behavior_logp), advantages=advantages, lengths=lengths,
                 groups=take.integers("groups", groups))
    loss, _, _, logp, entropy, *decision = _head.policy_head(
        hidden, weight, targets, region, params, take.tensor("weights", weights), known, options,
        take.number("entropy_coefficient", entropy_coefficient, "a number"))
    return PolicyLoss(loss, logp, entropy, Decision(*decision))


def certificate(
    *,
    logp: torch.Tensor,
    behavior_logp: torch.Tensor,
    rewards: torch.Tensor,
    lengths: Optional[Integers] = None,
    groups: Optional[Integers] = None,
    tv: Optional[torch.Tensor] = None,
    xi: Optional[float] = None,
    horizon: Optional[int] = None,
    divergence: Optional[str] = None,
) -> Certificate:
    """What Theorem 3.2 of DPPO says about an update, from sequences sampled from mu, all tokens valid. `groups` [S] is
    the prompt that each sequence answers (default: each one of its own). `tv` [N] is the total variation at each token
    and `divergence` names it ("full_tv", "topk_tv", "binary_tv"); left out, it is the binary one. That and the top-K one
    are lower bounds of the true one: the average penalty is then made of |r - 1|/2, but the max penalty comes out too
    small. `xi` bounds |reward|; left out, it is half the range of the rewards here. `horizon` is the length of a
    response (default: the longest here)."""
    logp, behavior_logp = take.tensor("logp", logp), take.tensor("behavior_logp", behavior_logp)
    rewards, tv = take.tensor("rewards", rewards), take.optional_tensor("tv", tv)
    lengths = take.integers("lengths", [logp.numel()] if lengths is None else lengths)
    groups = take.integers("groups", groups)
    for name, given in (("logp", logp), ("rewards", rewards), ("lengths", lengths), ("groups", groups)):
        if given is not None and given.is_meta:
            raise ValueError(f"{name} is on meta, where tensors have no numbers; expected one on a CPU or a GPU")
    if divergence not in (None, "binary_tv", "topk_tv", "full_tv"):
        take.refuse("divergence", divergence, "binary_tv, topk_tv or full_tv")
    if tv is None and divergence not in (None, "binary_tv"):
        take.refuse("divergence", divergence, "binary_tv, which is computed here, or that total variation as tv")
    if tv is None:
        tv = _ops.divergence("binary_tv", logp, behavior_logp, None, None, None, None, None, "union")
        divergence = "binary_tv"
    if xi is None:
        lowest, highest = (float(rewards.min()), float(rewards.max())) if rewards.numel() else (0.0, 0.0)
    else:
        highest = take.number("xi", xi, "a number")
        lowest = -highest
    if horizon is None:
        horizon = int(lengths.max()) if lengths.numel() else 0
    elif not (take.number("horizon", horizon, "an integer").is_integer() and 0 <= horizon <= 2**53):
        take.refuse("horizon", horizon, "an integer, the length of the longest response there can be")
    *numbers, improved = _ops.certificate(logp, behavior_logp, tv, rewards, lengths, groups, lowest, highest, int(horizon),
                                          divergence or "unnamed").tolist()
    return Certificate(*numbers, bool(improved), divergence or "unnamed")


def methods() -> Dict[str, Dict[str, Any]]:
    """The table of methods by name: sentence, equation, source, advantage, aggregation, parameters with their defaults
    (None: no limit), requirements."""
    return {row["name"]: row for row in json.loads(_ops.methods())}


@torch.compiler.assume_constant_result
def _row(region):
    also = {"ppo_clip": "ppo", "dppo_binary_tv": "dppo_tv", "dppo_binary_kl": "dppo_kl"}
    return methods()[also.get(region, region)]
