"""Keel's methods as verl policy losses: Keel's coefficients with verl's aggregation."""

import torch
from verl.trainer.ppo.core_algos import agg_loss, register_policy_loss

import keel

from ._rows import rows
from ._settings import PolicyLoss

_ROUNDING = 1e-3  # half-precision logits may give log-probs up to this much above 0


def register():
    for loss_mode, row in rows().items():
        register_policy_loss(loss_mode)(_policy_loss(loss_mode, row["name"]))


def _policy_loss(loss_mode, row):
    def policy_loss(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None,
                    rollout_is_weights=None):
        section = _section(config, loss_mode)
        tensors = dict(log_prob=log_prob, old_log_prob=old_log_prob, advantages=advantages, response_mask=response_mask)
        _check_shapes(tensors, rollout_is_weights)
        mask = response_mask.bool()
        known = _policies(section, log_prob, old_log_prob, rollout_is_weights, mask)
        decision = keel.token_coefficients(row, section.parameters, advantages=advantages.to(known["logp"].dtype), mask=mask,
                                           **known)
        # Masked values may be NaN, and 0 * NaN is NaN.
        losses = -decision.coefficient * torch.where(mask, log_prob, torch.zeros_like(log_prob))
        loss = agg_loss(loss_mat=losses, loss_mask=mask, loss_agg_mode=loss_agg_mode, **config.global_batch_info)
        return loss, _metrics(decision, known["logp"], known["behavior_logp"], advantages, mask)

    policy_loss.__name__ = policy_loss.__qualname__ = loss_mode
    policy_loss.__doc__ = f"Keel's method {row}; `keel methods {row}` prints its equation."
    return policy_loss


def _section(config, loss_mode):
    section = None if config is None else config.policy_loss
    if not isinstance(section, PolicyLoss):
        raise ValueError(f"{loss_mode}: actor.policy_loss is verl's section, which has no method parameters and was not checked. "
                         "Fix: pass 'hydra.searchpath=[pkg://keel.verl]' and +keel=row, or make it a keel.verl.PolicyLoss")
    if section.loss_mode != loss_mode:
        raise ValueError(f"{loss_mode} was called, but policy_loss.loss_mode is {section.loss_mode}; "
                         "expected the same name")
    return section


def _check_shapes(tensors, weights):
    shape = tensors["log_prob"].shape
    for name, tensor in {**tensors, "rollout_is_weights": weights}.items():
        if tensor is None and name == "rollout_is_weights":
            continue
        if tensor is None:
            raise ValueError(f"{name} is missing; set actor_rollout_ref.rollout.calculate_log_probs to record log-probs")
        if tensor.shape != shape or tensor.dim() != 2:
            raise ValueError(f"{name} is {list(tensor.shape)}, but log_prob is {list(shape)}; expected the same [sequences, tokens]")


def _policies(section, log_prob, old_log_prob, weights, mask):
    """log pi and log mu, and the recomputed log-probs if the method uses them."""
    dtype = torch.promote_types(torch.promote_types(log_prob.dtype, old_log_prob.dtype), torch.float32)
    logp, old = (_clamp_to_zero(tensor.detach().to(dtype)) for tensor in (log_prob, old_log_prob))
    if not section.uses_recomputed_logp:
        if weights is not None:
            raise ValueError(f"rollout_is_weights are set, but {section.loss_mode} already corrects for the sampler; expected "
                             "algorithm.rollout_correction.rollout_is=null and bypass_mode=true")
        return dict(logp=logp, behavior_logp=old)
    if weights is None:
        raise ValueError(f"rollout_is_weights are missing, from which {section.loss_mode} computes the sampler's log-probs; expected "
                         "algorithm.rollout_correction.rollout_is=token and rollout_is_threshold=1e9")
    mismatch = torch.where(mask, weights.detach().to(dtype), torch.ones_like(old)).log()  # log old - log mu, from verl's weights
    return dict(logp=logp, behavior_logp=_clamp_to_zero(old - mismatch), old_logp=old)


def _clamp_to_zero(logp):
    return logp.masked_fill((logp > 0) & (logp <= _ROUNDING), 0.0)


def _metrics(decision, logp, behavior_logp, advantages, mask):
    """Fractions and means over the tokens of this micro-batch, which verl averages. Names are Keel's (docs/metrics.md), to
    which verl adds the prefix actor/, and verl's for the same quantity."""
    masked, positive, negative = ~decision.keep & mask, (advantages > 0) & mask, (advantages < 0) & mask
    finite = mask & decision.divergence.isfinite()
    logp, behavior_logp = (torch.where(mask, x, torch.zeros_like(x)) for x in (logp, behavior_logp))
    log_ratio = (logp - behavior_logp).clamp(-20, 20)
    bad = negative & (logp.exp() - behavior_logp.exp() <= -0.5)  # trust_region/bad_updates of the DPPO paper
    parts = {
        "trust_region/masked": (masked, mask), "trust_region/masked_positive": (masked & positive, positive),
        "trust_region/masked_negative": (masked & negative, negative), "trust_region/outside": (decision.outside & mask, mask),
        "trust_region/bad_updates": (bad, mask),
        "trust_region/divergence_mean": (decision.divergence.masked_fill(~finite, 0.0), finite),
        "policy/kl_behavior": (torch.expm1(log_ratio) - log_ratio, mask), "ratio/mean": (log_ratio.exp() * mask, mask),
        "actor/pg_clipfrac": (masked, mask), "actor/ppo_kl": (-log_ratio, mask)}
    sums = torch.stack([x.sum(dtype=torch.float64) for pair in parts.values() for x in pair]).reshape(-1, 2)
    means = (sums[:, 0] / sums[:, 1].clamp(min=1)).tolist()  # one transfer from the device
    return dict(zip(parts, means))
