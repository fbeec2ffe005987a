"""Helpers of the Python module's tests: golden files, and comparisons that name the case."""

import json
import os

import torch

GOLDENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "goldens")
AGGREGATIONS = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm")


def golden(name):
    with open(os.path.join(GOLDENS, name), encoding="utf-8") as file:
        return json.load(file)


def floats(values, dtype):
    """Converts null to infinity."""
    return torch.tensor([float("inf") if v is None else v for v in values], dtype=torch.float64).to(dtype)


def policy_arguments(batch, dtype):
    """The arguments of token_coefficients for a batch of batches.json."""
    arguments = {name: floats(batch[name], dtype) for name in ("logp", "behavior_logp", "advantages", "old_logp")}
    arguments.update(mask=torch.tensor(batch["mask"]), lengths=batch["lengths"], groups=batch["groups"])
    if "K" in batch:
        for name in ("topk_behavior_logp", "topk_logp"):
            arguments[name] = torch.tensor(batch[name], dtype=torch.float64).to(dtype)
        arguments["sampled_in_topk"] = torch.tensor(batch["sampled_in_topk"])
    return arguments


def refused(cases):
    """Every call must raise a ValueError that contains the given text."""
    for call, wanted in cases:
        try:
            call()
        except ValueError as error:
            assert wanted in str(error), f"expected {wanted!r}: {error}"
        else:
            raise AssertionError(f"no ValueError, expected {wanted!r}")


def run(tests):
    """Runs test functions; returns 0 if all passed."""
    failures = 0
    for test in tests:
        try:
            note = test()
            print(f"ok      {test.__name__}{': ' + note if note else ''}", flush=True)
        except Exception as error:  # one failure must not hide the next
            failures += 1
            print(f"FAILED  {test.__name__}: {type(error).__name__}: {error}", flush=True)
    return 1 if failures else 0


def close(got, want, tolerance, what):
    """|got - want| <= tolerance elementwise; both infinite counts as equal."""
    got, want = got.double(), torch.as_tensor(want, dtype=torch.float64)
    both = torch.isinf(got) & (got == want)
    bad = ~(both | ((got - want).abs() <= tolerance))
    if bad.any():
        i = bad.nonzero()[0].tolist()
        raise AssertionError(f"{what}{i}: got {got[tuple(i)].item()!r}, want {want[tuple(i)].item()!r}")
