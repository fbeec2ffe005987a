"""Trust regions for reinforcement learning of language models, on torch tensors.

    decision = keel.token_coefficients("dppo_tv", {"low": 0.15, "high": 0.15}, logp=logp, behavior_logp=mu, advantages=A)
    loss = keel.policy_loss("drpo", logp=logp, behavior_logp=mu, advantages=A, lengths=lengths, horizon=4096)
    loss.backward()

Tensors are flat: one value per token, sequences concatenated. `lengths` are the lengths of the sequences (with masked
tokens), `groups` the prompt of each sequence. token_coefficients and policy_loss also accept padded tensors [B, T] with a
mask. Tensors are float32 or float64, on CPU or GPU. `keel.methods()` is the table of methods; docs/methods.md explains
each. Invalid arguments raise ValueError.

`keel.fused_log_probs` and `keel.fused_policy_loss` start from the hidden states and never hold all logits. `keel.hf`
applies the latter to Hugging Face models; `keel.trl` is TRL's GRPOTrainer with these methods (docs/trl.md).
"""

import json
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Union

import torch

from . import _arguments as convert
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
    """The decision about each token. Masked tokens have coefficient 0 and divergence 0, and are kept and inside."""

    coefficient: torch.Tensor  # [N] g: the ascent direction is sum of g grad log pi, before aggregation
    keep: torch.Tensor  # [N] bool, False where the hard mask blocks the token
    outside: torch.Tensor  # [N] bool, outside the trust region, blocked or not
    divergence: torch.Tensor  # [N] the divergence of the region; may be infinite
    threshold: torch.Tensor  # [N] the threshold for the divergence
    clamped: torch.Tensor  # [] number of log-ratios (per token or sequence) clamped to +-20 inside exp


class AdvantagesAndReturns(NamedTuple):
    advantages: torch.Tensor  # [N]
    returns: torch.Tensor  # [N] the targets of the values


class Aggregate(NamedTuple):
    loss: torch.Tensor  # scalar; its gradient with respect to the values is `weights`
    weights: torch.Tensor  # [N], 0 where masked


