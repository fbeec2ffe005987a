"""Invalid arguments: each raises a ValueError with the argument's name and the first invalid position."""

import decimal
import fractions
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch

import keel
from support import run

INF, NAN = float("inf"), float("nan")


def tokens(**changes):
    arguments = dict(logp=torch.tensor([-1.0, -0.5, -2.0, -0.25]), behavior_logp=torch.tensor([-1.1, -0.4, -2.0, -0.3]),
                     advantages=torch.tensor([1.0, 1.0, -1.0, -1.0]), mask=torch.tensor([1, 1, 0, 1]), lengths=[2, 2],
                     groups=[0, 0])
    arguments.update(changes)
    return arguments


def with_value(name, index, value):
    tensor = tokens()[name].clone()
    tensor[index] = value
    return {name: tensor}


def topk(**changes):
    other = torch.full((4,), 0.2).log()  # in addition to the sampled token, which is the first of each row
    arguments = dict(topk_behavior_logp=torch.stack([tokens()["behavior_logp"], other], 1),
                     topk_logp=torch.stack([tokens()["logp"], other], 1), sampled_in_topk=torch.tensor([True] * 4))
    arguments.update(changes)
    return tokens(**arguments)


def refused(wanted, call, *arguments, **named):
    """The call must raise ValueError with every part of `wanted` in its message."""
    try:
        call(*arguments, **named)
    except ValueError as error:
        missing = [part for part in wanted if part not in str(error)]
        assert not missing, f"the message lacks {missing}: {error}"
        return
    raise AssertionError(f"not refused; expected {wanted}")


def invalid_log_probs_are_named_with_their_index():
    for name in ("logp", "behavior_logp"):
        for value in (NAN, INF, -INF, 0.5):
            refused([f"{name}[3]", "log-probability"], keel.token_coefficients, "dppo_tv", **tokens(**with_value(name, 3, value)))
            keel.token_coefficients("dppo_tv", **tokens(**with_value(name, 2, value)))  # masked: not read
    both = tokens()["logp"].clone()
    both[1] = both[3] = 1.0
    refused(["logp[1]"], keel.token_coefficients, "dppo_tv", **tokens(logp=both))  # the first one, not any
    refused(["advantages[0]", "finite"], keel.token_coefficients, "grpo", **tokens(**with_value("advantages", 0, NAN)))
    refused(["old_logp[1]"], keel.token_coefficients, "minirl", old_logp=torch.tensor([-1.0, 2.0, -1.0, -1.0]), **tokens())
    refused(["other_logp[3]"], keel.token_coefficients, "dppo_kl", **tokens(other_logp=(1 - tokens()["logp"].exp()).log() * torch.tensor([1, 1, 1, 3])))


def invalid_values_are_named():
    for name in ("logp", "behavior_logp", "advantages", "mask"):
        sparse = tokens()[name].to_sparse()
        refused([name, "sparse"], keel.token_coefficients, "dppo_tv", **tokens(**{name: sparse}))
    refused(["advantages[0]", "1e30"], keel.token_coefficients, "pg_is", **tokens(**with_value("advantages", 0, 1e37)))
    for kind in ("grpo", "group_mean", "rloo"):
        rewards = torch.tensor([1.0, -1e200, 0.0], dtype=torch.float64)
        refused(["rewards[1]", "1e30"], keel.advantages, kind, rewards=rewards, groups=[0, 0, 0])
    exact = torch.tensor([0.3, 1.7, 0.2, 0.1])
    refused(["divergence[1]", "total variation"], keel.token_coefficients, "dppo_full_tv", divergence=exact, **tokens())
    keel.token_coefficients("dppo_full_kl", divergence=exact, **tokens())  # a KL divergence may be larger than 1
    refused(["support", "foo"], keel.divergence, "binary_tv", logp=tokens()["logp"],
            behavior_logp=tokens()["behavior_logp"], support="foo")
    refused(["aggregation", "3"], keel.policy_loss, "dppo_tv", aggregation=3, **tokens())
    refused(["'high'", "number"], keel.token_coefficients, "dppo_tv", {"high": torch.tensor(0.2, device="meta")}, **tokens())


