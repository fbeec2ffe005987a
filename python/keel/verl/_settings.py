"""What a row is told in verl's configuration, and the start-up check of what stands beside it.

verl makes this object of the section actor_rollout_ref.actor.policy_loss: in the process that was started, before Ray
is, and again in every worker. So a trap is an error within seconds, and not a run that trains something else.
"""

import math
import os
from dataclasses import dataclass, field
from typing import Any

import torch
from verl.workers.config import PolicyLossConfig

import keel

from ._rows import PREFIX, row_of

# Settings of verl's own losses with their defaults. Keel's rows read none of them: their thresholds have other units.
_OTHERS = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05}
_READ = (*_OTHERS, "rollout_correction", "use_v1", "calculate_log_probs", "temperature", "top_p", "top_k", "logprobs_mode",
         "loss_agg_mode", "loss_scale_factor")
_CLAMP = math.exp(20)  # the largest weight that verl computes


@dataclass
class PolicyLoss(PolicyLossConfig):
    """verl's section policy_loss for a row of Keel's.

    loss_mode: keel_ROW. parameters: the row's own (`keel methods ROW`), by name; null is "no limit". run: the settings of
    the run that the start-up check reads, filled in by +keel=... (keel/row.yaml beside this file)."""

    parameters: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        row = row_of(self.loss_mode)
        self.looks_at_recomputed = _looks_at_recomputed(row["name"], self.parameters)
        problems = [*_unread(self), *_of_the_run(self.run, row, self.looks_at_recomputed)]
        if problems:
            raise ValueError(f"{self.loss_mode} would not train what its row says:\n" + "\n".join(f"- {p}" for p in problems))
        if os.environ.get("RANK", "0") == "0":
            print(f"keel: {self.loss_mode}: {row['equation']}\nkeel: {self._told(row)}", flush=True)

    def _told(self, row):
        numbers = {**row["parameters"], **self.parameters}
        shown = ", ".join(f"{name} {_shown(value)}" for name, value in numbers.items())
        anchor = "the sampler's log-probs" + (" and the recomputed ones" if self.looks_at_recomputed else "")
        return f"{shown or 'no parameters'}; measured against {anchor}; {self.run['loss_agg_mode']}"


def _shown(value):
    return "none" if value is None else value if isinstance(value, (str, bool)) else f"{value:g}"


def _looks_at_recomputed(name, parameters):
    """Whether the row with these parameters looks at recomputed log-probs beside the sampler's. Tried on one token, which
    also refuses parameters that it does not have, values that make no sense, and measures that verl cannot feed."""
    one = torch.tensor([-1.0])
    known = dict(logp=one, behavior_logp=one, advantages=one)
    try:
        keel.token_coefficients(name, parameters, **known)
        return False
    except ValueError as error:
        first = error
    try:
        keel.token_coefficients(name, parameters, old_logp=one, **known)
        return True
    except ValueError:
        raise ValueError(f"policy_loss.parameters of {PREFIX}{name}: {first}") from None


def _unread(section):
    """Settings of this section that are meant for another loss."""
    for name in ("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef", "dro_beta"):
        default = PolicyLossConfig.__dataclass_fields__[name].default
        if section.get(name) != default:
            yield f"policy_loss.{name} is {section.get(name)}, which no row of Keel's reads: leave it out"


def _of_the_run(run, row, both):
    missing = [name for name in _READ if name not in run]
    if missing:
        yield (f"policy_loss.run has no {', '.join(missing)}, which the start-up check reads: give "
               "'hydra.searchpath=[pkg://keel.verl]' and +keel=row, which fill it in")
        return
    yield from _clips(run, row)
    yield from _sampling(run)
    yield from _anchor(run["rollout_correction"] or {}, both)
    if run["use_v1"] is not True:
        yield ("trainer.use_v1 is false: the legacy trainer renames loss_mode to bypass_mode, a PPO clip, where old log-probs "
               "are the rollout's")
    if run["loss_agg_mode"] == "seq-mean-token-sum-norm" and run["loss_scale_factor"] is None:
        yield ("actor.loss_agg_mode is seq-mean-token-sum-norm without actor.loss_scale_factor: verl divides by the longest "
               "response of each micro-batch then; expected a constant, usually data.max_response_length")


def _clips(run, row):
    for name, default in _OTHERS.items():
        if run[name] != default:
            has = ", ".join(row["parameters"]) or "none"
            yield (f"actor.{name} is {run[name]}, which no row of Keel's reads: {row['name']} has policy_loss.parameters of its "
                   f"own ({has})")


def _sampling(run):
    if run["calculate_log_probs"] is not True:
        yield "rollout.calculate_log_probs is false: the sampler's log-probs are not recorded, and they are the anchor"
    if run["top_p"] != 1 or run["top_k"] not in (-1, 0):
        yield (f"rollout.top_p is {run['top_p']} and rollout.top_k {run['top_k']}: the sampler draws from a part of the vocabulary, "
               "and the actor's log-probs are over all of it; expected 1 and -1")
    if run["temperature"] != 1 and run["logprobs_mode"] != "processed_logprobs":
        yield (f"rollout.temperature is {run['temperature']} and rollout.logprobs_mode {run['logprobs_mode']}: the sampler's log-probs "
               "are without the temperature and the actor's are with it; expected processed_logprobs")


def _anchor(correction, both):
    key = "algorithm.rollout_correction"
    given = {"bypass_mode": False, "rollout_is": None, "rollout_is_threshold": 2.0, "rollout_is_batch_normalize": False,
             "rollout_rs": None, "loss_type": "ppo_clip", **correction}
    if not both:
        if not given["bypass_mode"]:
            yield (f"{key}.bypass_mode is false: old log-probs are recomputed by the actor, and the row would be measured "
                   "against those and not against the sampler")
        for name, off in (("rollout_is", None), ("rollout_rs", None), ("loss_type", "ppo_clip")):
            if given[name] != off:
                yield f"{key}.{name} is {given[name]}, which only verl's own bypass_mode loss reads: leave it out"
        return
    if given["bypass_mode"]:
        yield f"{key}.bypass_mode is true: the row also looks at the recomputed log-probs, which are then not computed"
    if given["rollout_is"] != "token" or given["rollout_is_batch_normalize"]:
        yield (f"{key}.rollout_is is {given['rollout_is']}: the row looks at the sampler's log-probs beside the recomputed ones, "
               "and what verl hands a loss of them are its weights; expected token, without rollout_is_batch_normalize")
    if not _at_least(given["rollout_is_threshold"], _CLAMP):
        yield (f"{key}.rollout_is_threshold is {given['rollout_is_threshold']}, above which the weights no longer say what the "
               "sampler's log-probs were; expected 1e9 (the row has bounds of its own)")


def _at_least(value, least):
    try:
        return float(value) >= least
    except (TypeError, ValueError):  # verl's "lower_upper"
        return False
