"""What a caller can get wrong: each a ValueError that names the argument and its first offending place."""

import sys

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
    rows = torch.tensor([[0.5, 0.3], [0.6, 0.2], [0.9, 0.05], [0.7, 0.2]]).log()
    arguments = dict(topk_behavior_logp=rows, topk_logp=rows.clone(), sampled_in_topk=torch.tensor([True] * 4))
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
    raise AssertionError(f"not refused; wanted {wanted}")


def values_that_are_no_log_probs_name_their_place():
    for name in ("logp", "behavior_logp"):
        for value in (NAN, INF, -INF, 0.5):
            refused([f"{name}[3]", "log-probability"], keel.token_coefficients, "dppo_tv", **tokens(**with_value(name, 3, value)))
            keel.token_coefficients("dppo_tv", **tokens(**with_value(name, 2, value)))  # masked: nobody looks
    both = tokens()["logp"].clone()
    both[1] = both[3] = 1.0
    refused(["logp[1]"], keel.token_coefficients, "dppo_tv", **tokens(logp=both))  # the first, not just any
    refused(["advantages[0]", "finite"], keel.token_coefficients, "grpo", **tokens(**with_value("advantages", 0, NAN)))
    refused(["old_logp[1]"], keel.token_coefficients, "minirl", old_logp=torch.tensor([-1.0, 2.0, -1.0, -1.0]), **tokens())


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


def what_a_region_needs_must_be_there():
    refused(["old_logp"], keel.token_coefficients, "dppo_tv", {"anchor": "recomputed"}, **tokens())
    refused(["topk_behavior_logp"], keel.token_coefficients, "dppo_topk_tv", **tokens())
    refused(["divergence"], keel.token_coefficients, "dppo_full_tv", **tokens())
    refused(["divergence[0]"], keel.token_coefficients, "dppo_full_tv", divergence=torch.tensor([NAN, 0, 0, 0]), **tokens())
    refused(["divergence[1]"], keel.token_coefficients, "dppo_full_tv", divergence=torch.tensor([0, -0.1, 0, 0]), **tokens())
    infinite = keel.token_coefficients("dppo_full_kl", divergence=torch.tensor([INF, INF, 0, 0]), **tokens())
    assert infinite.keep.tolist() == [False, True, True, True]  # away and beyond; towards mu is never blocked


def topk_rows_must_be_distributions():
    keel.token_coefficients("dppo_topk_tv", **topk())
    heavy = topk()["topk_behavior_logp"].clone()
    heavy[1] = torch.tensor([0.9, 0.3]).log()
    refused(["topk_behavior_logp[1]", "1.2"], keel.token_coefficients, "dppo_topk_tv", **topk(topk_behavior_logp=heavy))
    refused(["topk_logp[1]"], keel.token_coefficients, "dppo_topk_tv", **topk(topk_logp=heavy))
    bad = topk()["topk_logp"].clone()
    bad[3, 1] = NAN
    refused(["topk_logp[3, 1]"], keel.token_coefficients, "dppo_topk_kl", **topk(topk_logp=bad))
    refused(["topk_logp", "[4, 1]"], keel.token_coefficients, "dppo_topk_kl", **topk(topk_logp=bad[:, :1] * 0 - 1))
    # The sampled token's own probability counts where it is not among the K: 0.6 + 0.2 + e^-0.4 > 1.
    refused(["topk_behavior_logp[1]"], keel.token_coefficients, "dppo_topk_tv",
            **topk(sampled_in_topk=torch.tensor([True, False, True, True])))
    refused(["topk_logp"], keel.divergence, "topk_tv", logp=-torch.ones(1), behavior_logp=-torch.ones(1),
            topk_behavior_logp=-torch.ones(1, 2), sampled_in_topk=torch.tensor([True]))


def parameters_are_checked():
    for params in ({"low": 0}, {"high": -0.1}, {"low": NAN}, {"ratio_cap": 0}):
        refused([next(iter(params)), "above 0"], keel.token_coefficients, "dppo_tv", params, **tokens())
    refused(["delta", "above 0"], keel.token_coefficients, "drpo", {"delta": 0.0}, **tokens())
    refused(["no parameter", "epsilon", "low, high"], keel.token_coefficients, "dppo_tv", {"epsilon": 0.2}, **tokens())
    refused(["no method", "dppo_tw"], keel.token_coefficients, "dppo_tw", **tokens())
    refused(["anchor", "known: behavior, recomputed"], keel.token_coefficients, "dppo_tv", {"anchor": "old"}, **tokens())
    refused(["low"], keel.token_coefficients, "dppo_tv", {"low": "small"}, **tokens())


def the_other_functions_check_too():
    vector = torch.tensor([-1.0, -2.0])
    refused(["known: binary_tv"], keel.divergence, "binary", logp=vector, behavior_logp=vector)
    refused(["full_tv", "[N, V]"], keel.divergence, "full_tv", logp=vector, behavior_logp=vector)
    refused(["logp[1]"], keel.divergence, "binary_kl", logp=torch.tensor([-1.0, 1.0]), behavior_logp=vector)
    rewards = torch.tensor([1.0, 0.0])
    refused(["known: group_mean"], keel.advantages, "mean", rewards=rewards)
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


def none_is_no_limit_only_where_that_makes_sense():
    keel.token_coefficients("dppo_tv", {"high": None}, **tokens())
    keel.token_coefficients("cppo", {"quantile": None}, **tokens())
    for region, name in (("mis", "gap_low"), ("dro", "beta"), ("ipo", "tau"), ("icepop_direct", "ratio_low")):
        refused([name, "from 0 on"], keel.token_coefficients, region, {name: None}, old_logp=tokens()["logp"], **tokens())


def whole_rows_must_be_distributions():
    row = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]).log()
    assert keel.divergence("full_tv", logp=row, behavior_logp=row).tolist() == [0, 0]
    refused(["logp[0, 0]", "log_softmax"], keel.divergence, "full_kl", logp=row + 3, behavior_logp=row)
    refused(["behavior_logp[1]", "add up to 1"], keel.divergence, "full_tv", logp=row, behavior_logp=row - torch.tensor([[0.0], [1.0]]))
    refused(["logp[0, 1]"], keel.divergence, "full_tv", logp=row + torch.tensor([0, NAN, 0]), behavior_logp=row)


def clamps_are_counted():
    decision = keel.token_coefficients("pg_is", logp=torch.tensor([-50.0, -1.0, -0.5]), advantages=torch.ones(3),
                                       behavior_logp=torch.tensor([-1.0, -1.0, -30.0]), mask=torch.tensor([1, 1, 0]))
    assert decision.clamped.item() == 1  # the third is beyond too, and masked


if __name__ == "__main__":
    sys.exit(run([values_that_are_no_log_probs_name_their_place, shapes_and_types_name_the_argument,
                  what_a_region_needs_must_be_there, topk_rows_must_be_distributions, parameters_are_checked,
                  the_other_functions_check_too, hostile_lengths_do_not_wrap_round,
                  none_is_no_limit_only_where_that_makes_sense, whole_rows_must_be_distributions, clamps_are_counted]))