def shapes_and_types_name_the_argument():
    half = tokens(logp=tokens()["logp"].half())
    refused(["logp", "Half", "float32"], keel.token_coefficients, "dppo_tv", **half)
    refused(["behavior_logp", "BFloat16"], keel.token_coefficients, "dppo_tv",
            **tokens(behavior_logp=tokens()["behavior_logp"].bfloat16()))
    refused(["advantages", "Double"], keel.token_coefficients, "dppo_tv", **tokens(advantages=tokens()["advantages"].double()))
    refused(["advantages", "[3]", "[4]"], keel.token_coefficients, "dppo_tv", **tokens(advantages=torch.zeros(3)))
    refused(["mask"], keel.token_coefficients, "dppo_tv", **tokens(mask=torch.ones(5)))
    refused(["lengths[1]", "3", "4"], keel.token_coefficients, "gspo", **tokens(lengths=[2, 3]))
    refused(["lengths", "3", "4"], keel.token_coefficients, "gspo", **tokens(lengths=[2, 1]))
    refused(["lengths[1]", "-2"], keel.token_coefficients, "gspo", **tokens(lengths=[4, -2]))
    refused(["lengths", "integers"], keel.token_coefficients, "gspo", **tokens(lengths=[1.5, 2.5]))
    refused(["groups", "3"], keel.token_coefficients, "tvpo", **tokens(groups=[0, 0, 1]))
    refused(["logp", "list"], keel.token_coefficients, "dppo_tv", **tokens(logp=[-1.0, -1.0, -1.0, -1.0]))


def missing_inputs_of_a_region_are_refused():
    refused(["old_logp"], keel.token_coefficients, "dppo_tv", {"anchor": "recomputed"}, **tokens())
    refused(["topk_behavior_logp"], keel.token_coefficients, "dppo_topk_tv", **tokens())
    refused(["divergence"], keel.token_coefficients, "dppo_full_tv", **tokens())
    refused(["divergence[0]"], keel.token_coefficients, "dppo_full_tv", divergence=torch.tensor([NAN, 0, 0, 0]), **tokens())
    refused(["divergence[1]"], keel.token_coefficients, "dppo_full_tv", divergence=torch.tensor([0, -0.1, 0, 0]), **tokens())
    infinite = keel.token_coefficients("dppo_full_kl", divergence=torch.tensor([INF, INF, 0, 0]), **tokens())
    assert infinite.keep.tolist() == [False, True, True, True]  # away from mu and beyond the threshold; a move towards mu is never masked


def top_k_rows_must_be_distributions():
    keel.token_coefficients("dppo_topk_tv", **topk())
    heavy = topk()["topk_behavior_logp"].clone()
    heavy[1] = torch.tensor([0.9, 0.3]).log()
    refused(["topk_behavior_logp[1]", "1.2"], keel.token_coefficients, "dppo_topk_tv", **topk(topk_behavior_logp=heavy))
    refused(["topk_logp[1]"], keel.token_coefficients, "dppo_topk_tv", **topk(topk_logp=heavy))
    bad = topk()["topk_logp"].clone()
    bad[3, 1] = NAN
    refused(["topk_logp[3, 1]"], keel.token_coefficients, "dppo_topk_kl", **topk(topk_logp=bad))
    # The sampled token's own probability counts where it is not among the K: 2 e^-0.4 + 0.2 > 1.
    refused(["topk_behavior_logp[1]"], keel.token_coefficients, "dppo_topk_tv",
            **topk(sampled_in_topk=torch.tensor([True, False, True, True])))
    refused(["topk_logp"], keel.divergence, "topk_tv", logp=-torch.ones(1), behavior_logp=-torch.ones(1),
            topk_behavior_logp=-torch.ones(1, 2), sampled_in_topk=torch.tensor([True]))


def parameters_are_checked():
    for params in ({"low": 0}, {"high": -0.1}, {"low": NAN}, {"ratio_cap": 0}):
        refused([next(iter(params)), "above 0"], keel.token_coefficients, "dppo_tv", params, **tokens())
    refused(["delta", "above 0"], keel.token_coefficients, "drpo", {"delta": 0.0}, **tokens())
    refused(["no parameter", "epsilon", "low, high"], keel.token_coefficients, "dppo_tv", {"epsilon": 0.2}, **tokens())
    refused(["unknown method", "dppo_tw"], keel.token_coefficients, "dppo_tw", **tokens())
    refused(["anchor", "known: behavior, recomputed"], keel.token_coefficients, "dppo_tv", {"anchor": "old"}, **tokens())
    refused(["low"], keel.token_coefficients, "dppo_tv", {"low": "small"}, **tokens())


