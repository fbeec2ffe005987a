"""The rows prime_rl_2026_09, openrlhf and the capped DRPO rows against gradients of the peers' losses, written here in float64."""

import itertools
import sys

import torch

import keel
from support import close, golden, policy_arguments, run


def batches():
    return [batch for batch in golden("batches.json")["batches"] if "extreme" not in batch["name"]]


def clipped_exp(log_ratio):
    return log_ratio.clamp(-20, 20).exp()


def gradient(loss_of_logp, logp):
    """-d loss / d logp, where the loss is a sum over tokens."""
    logp = logp.clone().requires_grad_()
    (result,) = torch.autograd.grad(loss_of_logp(logp).sum(), logp)
    return -result


def compare(method, params, batch, loss):
    arguments = policy_arguments(batch, torch.float64)
    valid = arguments["mask"] != 0
    kept = {name: arguments[name][valid] for name in ("logp", "behavior_logp", "advantages", "old_logp")}
    sequence = torch.repeat_interleave(torch.arange(len(batch["lengths"])), torch.tensor(batch["lengths"]))[valid]
    want = gradient(lambda logp: loss(logp, kept["behavior_logp"], kept["old_logp"], kept["advantages"], sequence), kept["logp"])
    got = keel.token_coefficients(method, params, **arguments).coefficient[valid]
    clamped = (kept["logp"] - kept["behavior_logp"]).abs() > 20  # beyond it the clamp has no gradient
    close(got[~clamped], want[~clamped], 1e-9 * want[~clamped].abs() + 1e-12, f"{method} {params} {batch['name']}")


def the_new_default_of_prime_rl_masks_both_directions():
    def loss(logp, mu, old, advantages, sequence):
        kept = ((logp.exp() - mu.exp()).abs() <= 0.3).double()
        ratio = clipped_exp(logp - mu)
        return -kept * torch.where(ratio < 1e4, ratio, ratio.detach().clamp(max=1e4) * logp) * advantages

    for batch in batches():
        compare("prime_rl_2026_09", None, batch, loss)


def a_gate_of_openrlhf_masks_or_clips_by_the_mismatch():
    def mean_over(sequence, tokens):
        return torch.stack([tokens[sequence == s].mean() for s in sequence.tolist()]) if len(sequence) else tokens

    def loss_with(measure, level, mode, low, high):
        def loss(logp, mu, old, advantages, sequence):
            ratio = clipped_exp(logp - old)
            surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
            weight = clipped_exp(old - mu)
            if mode == "clip":
                return -weight.clamp(low, high) * surrogate
            p, q = mu.exp(), old.exp()
            tokens = {"ratio": old - mu, "tv": (p - q).abs(),
                      "binary_kl": p * (mu - old) + torch.special.xlog1py(1 - p, -p) - torch.special.xlog1py(1 - p, -q)}[measure]
            if level == "sequence":
                tokens = mean_over(sequence, tokens)
            measured = clipped_exp(tokens) if measure == "ratio" else tokens
            return -((measured >= low) & (measured <= high)).double() * weight * surrogate
        return loss

    blocked = set()
    bounds = {"ratio": (0.7, 1.4), "tv": (0, 0.05), "binary_kl": (0, 0.01)}
    for (measure, (low, high)), level in itertools.product(bounds.items(), ("token", "sequence")):
        for mode in ("mask", "clip") if (measure, level) == ("ratio", "token") else ("mask",):
            params = {"measure": measure, "level": level, "mode": mode, "gate_low": low, "gate_high": high}
            for batch in batches():
                compare("openrlhf", params, batch, loss_with(measure, level, mode, low, high))
                decision = keel.token_coefficients("openrlhf", params, **policy_arguments(batch, torch.float64))
                if not decision.keep.all():
                    blocked.add((measure, level, mode))
    assert len(blocked) == 7, blocked
    try:
        keel.token_coefficients("openrlhf", {"measure": "tv", "mode": "clip"}, **policy_arguments(batches()[0], torch.float64))
    except ValueError as error:
        assert "mode is clip" in str(error), error
    else:
        raise AssertionError("a clip of a total variation was accepted")
    try:
        keel.token_coefficients("openrlhf", {"measure": "tv"}, **policy_arguments(batches()[0], torch.float64))
    except ValueError as error:
        assert "gate_low is 0.5, a bound of the ratio" in str(error), error
    else:
        raise AssertionError("the ratio's lower bound was accepted for a total variation")


def a_cap_on_drpo_replaces_only_the_factor_r():
    for batch in batches():
        arguments = policy_arguments(batch, torch.float64)
        ratio = clipped_exp(arguments["logp"] - arguments["behavior_logp"])
        for method in ("drpo", "mask_drpo", "drpo_no_abs_advantage"):
            free, capped = (keel.token_coefficients(method, params, **arguments).coefficient for params in ({}, {"ratio_cap": 1.1}))
            close(capped, free * ratio.clamp(max=1.1) / ratio, 1e-9 * free.abs() + 1e-12, f"{method} {batch['name']}")


if __name__ == "__main__":
    sys.exit(run((the_new_default_of_prime_rl_masks_both_directions, a_gate_of_openrlhf_masks_or_clips_by_the_mismatch,
                  a_cap_on_drpo_replaces_only_the_factor_r)))
