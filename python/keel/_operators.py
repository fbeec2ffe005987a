"""Loads the operators (libkeel_ops.so, beside this file) and tells torch.compile the shapes of their results."""

import os

import torch
from torch import library

from ._built_with import TORCH_VERSION


def load():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libkeel_ops.so")
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(
            f"keel was built for torch {TORCH_VERSION} and cannot be loaded beside torch {torch.__version__}: {error}. "
            "Build it again with this Python: `make build KEEL_TORCH=...` or `pip install .`") from error
    _register_shapes()
    return torch.ops.keel


def _register_shapes():
    def fake(name):
        return library.register_fake(f"keel::{name}")

    @fake("token_coefficients")
    def _(region, params, logp, *others):
        flags = torch.empty_like(logp, dtype=torch.bool)
        return (torch.empty_like(logp), flags, torch.empty_like(flags), torch.empty_like(logp), torch.empty_like(logp),
                torch.empty((), dtype=torch.int64, device=logp.device))

    @fake("divergence")
    def _(kind, logp, *others):
        return logp.new_empty(logp.shape[:1])

    @fake("advantages")
    def _(kind, rewards, groups, lengths, mask, values, token_rewards, gamma, lambda_, eps):
        per_token = kind in ("reinforce_pp", "reinforce_pp_baseline", "gae")
        if per_token and mask is None:
            # Without a mask the number of tokens is a sum of values, which shapes cannot know.
            tokens = library.get_ctx().new_dynamic_size()
        else:
            tokens = mask.shape[0] if per_token else rewards.shape[0]
        return rewards.new_empty(tokens), rewards.new_empty(tokens if kind == "gae" else 0)

    @fake("aggregation_weights")
    def _(kind, values, *others):
        return torch.empty_like(values)

    @fake("certificate")
    def _(*others):
        return torch.empty(4, dtype=torch.float64)