def other_functions_check_their_arguments():
    vector = torch.tensor([-1.0, -2.0])
    refused(["known: binary_tv"], keel.divergence, "binary", logp=vector, behavior_logp=vector)
    refused(["full_tv", "[N, V]"], keel.divergence, "full_tv", logp=vector, behavior_logp=vector)
    refused(["logp[1]"], keel.divergence, "binary_kl", logp=torch.tensor([-1.0, 1.0]), behavior_logp=vector)
    rewards = torch.tensor([1.0, 0.0])
    refused(["known: group_mean"], keel.advantages, "mean", rewards=rewards)
    refused(["gdpo needs the rewards of each function"], keel.advantages, "gdpo", rewards=rewards)
    refused(["rewards[1]"], keel.advantages, "grpo", rewards=torch.tensor([1.0, NAN]))
    refused(["groups", "3"], keel.advantages, "grpo", rewards=rewards, groups=[0, 0, 0])
    refused(["lengths"], keel.advantages, "reinforce_pp", rewards=rewards)
    refused(["values"], keel.advantages, "gae", rewards=rewards, lengths=[1, 1])
    refused(["values", "3"], keel.advantages, "gae", rewards=rewards, lengths=[1, 1], values=torch.zeros(3))
    refused(["gamma"], keel.advantages, "rloo", rewards=rewards, gamma=0.9)
    refused(["eps"], keel.advantages, "grpo", rewards=rewards, eps=-1.0)
    refused(["gamma"], keel.advantages, "reinforce_pp", rewards=rewards, lengths=[1, 1], gamma=NAN)
    refused(["horizon"], keel.aggregate, "seq_mean_token_sum_norm", values=vector)
    refused(["lengths"], keel.aggregate, "token_mean", values=vector, lengths=[1])
    refused(["token_mean"], keel.aggregate, "mean", values=vector)
    refused(["rewards"], keel.certificate, logp=vector, behavior_logp=vector, rewards=rewards, lengths=[2])
    refused(["xi"], keel.certificate, logp=vector, behavior_logp=vector, rewards=rewards, lengths=[1, 1], xi=0.5)


def hostile_lengths_do_not_wrap_round():
    vector, wrapping = torch.full((4,), -1.0), [2**63 - 1, 2**63 - 1, 6]  # their sum is 4 in 64 bits
    refused(["lengths[0]"], keel.aggregate, "token_mean", values=vector, lengths=wrapping)
    refused(["lengths[0]"], keel.advantages, "gae", rewards=torch.ones(3), lengths=wrapping, values=vector)
    refused(["lengths[0]"], keel.advantages, "reinforce_pp", rewards=torch.ones(3), lengths=wrapping)
    refused(["lengths[0]"], keel.certificate, logp=vector, behavior_logp=vector, rewards=torch.ones(3), lengths=wrapping)
    refused(["lengths[0]"], keel.token_coefficients, "cppo", **tokens(lengths=wrapping, groups=[0, 0, 0]))


def none_means_no_limit_only_for_limits():
    keel.token_coefficients("dppo_tv", {"high": None}, **tokens())
    keel.token_coefficients("cppo", {"quantile": None}, **tokens())
    for region, name in (("mis", "gap_low"), ("dro", "beta"), ("ipo", "tau"), ("icepop_direct", "ratio_low")):
        refused([name, "from 0 to 1e20"], keel.token_coefficients, region, {name: None}, old_logp=tokens()["logp"], **tokens())


def whole_rows_must_be_distributions():
    row = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]).log()
    assert keel.divergence("full_tv", logp=row, behavior_logp=row).tolist() == [0, 0]
    refused(["logp[0, 0]", "log_softmax"], keel.divergence, "full_kl", logp=row + 3, behavior_logp=row)
    refused(["behavior_logp[1]", "add up to 1"], keel.divergence, "full_tv", logp=row, behavior_logp=row - torch.tensor([[0.0], [1.0]]))
    refused(["logp[0, 1]"], keel.divergence, "full_tv", logp=row + torch.tensor([0, NAN, 0]), behavior_logp=row)