class Certificate(NamedTuple):
    """Estimate of Theorem 3.2 of DPPO: a lower bound of J(pi) - J(mu). See docs/methods.md for its limits."""

    gain: float  # mean over sequences of (R - b) sum_t (r_t - 1), b the mean reward of the other members of the group
    max_penalty: float  # 2 xi T (T - 1) max(tv)^2
    average_penalty: float  # 4 xi times the mean over sequences of the sum of tv, or of |r - 1|/2 if tv is only a lower bound
    average_penalty_low: float  # always from tv
    certificate: float  # gain - min(max_penalty, average_penalty)
    standard_error: float  # of the certificate, over groups; inf for fewer than two groups
    improved: bool  # whether the certificate is above 0 by more than its standard error and rounding
    divergence: str  # which total variation tv is; "unnamed" if not given


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
    """The coefficient that multiplies grad log pi of every token, with its reasons. No gradient flows through it.

    `region` is a row of `keel.methods()` (or ppo_clip, dppo_binary_tv, dppo_binary_kl), `params` overrides its
    defaults. `divergence` [N] feeds exact divergences to the rows that measure them (dppo_full_tv, drpo_full_kl, ...).
    `other_logp`, `behavior_other_logp` and `old_other_logp` [N] are log(1 - p) for logp, behavior_logp and old_logp, which
    a binary KL needs. By default they are computed from the log-probs: then a logp rounded to 0 has an infinite KL to a
    behavior_logp below 0. Compute them from the logits if tokens may be that certain.
    Padded tensors [B, T] (top-K: [B, T, K], advantages also [B]) give padded results; `mask` [B, T] marks the tokens.
    """
    if isinstance(logp, torch.Tensor) and logp.dim() == 2:
        flat, row_lengths = convert.rows_as_sequences(logp.shape, dict(
            logp=logp, behavior_logp=behavior_logp, advantages=advantages, mask=mask, old_logp=old_logp,
            other_logp=other_logp, behavior_other_logp=behavior_other_logp, old_other_logp=old_other_logp,
            topk_behavior_logp=topk_behavior_logp, topk_logp=topk_logp, sampled_in_topk=sampled_in_topk,
            divergence=divergence), lengths)
        *per_token, clamped = token_coefficients(region, params, lengths=row_lengths, groups=groups, **flat)
        return Decision(*(values.reshape(logp.shape) for values in per_token), clamped)
    logp = convert.tensor("logp", logp)
    return Decision(*_ops.token_coefficients(
        convert.string("region", region, "the name of a method"), *convert.parameters(params), logp,
        convert.tensor("behavior_logp", behavior_logp), convert.tensor("advantages", advantages),
        convert.flags("mask", mask, logp), convert.integers("lengths", lengths), convert.integers("groups", groups),
        convert.optional_tensor("old_logp", old_logp), convert.optional_tensor("other_logp", other_logp),
        convert.optional_tensor("behavior_other_logp", behavior_other_logp),
        convert.optional_tensor("old_other_logp", old_other_logp),
        convert.optional_tensor("topk_behavior_logp", topk_behavior_logp),
        convert.optional_tensor("topk_logp", topk_logp), convert.flags("sampled_in_topk", sampled_in_topk, logp),
        convert.optional_tensor("divergence", divergence)))


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
    """The divergence D(mu || pi) of each token [N]: binary_tv, binary_kl, topk_tv, topk_kl, k1, k2 or k3. full_tv and
    full_kl take full rows of log-probs [N, V] as logp and behavior_logp. binary_kl uses `other_logp` and
    `behavior_other_logp` [N], log(1 - p), by default computed from the log-probs. `support` of the top-K divergences is
    "union", or "replace_last" as in the released code of DPPO."""
    logp = convert.tensor("logp", logp)
    return _ops.divergence(
        convert.string("kind", kind, "the name of a divergence"), logp, convert.tensor("behavior_logp", behavior_logp),
        convert.optional_tensor("other_logp", other_logp), convert.optional_tensor("behavior_other_logp", behavior_other_logp),
        convert.optional_tensor("topk_behavior_logp", topk_behavior_logp), convert.optional_tensor("topk_logp", topk_logp),
        convert.flags("sampled_in_topk", sampled_in_topk, logp), convert.string("support", support, "union or replace_last"))


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
    """Advantages. group_mean, grpo (eps), rloo, maxrl and batch_mean: per sequence [S]. reinforce_pp (gamma, eps) and reinforce_pp_baseline
    (eps): per token [N]. gae (gamma, lambda or lam): `AdvantagesAndReturns` per token [N]. Only gae reads `values` and
    `token_rewards`; the others put a sequence's reward on its last valid token."""
    known = {"group_mean": (), "grpo": ("eps",), "rloo": (), "maxrl": (), "batch_mean": (), "reinforce_pp": ("gamma", "eps"),
             "reinforce_pp_baseline": ("eps",), "gae": ("gamma", "lambda")}
    if convert.string("kind", kind, "the name of an advantage") == "gdpo":
        raise ValueError("advantage gdpo needs the rewards of each function, so only training has it; expected another advantage")
    if "lam" in params and "lambda" in params:
        raise ValueError(f"lam is {params['lam']!r} and lambda is {params['lambda']!r}: both name the same parameter; keep one of them")
    parameters = {"lambda" if name == "lam" else name: value for name, value in params.items()}
    for name, value in parameters.items():
        if name not in known.get(kind, (name,)):
            raise ValueError(f"advantage {kind} has no parameter {name!r}; it has: {', '.join(known[kind]) or 'none'}")
        parameters[name] = convert.optional_number(name, value, "a number")
    rewards = convert.tensor("rewards", rewards)
    result, returns = _ops.advantages(
        kind, rewards, convert.integers("groups", groups), convert.integers("lengths", lengths),
        convert.flags("mask", mask, rewards), convert.optional_tensor("values", values),
        convert.optional_tensor("token_rewards", token_rewards), parameters.get("gamma"), parameters.get("lambda"),
        parameters.get("eps"))
    return AdvantagesAndReturns(result, returns) if kind == "gae" else result


def aggregate(
    kind: str,
    *,
    values: torch.Tensor,
    mask: Optional[Flags] = None,
    lengths: Optional[Integers] = None,
    horizon: Optional[float] = None,
    groups: Optional[Integers] = None,
) -> Aggregate:
    """token_mean, seq_mean_token_mean, seq_mean_token_sum, seq_mean_token_sum_norm (which divides by `horizon`) or
    prompt_mean (which needs `groups`, the prompt of each sequence).

    Differentiable in `values`. Masked values are never read. Without valid tokens the loss is 0."""
    mask = convert.flags("mask", mask, convert.tensor("values", values))
    weights = _ops.aggregation_weights(
        convert.string("kind", kind, "the name of an aggregation"), values.detach(), mask, convert.integers("lengths", lengths),
        convert.optional_number("horizon", horizon, "a number above 0"), convert.integers("groups", groups))
    return Aggregate((weights * _zero_masked(mask, values)).sum(), weights)


