"""Loads the operators (libkeel_ops.so in this folder) and registers fake implementations for torch.compile."""

import os

import torch
from torch import library

from ._built_with import TORCH_VERSION


def load():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libkeel_ops.so")
    if not os.path.exists(path):
        raise ImportError(f"{path} is missing: build it with `make build` or `pip install .`")
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(
            f"keel was built for torch {TORCH_VERSION} and cannot be loaded with torch {torch.__version__}: {error}. "
            "Rebuild it with this Python: `make build KEEL_TORCH=...` or `pip install .`") from error
    _register_shapes()
    return torch.ops.keel


def check_devices(like, others, any_device=()):
    """Rejects mixed devices. The fake implementations need this, since they replace the operators' own check."""
    for name, tensor in others.items():
        if tensor is not None and tensor.device != like.device:
            raise ValueError(f"{name} is on {tensor.device}, but the first tensor is on {like.device}; expected one device for all of them")
    for name, tensor in any_device:
        if tensor is not None and tensor.is_meta and not like.is_meta:
            raise ValueError(f"{name} is on meta, but the first tensor is on {like.device}")


def _register_shapes():
    def fake(name):
        return library.register_fake(f"keel::{name}")

    @fake("token_coefficients")
    def _(region, names, numbers, word_names, words, logp, behavior_logp, advantages, mask, lengths, groups, old_logp,
          other_logp, behavior_other_logp, old_other_logp, topk_behavior_logp, topk_logp, sampled_in_topk, divergence):
        check_devices(logp, dict(
            behavior_logp=behavior_logp, advantages=advantages, mask=mask, old_logp=old_logp, divergence=divergence,
            other_logp=other_logp, behavior_other_logp=behavior_other_logp, old_other_logp=old_other_logp,
            topk_behavior_logp=topk_behavior_logp, topk_logp=topk_logp, sampled_in_topk=sampled_in_topk),
                       (("lengths", lengths), ("groups", groups)))
        flags = torch.empty_like(logp, dtype=torch.bool)
        return (torch.empty_like(logp), flags, torch.empty_like(flags), torch.empty_like(logp), torch.empty_like(logp),
                torch.empty((), dtype=torch.int64, device=logp.device))

    @fake("centering_coefficients")
    def _(region, names, numbers, word_names, words, kind, advantages, mask, logp, behavior_logp):
        check_devices(logp, dict(advantages=advantages, mask=mask, behavior_logp=behavior_logp))
        return torch.empty_like(logp)

    @fake("divergence")
    def _(kind, logp, behavior_logp, other_logp, behavior_other_logp, topk_behavior_logp, topk_logp, sampled_in_topk,
          support):
        check_devices(logp, dict(behavior_logp=behavior_logp, other_logp=other_logp,
                                  behavior_other_logp=behavior_other_logp, topk_behavior_logp=topk_behavior_logp,
                                  topk_logp=topk_logp, sampled_in_topk=sampled_in_topk))
        return logp.new_empty(logp.shape[:1])

    @fake("advantages")
    def _(kind, rewards, groups, lengths, mask, values, token_rewards, gamma, lambda_, eps):
        check_devices(rewards, {}, (("groups", groups), ("lengths", lengths), ("mask", mask), ("values", values),
                                     ("token_rewards", token_rewards)))
        per_token = kind in ("reinforce_pp", "reinforce_pp_baseline", "gae")
        if per_token and mask is None:
            # Without a mask the number of tokens depends on the values of lengths.
            tokens = library.get_ctx().new_dynamic_size()
        else:
            tokens = mask.shape[0] if per_token else rewards.shape[0]
        return rewards.new_empty(tokens), rewards.new_empty(tokens if kind == "gae" else 0)

    @fake("aggregation_weights")
    def _(kind, values, mask, lengths, horizon, groups):
        check_devices(values, dict(mask=mask), (("lengths", lengths), ("groups", groups)))
        return torch.empty_like(values)

    @fake("certificate")
    def _(logp, behavior_logp, tv, rewards, lengths, groups, lowest, highest, horizon, divergence):
        check_devices(logp, dict(behavior_logp=behavior_logp, tv=tv),
                       (("rewards", rewards), ("lengths", lengths), ("groups", groups)))
        return torch.empty(7, dtype=torch.float64, device="meta" if logp.is_meta else "cpu")