def contradicting_parameters_are_refused():
    """Some cases of tests/objective/methods_test.cpp: they raise ValueError in Python, and None is no limit."""
    old = dict(old_logp=tokens()["logp"])
    for region, params, wanted in (("mis", {"gap_low": 2.0, "gap_high": 1.0}, ["gap_low is 2", "gap_high is 1", "at most"]),
                                   ("dppo_tv", {"C": 3, "c": 3}, ["C", '"c"', "keep one"]), ("drpo", {"delta": 1e300}, ["delta", "1e-20 to 1e20"]),
                                   ("dppo_tv", {"high": 1.5}, ["high is 1.5", "at most 1", "none"])):
        refused([region, *wanted], keel.token_coefficients, region, params, **old, **tokens())
    for region, params in (("drpo", {"delta": 12.5}), ("dppo_kl", {"high": 2}), ("cppo", {"quantile": None}), ("dppo_tv", {"high": INF, "low": None})):
        keel.token_coefficients(region, params, **old, **tokens())


def results_are_correct_at_the_edges_of_float32():
    for dtype in (torch.float32, torch.float64):
        inputs = {name: value.to(dtype) if value is not tokens()["mask"] and isinstance(value, torch.Tensor) else value
                  for name, value in tokens(mask=None).items()}
        for region, name in (("drpo", "delta"), ("spo", "eps"), ("dppo_kl", "low"), ("tvpo", "clip"), ("dgpo", "n")):
            for value in (1e-20, 1e20):
                assert keel.token_coefficients(region, {name: value}, **inputs).coefficient.isfinite().all(), (region, value)


def a_non_numeric_parameter_is_named():
    for value in (decimal.Decimal("0.2"), fractions.Fraction(1, 5), [0.2], "0.2", -INF, NAN, 10**400, True, torch.ones(2), {}):
        refused(["low", "expected a number"], keel.token_coefficients, "dppo_tv", {"low": value}, **tokens())
    for value in (torch.tensor(0.2), torch.tensor([0.2]), torch.tensor(0.2, dtype=torch.float64)):
        keel.token_coefficients("dppo_tv", {"low": value}, **tokens())
    for params in ([("low", 0.2)], "low", {"low"}, 0.2):
        refused(["params", "dict"], keel.token_coefficients, "dppo_tv", params, **tokens())
    refused(["a name in params", "1"], keel.token_coefficients, "dppo_tv", {1: 0.2}, **tokens())
    refused(["divergence", "known: binary_tv"], keel.token_coefficients, "dppo_tv", {"divergence": None}, **tokens())
    refused(["divergence", "known: binary_tv"], keel.token_coefficients, "dppo_tv", {"divergence": 3}, **tokens())
    refused(["pg has no parameter", "it has none"], keel.token_coefficients, "pg", {"low": 0.2}, **tokens())
    refused(["did you mean dppo_tv"], keel.token_coefficients, "dppo_tw", **tokens())
    refused(["did you mean ppo", "keel.methods()"], keel.token_coefficients, "vanilla", **tokens())