def _aggregation(region, aggregation, lengths, like):
    """The aggregation's name; by default that of the method."""
    if aggregation is None:
        aggregation = _method_row(region)["aggregation"]
    convert.string("aggregation", aggregation, "the name of an aggregation")
    if lengths is None and aggregation.startswith("seq_mean"):
        raise ValueError(f"{aggregation} is a mean over sequences and needs lengths; expected the length of each "
                         f"([{like.numel()}] for one sequence), or padded tensors [B, T] with a mask")
    return aggregation


def _zero_masked(mask, values):
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
    centering: str = "none",
    centering_logp: Optional[torch.Tensor] = None,
    centering_behavior_logp: Optional[torch.Tensor] = None,
    **known: Any,
) -> torch.Tensor:
    """A scalar to minimise: -sum_t w_t g_t log pi_t with g (token_coefficients) and w (aggregate) held constant, so that
    d loss / d logp_t = -w_t g_t. `aggregation` defaults to that of the method. seq_mean_token_sum_norm divides by
    `horizon`, usually the maximum completion length, which it requires. `known` are further arguments of
    token_coefficients (old_logp, other_logp, topk_..., divergence). Padded tensors [B, T] with a mask work as there.

    `centering` subtracts the mean score of the method's weights: g_t log pi_t becomes g_t log pi_t - A_t sum_v m_v log pi_v
    with constant m_v = mu_v w_v. "exact" needs the log-probs of the whole vocabulary [N, V] in `centering_logp` (with
    gradients) and `centering_behavior_logp`, "topk" those of the sampler's K most likely tokens [N, K]."""
    if isinstance(logp, torch.Tensor) and logp.dim() == 2:
        flat, lengths = convert.rows_as_sequences(logp.shape, dict(
            logp=logp, behavior_logp=behavior_logp, advantages=advantages, mask=mask, centering_logp=centering_logp,
            centering_behavior_logp=centering_behavior_logp, **known), lengths)
        return policy_loss(region, params, lengths=lengths, groups=groups, aggregation=aggregation, horizon=horizon,
                           centering=centering, **flat)
    decision = token_coefficients(region, params, logp=logp, behavior_logp=behavior_logp, advantages=advantages,
                                  mask=mask, lengths=lengths, groups=groups, **known)
    aggregation = _aggregation(region, aggregation, lengths, logp)
    values = decision.coefficient * _zero_masked(convert.flags("mask", mask, logp), logp)
    if centering == "none" and centering_logp is not None:
        convert.refuse("centering", centering, "topk or exact, because centering_logp is given")
    if centering != "none":
        convert.string("centering", centering, "none, topk or exact")
        if logp.requires_grad and isinstance(centering_logp, torch.Tensor) and not centering_logp.requires_grad:
            raise ValueError("centering_logp is detached, so nothing would be centered; expected it with its gradient, as logp")
        b = _ops.centering_coefficients(
            region, *convert.parameters(params), centering, convert.tensor("advantages", advantages),
            convert.flags("mask", mask, logp), convert.tensor("centering_logp", centering_logp),
            convert.tensor("centering_behavior_logp", centering_behavior_logp))
        values = values - (b * torch.where(b == 0, 0, centering_logp)).sum(1)  # -inf where the probability is 0
    return -aggregate(aggregation, values=values, mask=mask, lengths=lengths, horizon=horizon, groups=groups).loss


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
    """policy_loss from the hidden states [N, H] that predict `targets` [N] and the LM head's `weight` [V, H]. Computes the
    loss and its gradients in one pass over chunks of logits; backward() scales the gradients. Values per token are float32,
    without a mask. Methods of sequence or batch scope compute the logits twice.

    `weights` [N] replace the aggregation of this batch, for instance by the weights of a larger batch that this is a part
    of. The entropy bonus adds -entropy_coefficient sum w H to the loss. Top-K methods take `topk_ids` and
    `topk_behavior_logp` [N, K], exact divergences `behavior_hidden` [N, H] and `behavior_weight` [V, H]."""
    options = _head.head_arguments(hidden, weight, targets, temperature, softcap, chunk_rows)
    advantages, lengths = convert.tensor("advantages", advantages), convert.integers("lengths", lengths)
    if weights is None:
        weights = _ops.aggregation_weights(_aggregation(region, aggregation, lengths, advantages), advantages, None, lengths,
                                           convert.optional_number("horizon", horizon, "a number above 0"),
                                           convert.integers("groups", groups))
    elif aggregation is not None or horizon is not None:
        raise ValueError("weights are given together with aggregation or horizon; keep one of them")
    optional = dict(old_logp=old_logp, behavior_other_logp=behavior_other_logp, old_other_logp=old_other_logp, topk_ids=topk_ids,
                    topk_behavior_logp=topk_behavior_logp, behavior_hidden=behavior_hidden, behavior_weight=behavior_weight)
    known = {name: convert.optional_tensor(name, value) for name, value in optional.items()}
    known.update(behavior_logp=convert.tensor("behavior_logp", behavior_logp), advantages=advantages, lengths=lengths,
                 groups=convert.integers("groups", groups))
    loss, _, _, logp, entropy, *decision = _head.policy_head(
        hidden, weight, targets, region, params, convert.tensor("weights", weights), known, options,
        convert.number("entropy_coefficient", entropy_coefficient, "a number"))
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
    """The bound of Theorem 3.2 of DPPO for an update, from sequences sampled from mu without masked tokens. `groups` [S]
    is the prompt of each sequence (default: all different). `tv` [N] is the total variation of each token, and `divergence`
    its kind ("full_tv", "topk_tv", "binary_tv"; default: binary_tv, computed here). binary_tv and topk_tv are lower bounds
    of the true one, so the average penalty then uses |r - 1|/2, but the max penalty is too small. `xi` bounds |reward|
    (default: half the range of the rewards). `horizon` is the length of a response (default: the longest)."""
    logp, behavior_logp = convert.tensor("logp", logp), convert.tensor("behavior_logp", behavior_logp)
    rewards, tv = convert.tensor("rewards", rewards), convert.optional_tensor("tv", tv)
    lengths = convert.integers("lengths", [logp.numel()] if lengths is None else lengths)
    groups = convert.integers("groups", groups)
    for name, tensor in (("logp", logp), ("rewards", rewards), ("lengths", lengths), ("groups", groups)):
        if tensor is not None and tensor.is_meta:
            raise ValueError(f"{name} is on meta; expected a tensor on CPU or GPU")
    if divergence not in (None, "binary_tv", "topk_tv", "full_tv"):
        convert.refuse("divergence", divergence, "binary_tv, topk_tv or full_tv")
    if tv is None and divergence not in (None, "binary_tv"):
        convert.refuse("divergence", divergence, "binary_tv, which is computed here, or the other total variation as tv")
    if tv is None:
        tv = _ops.divergence("binary_tv", logp, behavior_logp, None, None, None, None, None, "union")
        divergence = "binary_tv"
    if xi is None:
        lowest, highest = (float(rewards.min()), float(rewards.max())) if rewards.numel() else (0.0, 0.0)
    else:
        highest = convert.number("xi", xi, "a number")
        lowest = -highest
    if horizon is None:
        horizon = int(lengths.max()) if lengths.numel() else 0
    elif not (convert.number("horizon", horizon, "an integer").is_integer() and 0 <= horizon <= 2**53):
        convert.refuse("horizon", horizon, "an integer, the maximum response length")
    *values, improved = _ops.certificate(logp, behavior_logp, tv, rewards, lengths, groups, lowest, highest, int(horizon),
                                          divergence or "unnamed").tolist()
    return Certificate(*values, bool(improved), divergence or "unnamed")


def methods() -> Dict[str, Dict[str, Any]]:
    """The methods by name: sentence, equation, source, advantage, aggregation, parameters with their defaults (None: no
    limit), requirements."""
    return {row["name"]: row for row in json.loads(_ops.methods())}


@torch.compiler.assume_constant_result
def _method_row(region):
    aliases = {"ppo_clip": "ppo", "dppo_binary_tv": "dppo_tv", "dppo_binary_kl": "dppo_kl"}
    return methods()[aliases.get(region, region)]
