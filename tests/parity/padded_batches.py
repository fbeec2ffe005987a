"""Random padded batches for comparing gradients with other libraries, and the tolerance.

Both losses are differentiated by autograd in float64; Keel uses the flat layout. Per token, with w its weight in the
aggregation,

    |theirs - keel| <= 1e-13 (|keel| + w (|A| + |log r|))

The second term covers cancellation (DRO) and 1 - sigmoid(x) in autograd (SAPO). 1e-13 is about twenty times the rounding
error: 4e-15 for a log-ratio near 20 and its exp.
"""

import functools
from typing import NamedTuple

import torch

import keel

torch.set_num_threads(1)  # the tensors are small
WIDTH = 16


def flat(tensor, lengths):
    """Returns the flat layout of a padded tensor: the first `lengths[s]` tokens of every row."""
    return tensor[torch.arange(tensor.shape[1])[None] < torch.tensor(lengths)[:, None]]


class Batch(NamedTuple):
    """Padded [S, T] tensors."""

    logp: torch.Tensor
    behavior_logp: torch.Tensor
    old_logp: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor  # 1 and 0, also 0 inside rows; 0 after their ends
    lengths: list

    def flat(self, tensor):
        return flat(tensor, self.lengths)

    def anchor(self, name):
        return self.old_logp if name == "recomputed" else self.behavior_logp

    def arguments(self):
        """Returns the arguments of keel.policy_loss except logp."""
        names = ("behavior_logp", "old_logp", "advantages", "mask")
        return {**{name: self.flat(getattr(self, name)) for name in names}, "lengths": self.lengths}


def random_batch(seed, spread, scope="token", empty=1, sequences=40):
    """Log-ratios of about `spread`, probabilities from 1e-8 to 1 - 1e-7, so that log-ratios stay within +-20. For
    sequence-level methods, `scope` "sequence" has one advantage per sequence and log-ratios below 10. `empty` sequences
    have no valid token."""
    torch.manual_seed(seed)
    shape = (sequences, WIDTH)

    def noise(scale):
        limit = 9.5 if scope == "sequence" else 20
        return (scale * torch.randn(shape, dtype=torch.float64)).clamp(-limit, limit)

    def log_prob(values):
        return values.clamp(-18.4, -1e-7)

    kind = torch.randint(3, shape)  # any probability, rare, almost certain
    uniform = torch.rand(shape, dtype=torch.float64)
    behavior = torch.where(kind == 0, uniform.log(), torch.where(kind == 1, -18 * uniform, -(10.0 ** (-7 * uniform))))
    behavior = log_prob(behavior)
    old = log_prob(behavior + noise(min(spread, 0.4)))
    logp = log_prob(behavior + noise(spread))
    advantages = torch.randn(sequences, 1 if scope == "sequence" else WIDTH, dtype=torch.float64)
    advantages[2] = 0.0
    lengths = torch.randint(1, WIDTH + 1, (sequences,))
    lengths[0], lengths[1] = WIDTH, 1
    mask = (torch.arange(WIDTH)[None] < lengths[:, None]) & (torch.rand(shape) > 0.2)
    mask[:, 0] |= ~mask.any(1)
    mask[5:5 + empty] = False
    return Batch(logp, behavior, old, advantages.expand(shape).contiguous(), mask.long(), lengths.tolist())


@functools.lru_cache(maxsize=None)
def random_batches(scope, empty):
    spreads, sequences = ((1e-3, 0.02, 0.3, 2.0), 160) if scope == "sequence" else ((0.02, 0.3, 2.0, 9.0), 40)
    return [random_batch(seed, spread, scope, empty, sequences) for seed in range(3) for spread in spreads]


def keel_gradient(region, params, batch, aggregation, horizon=None):
    """Returns the loss and its gradient on the flat layout."""
    logp = batch.flat(batch.logp).requires_grad_()
    loss = keel.policy_loss(region, params, logp=logp, aggregation=aggregation, horizon=horizon, **batch.arguments())
    (gradient,) = torch.autograd.grad(loss, logp)
    return loss.detach(), gradient


def disagreement(batch, theirs, ours, aggregation, horizon, anchor, where=None):
    """Returns the maximum |theirs - keel| in units of the tolerance. `theirs` is padded; `ours` and `where`, the tokens to
    compare, are flat."""
    weights = keel.aggregate(aggregation, values=ours, mask=batch.flat(batch.mask), lengths=batch.lengths,
                             horizon=horizon).weights
    scale = batch.flat(batch.advantages.abs() + (batch.logp - batch.anchor(anchor)).abs())
    allowed = 1e-13 * (ours.abs() + weights * scale)
    off = (batch.flat(theirs) - ours).abs()
    assert torch.isfinite(off).all(), "a gradient is not finite"
    if where is not None:
        off = torch.where(where, off, torch.zeros_like(off))
    return torch.where(off == 0, off, off / allowed).max().item()