def an_argument_of_the_wrong_type_is_named():
    pair = dict(logp=tokens()["logp"], behavior_logp=tokens()["behavior_logp"])
    vector, rewards = pair["logp"], torch.tensor([1.0, 0.0])
    for wanted, call, arguments, named in (
            (["region", "None", "name of a method"], keel.token_coefficients, (None,), tokens()),
            (["region", "3"], keel.policy_loss, (3,), tokens()),
            (["logp is None", "tensor"], keel.token_coefficients, ("dppo_tv",), tokens(logp=None)),
            (["advantages is 1.0, a float"], keel.token_coefficients, ("dppo_tv",), tokens(advantages=1.0)),
            (["lengths is '22', a str", "integers"], keel.token_coefficients, ("gspo",), tokens(lengths="22")),
            (["lengths is {2}, a set", "integers"], keel.token_coefficients, ("gspo",), tokens(lengths={2})),
            (["lengths is 4, a int"], keel.token_coefficients, ("gspo",), tokens(lengths=4)),
            (["lengths", "None", "integers"], keel.token_coefficients, ("gspo",), tokens(lengths=[2, None])),
            (["lengths", "integers"], keel.token_coefficients, ("gspo",), tokens(lengths=[10**400, 2])),
            (["lengths", "2 dimensions"], keel.token_coefficients, ("gspo",), tokens(lengths=[[2, 2]])),
            (["groups is 'ab'"], keel.token_coefficients, ("tvpo",), tokens(groups="ab")),
            (["mask is 'yes'"], keel.token_coefficients, ("dppo_tv",), tokens(mask="yes")),
            (["mask has the shape [2, 2]; expected [4]"], keel.token_coefficients, ("dppo_tv",), tokens(mask=torch.ones(2, 2))),
            (["mask has the shape [2, 2]; expected [4]"], keel.aggregate, ("token_mean",), dict(values=vector, mask=torch.ones(2, 2))),
            (["mask has the shape [2, 2]; expected [4]"], keel.advantages, ("gae",),
             dict(rewards=rewards, lengths=[2, 2], mask=torch.ones(2, 2), values=vector)),
            (["values has the shape [2, 2]"], keel.aggregate, ("token_mean",), dict(values=vector.view(2, 2))),
            (["values has the shape [2, 2]"], keel.advantages, ("gae",),
             dict(rewards=rewards, lengths=[2, 2], values=vector.view(2, 2))),
            (["values is [1.0], a list"], keel.aggregate, ("token_mean",), dict(values=[1.0])),
            (["kind is None"], keel.aggregate, (None,), dict(values=vector)),
            (["horizon is '8', a str"], keel.aggregate, ("seq_mean_token_sum_norm",), dict(values=vector, horizon="8")),
            (["horizon is '8', a str"], keel.policy_loss, ("dppo_tv",), tokens(horizon="8")),
            (["kind is None"], keel.divergence, (None,), pair),
            (["support is 3"], keel.divergence, ("topk_tv",), dict(support=3, **pair)),
            (["kind is None"], keel.advantages, (None,), dict(rewards=rewards)),
            (["rewards is [1.0, 0.0], a list"], keel.advantages, ("grpo",), dict(rewards=[1.0, 0.0])),
            (["eps is '1', a str"], keel.advantages, ("grpo",), dict(rewards=rewards, eps="1")),
            (["rewards is [1.0], a list"], keel.certificate, (), dict(rewards=[1.0], **pair)),
            (["xi is '1', a str"], keel.certificate, (), dict(rewards=torch.ones(1), xi="1", **pair)),
            (["horizon", "4.5", "integer"], keel.certificate, (), dict(rewards=torch.ones(1), horizon=4.5, **pair)),
            (["divergence is 'full_kl'", "topk_tv"], keel.certificate, (), dict(rewards=torch.ones(1), tv=-vector / 4, divergence="full_kl", **pair)),
            (["divergence is 'full_tv'", "as tv"], keel.certificate, (), dict(rewards=torch.ones(1), divergence="full_tv", **pair))):
        refused(wanted, call, *arguments, **named)


def meta_tensors_do_not_mix_with_others():
    for name in ("logp", "behavior_logp", "advantages"):
        refused(["meta"], keel.token_coefficients, "dppo_tv", **tokens(**{name: tokens()[name].to("meta")}))
    refused(["mask", "meta"], keel.token_coefficients, "dppo_tv", **tokens(mask=torch.ones(4, device="meta")))
    refused(["lengths", "meta"], keel.token_coefficients, "gspo", **tokens(lengths=torch.tensor([2, 2], device="meta")))
    refused(["old_logp", "meta"], keel.token_coefficients, "minirl", old_logp=torch.ones(4, device="meta"), **tokens())
    refused(["meta"], keel.aggregate, "token_mean", values=torch.ones(4), mask=torch.ones(4, device="meta"))
    refused(["meta"], keel.divergence, "binary_tv", logp=tokens()["logp"], behavior_logp=torch.ones(4, device="meta"))
    refused(["lengths", "meta"], keel.advantages, "reinforce_pp", rewards=torch.ones(2), lengths=torch.tensor([2, 2], device="meta"))
    pair = dict(logp=torch.ones(4, device="meta"), behavior_logp=torch.ones(4, device="meta"))
    refused(["logp", "meta"], keel.certificate, rewards=torch.ones(1), **pair)
    refused(["rewards", "meta"], keel.certificate, logp=tokens()["logp"], behavior_logp=tokens()["logp"], rewards=torch.ones(1, device="meta"))
    # If all of them are meta tensors, the result is a meta tensor, which torch.compile needs.
    shapes = {name: torch.ones(4, device="meta") for name in ("logp", "behavior_logp", "advantages")}
    assert keel.token_coefficients("dppo_tv", **shapes, mask=[1, 1, 1, 1], lengths=[2, 2]).coefficient.shape == (4,)
    assert keel.policy_loss("dppo_tv", **shapes, lengths=[2, 2], aggregation="token_mean").is_meta


