"""The settings of a method in verl's configuration, and the start-up check of related settings.

verl creates this object from the section actor_rollout_ref.actor.policy_loss, first in the main process before Ray starts
and again in every worker. So conflicting settings fail within seconds.
"""

import math
import os
from dataclasses import dataclass, field
from typing import Any

import torch
from verl.workers.config import PolicyLossConfig

import keel

from ._rows import PREFIX, method_of

# Settings of the verl losses with their defaults. Keel's methods ignore them: their thresholds have other units.
_VERL_LOSS_SETTINGS = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05}
_CHECKED = (*_VERL_LOSS_SETTINGS, "rollout_correction", "use_v1", "calculate_log_probs", "temperature", "top_p", "top_k", "logprobs_mode",
         "loss_agg_mode", "loss_scale_factor")
_MAX_WEIGHT = math.exp(20)  # the largest weight verl computes


@dataclass
class PolicyLoss(PolicyLossConfig):
    """verl's section policy_loss for a Keel method.

    loss_mode: keel_METHOD. parameters: those of the method (`keel methods METHOD`) by name; none means no limit. run: the
    settings that the start-up check reads, filled in by +keel=... (keel/row.yaml)."""

    parameters: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        method = method_of(self.loss_mode)
        self.uses_recomputed_logp = _uses_recomputed_logp(method["name"], self.parameters)
        problems = [*_check_section(self), *_check_run(self.run, method, self.uses_recomputed_logp)]
        if problems:
            raise ValueError(f"{self.loss_mode} would not train its objective with these settings:\n" + "\n".join(f"- {p}" for p in problems))
        if os.environ.get("RANK", "0") == "0":
            print(f"keel: {self.loss_mode}: {method['equation']}\nkeel: {self._summary(method)}", flush=True)

    def _summary(self, method):
        parameters = {**method["parameters"], **self.parameters}
        described = ", ".join(f"{name} {_format(value)}" for name, value in parameters.items())
        anchor = "the sampler's log-probs" + (" and the recomputed ones" if self.uses_recomputed_logp else "")
        return f"{described or 'no parameters'}; measured against {anchor}; {self.run['loss_agg_mode']}"


def _format(value):
    return "none" if value is None else value if isinstance(value, (str, bool)) else f"{value:g}"


def _uses_recomputed_logp(name, parameters):
    """Whether the method with these parameters uses recomputed log-probs. Tries it on one token, which also rejects unknown
    parameters, invalid values, and divergences that verl cannot compute."""
    one = torch.tensor([-1.0])
    known = dict(logp=one, behavior_logp=one, advantages=one)
    try:
        keel.token_coefficients(name, parameters, **known)
        return False
    except ValueError as error:
        first_error = error
    try:
        keel.token_coefficients(name, parameters, old_logp=one, **known)
        return True
    except ValueError:
        raise ValueError(f"policy_loss.parameters of {PREFIX}{name}: {first_error}") from None


def _check_section(section):
    """Rejects settings of this section for other losses."""
    for name in ("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef", "dro_beta"):
        default = PolicyLossConfig.__dataclass_fields__[name].default
        if section.get(name) != default:
            yield f"policy_loss.{name} is {section.get(name)}, which Keel ignores: remove it"


def _check_run(run, method, uses_recomputed_logp):
    missing = [name for name in _CHECKED if name not in run]
    if missing:
        yield (f"policy_loss.run has no {', '.join(missing)}, which the start-up check reads. Fix: pass "
               "'hydra.searchpath=[pkg://keel.verl]' and +keel=row, which fill it in")
        return
    yield from _check_clip_settings(run, method)
    yield from _check_sampling(run)
    yield from _check_anchor(run["rollout_correction"] or {}, uses_recomputed_logp)
    if run["use_v1"] is not True:
        yield ("trainer.use_v1 is false: if the old log-probs are the sampler's, the legacy trainer replaces loss_mode by "
               "bypass_mode, a PPO clip; expected true")
    if run["loss_agg_mode"] == "seq-mean-token-sum-norm" and run["loss_scale_factor"] is None:
        yield ("actor.loss_agg_mode is seq-mean-token-sum-norm without actor.loss_scale_factor, so verl divides by the longest "
               "response of each micro-batch; expected a constant, usually data.max_response_length")


def _check_clip_settings(run, method):
    for name, default in _VERL_LOSS_SETTINGS.items():
        if run[name] != default:
            names = ", ".join(method["parameters"]) or "none"
            yield (f"actor.{name} is {run[name]}, which Keel ignores: {method['name']} has its own "
                   f"policy_loss.parameters ({names})")


def _check_sampling(run):
    if run["calculate_log_probs"] is not True:
        yield "rollout.calculate_log_probs is false, but the method needs the sampler's log-probs as its anchor"
    if run["top_p"] != 1 or run["top_k"] not in (-1, 0):
        yield (f"rollout.top_p is {run['top_p']} and rollout.top_k {run['top_k']}: the sampler uses a truncated distribution, "
               "but the actor's log-probs are over the full vocabulary; expected 1 and -1")
    if run["temperature"] != 1 and run["logprobs_mode"] != "processed_logprobs":
        yield (f"rollout.temperature is {run['temperature']} and rollout.logprobs_mode {run['logprobs_mode']}: the sampler's log-probs "
               "ignore the temperature, but the actor's apply it; expected processed_logprobs")


def _check_anchor(correction, uses_recomputed_logp):
    key = "algorithm.rollout_correction"
    settings = {"bypass_mode": False, "rollout_is": None, "rollout_is_threshold": 2.0, "rollout_is_batch_normalize": False,
                "rollout_rs": None, "loss_type": "ppo_clip", **correction}
    if not uses_recomputed_logp:
        if not settings["bypass_mode"]:
            yield (f"{key}.bypass_mode is false: the actor recomputes old log-probs, so the method would measure against "
                   "those instead of the sampler")
        for name, default in (("rollout_is", None), ("rollout_rs", None), ("loss_type", "ppo_clip")):
            if settings[name] != default:
                yield f"{key}.{name} is {settings[name]}, which only verl's bypass_mode loss reads: remove it"
        return
    if settings["bypass_mode"]:
        yield f"{key}.bypass_mode is true, but the method needs recomputed log-probs"
    if settings["rollout_is"] != "token" or settings["rollout_is_batch_normalize"]:
        yield (f"{key}.rollout_is is {settings['rollout_is']}: the method needs the sampler's log-probs, which verl only "
               "provides as weights; expected token, without rollout_is_batch_normalize")
    if not _at_least(settings["rollout_is_threshold"], _MAX_WEIGHT):
        yield (f"{key}.rollout_is_threshold is {settings['rollout_is_threshold']}, which truncates the weights that the sampler's "
               "log-probs are computed from; expected 1e9 (the method has its own bounds)")


def _at_least(value, minimum):
    try:
        return float(value) >= minimum
    except (TypeError, ValueError):  # a pair of bounds, such as "0.5_2"
        return False