def invalid_arguments_always_raise():
    rewards, vector = torch.tensor([1.0, 0.0]), torch.tensor([-1.0, -2.0, -0.5])
    for value in (0.5, 2.0, NAN, -1.0):
        refused(["mask[1]", "0 or 1"], keel.token_coefficients, "dppo_tv", **tokens(mask=torch.tensor([1, value, 0, 1])))
        refused(["mask[1]", "0 or 1"], keel.policy_loss, "dppo_tv", horizon=4, **tokens(mask=torch.tensor([1, value, 0, 1])))
    refused(["mask[0]", "2"], keel.aggregate, "token_mean", values=vector, mask=[2, 1, 1])
    refused(["mask[2]", "7"], keel.advantages, "grpo", rewards=rewards, lengths=[2, 1], mask=[1, 1, 7])
    refused(["sampled_in_topk[0]", "0 or 1"], keel.token_coefficients, "dppo_topk_tv", **topk(sampled_in_topk=torch.full((4,), 0.5)))
    keel.token_coefficients("dppo_topk_tv", **topk(sampled_in_topk=[1, 1, 1, 1]))
    for call, named in ((keel.token_coefficients, tokens(lengths=[], groups=None)), (keel.policy_loss, tokens(lengths=[], groups=None))):
        refused(["lengths add up to 0", "4 tokens"], call, "gspo", **named)
    refused(["lengths add up to 0"], keel.aggregate, "token_mean", values=vector, lengths=[])
    refused(["groups has 0 entries"], keel.token_coefficients, "tvpo", **tokens(groups=[]))
    empty = dict(logp=torch.zeros(0), behavior_logp=torch.zeros(0), advantages=torch.zeros(0))
    assert keel.token_coefficients("gspo", **empty, lengths=[]).coefficient.numel() == 0
    refused(["aggregation", "mean", "known: token_mean"], keel.aggregate, "mean", values=torch.zeros(0))
    for horizon in (0, -1, NAN, INF, 1e300):  # a valid one has no effect on token_mean and is accepted
        refused(["horizon", "above 0"], keel.aggregate, "token_mean", values=vector, horizon=horizon)
    refused(["horizon is not given", "seq_mean_token_sum_norm"], keel.policy_loss, "drpo", **tokens())
    refused(["lam is 0.9", "lambda is 0.5"], keel.advantages, "gae", rewards=rewards, lengths=[2, 1], values=vector, lam=0.9, **{"lambda": 0.5})
    for kind in ("group_mean", "grpo", "rloo"):
        refused(["lengths", "3 entries"], keel.advantages, kind, rewards=rewards, lengths=[1, 1, 1])
        refused(["lengths", "3", "4"], keel.advantages, kind, rewards=rewards, lengths=[2, 1], mask=torch.ones(4))
        refused(["values has 2 entries"], keel.advantages, kind, rewards=rewards, lengths=[2, 1], values=vector[:2])
        refused(["mask", "without lengths"], keel.advantages, kind, rewards=rewards, mask=torch.ones(3))
    refused(["token_rewards has 2 entries"], keel.advantages, "reinforce_pp", rewards=rewards, lengths=[2, 1], token_rewards=vector[:2])
    refused(["gamma is 1.5"], keel.advantages, "gae", rewards=rewards, lengths=[2, 1], values=vector, gamma=1.5)
    refused(["eps is inf"], keel.advantages, "grpo", rewards=rewards, eps=INF)


def sequence_means_require_lengths():
    flat = tokens(lengths=None, groups=None)
    refused(["seq_mean_token_mean", "needs lengths", "[4]"], keel.policy_loss, "grpo", **flat)
    refused(["needs lengths"], keel.policy_loss, "dppo_tv", horizon=4, **flat)
    one = keel.policy_loss("grpo", **{**flat, "lengths": [4]})
    assert torch.equal(one, keel.policy_loss("grpo", aggregation="token_mean", **flat))


def certificates_name_missing_arguments():
    update = dict(logp=torch.tensor([-1.0, -1.0]), behavior_logp=torch.tensor([-1.0, -1.5]), rewards=torch.tensor([1.0, 0.0]), lengths=[1, 1])
    for tv, wanted in (([0.1], "tv has the shape [1]"), ([0.1, NAN], "tv[1]"), ([-0.1, 0.0], "tv[0] is -0.1"), ([0.1, 1.5], "tv[1] is 1.5")):
        refused([wanted], keel.certificate, tv=torch.tensor(tv), **update)
    refused(["xi is 0.5", "rewards[0] is 1"], keel.certificate, xi=0.5, **update)
    refused(["xi is inf"], keel.certificate, xi=INF, **update)
    refused(["horizon is 0", "lengths[0] is 1"], keel.certificate, horizon=0, **update)
    tv = torch.tensor([0.1, 0.2])
    assert keel.certificate(tv=tv, **update).divergence == "unnamed"  # tv alone does not name the divergence
    assert keel.certificate(tv=tv, divergence="full_tv", **update).divergence == "full_tv"
    assert keel.certificate(**update).divergence == "binary_tv"
    refused(["groups has 3 entries", "2 sequences"], keel.certificate, groups=[0, 0, 1], **update)
    refused(["groups", "meta"], keel.certificate, groups=torch.tensor([0, 1], device="meta"), **update)


def top_k_rows_have_at_most_k_tokens():
    wide = tokens(topk_behavior_logp=torch.full((4, 8), -4.0), topk_logp=torch.full((4, 8), -4.0), sampled_in_topk=[0, 0, 0, 0])
    for method in ("dppo_topk_tv", "drpo_topk_kl"):
        refused(["topk_behavior_logp", "8 tokens", '"k" is 7', "k=8"], keel.token_coefficients, method, {"k": 7}, **wide)
        for k in (8, 20, 128):
            keel.token_coefficients(method, {"k": k}, **wide)
        for k in (0, 129, 2.5):
            refused(['"k"', "whole number from 1 to 128"], keel.token_coefficients, method, {"k": k}, **wide)
    refused(["k is 8", "topk_tv"], keel.token_coefficients, "dppo_tv", {"k": 8}, **tokens())


def messages_name_arguments_and_not_settings():
    vector = torch.tensor([-1.0, -2.0])
    for call, arguments, named in ((keel.aggregate, ("mean",), dict(values=vector)), (keel.advantages, ("mean",), dict(rewards=vector)),
                                   (keel.token_coefficients, ("dpo",), tokens()), (keel.policy_loss, ("dppo_tv",), tokens())):
        try:
            call(*arguments, **named)
            raise AssertionError(f"{arguments} is not refused")
        except ValueError as error:
            assert "objective." not in str(error), error


def clamps_are_counted():
    decision = keel.token_coefficients("pg_is", logp=torch.tensor([-50.0, -1.0, -0.5]), advantages=torch.ones(3),
                                       behavior_logp=torch.tensor([-1.0, -1.0, -30.0]), mask=torch.tensor([1, 1, 0]))
    assert decision.clamped.item() == 1  # the third is beyond the threshold too, and masked


def a_module_without_operators_names_the_build_command():
    """As in build/python after `make quickstart`."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(pathlib.Path(keel.__file__).parent, pathlib.Path(folder) / "keel", ignore=shutil.ignore_patterns("*.so"))
        result = subprocess.run([sys.executable, "-c", "import keel"], cwd=folder, capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": folder})
        assert result.returncode == 1 and "ImportError" in result.stderr and "make build" in result.stderr, result.stderr


if __name__ == "__main__":
    sys.exit(run([invalid_log_probs_are_named_with_their_index, invalid_values_are_named,
                  shapes_and_types_name_the_argument,
                  missing_inputs_of_a_region_are_refused, top_k_rows_must_be_distributions, parameters_are_checked,
                  other_functions_check_their_arguments, hostile_lengths_do_not_wrap_round,
                  none_means_no_limit_only_for_limits, whole_rows_must_be_distributions,
                  contradicting_parameters_are_refused, results_are_correct_at_the_edges_of_float32,
                  a_non_numeric_parameter_is_named, an_argument_of_the_wrong_type_is_named,
                  meta_tensors_do_not_mix_with_others, invalid_arguments_always_raise,
                  sequence_means_require_lengths,
                  certificates_name_missing_arguments, top_k_rows_have_at_most_k_tokens, messages_name_arguments_and_not_settings,
                  clamps_are_counted, a_module_without_operators_names_the_build_command]))
