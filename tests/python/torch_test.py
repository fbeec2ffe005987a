"""The operators inside torch: autograd, torch.compile, operator checks, devices; and a hand-computed case of each method
family that an import must get right."""

import math
import sys

import torch
from torch import library

import keel
from support import run

REGIONS = ("dppo_tv", "dppo_kl", "drpo", "ppo", "gspo", "m2po", "cispo", "tvpo")


def batch(dtype=torch.float32, device="cpu"):
    generator = torch.Generator().manual_seed(7)
    logp = -torch.rand(12, generator=generator, dtype=dtype) * 3
    behavior_logp = (logp + 0.4 * torch.randn(12, generator=generator, dtype=dtype)).clamp(max=-1e-3)
    advantages = torch.tensor([0.5, -1.0, 0.25], dtype=dtype).repeat_interleave(4)
    mask = torch.tensor([1, 1, 1, 0] * 3)
    return {name: tensor.to(device) for name, tensor in
            dict(logp=logp, behavior_logp=behavior_logp, advantages=advantages, mask=mask).items()} | {
                "lengths": [4, 4, 4], "groups": [0, 0, 1]}


def a_hand_computed_case():
    # mu = 0.5, pi = 0.75, A = 2: r = 1.5, TV = 0.25.
    inputs = dict(logp=torch.tensor([math.log(0.75)], dtype=torch.float64), advantages=torch.tensor([2.0], dtype=torch.float64),
                  behavior_logp=torch.tensor([math.log(0.5)], dtype=torch.float64))
    wide = keel.token_coefficients("dppo_tv", {"low": 0.3, "high": 0.3}, **inputs)
    assert abs(wide.coefficient.item() - 3.0) < 1e-12 and wide.keep.item() and not wide.outside.item()
    assert abs(wide.divergence.item() - 0.25) < 1e-12 and wide.threshold.item() == 0.3
    tight = keel.token_coefficients("dppo_tv", {"low": 0.3, "high": 0.2}, **inputs)
    assert tight.coefficient.item() == 0 and not tight.keep.item() and tight.outside.item()
    soft = keel.token_coefficients("drpo", {"delta": 0.5}, **inputs)
    assert abs(soft.coefficient.item() - 3.0 * (1 - 0.25 / 0.5)) < 1e-12 and soft.keep.item()
    assert "dppo_tv" in keel.methods() and keel.methods()["dppo_tv"]["parameters"]["low"] == 0.2


def the_gradient_of_the_loss_is_the_coefficient():
    inputs = batch(torch.float64)
    logp = inputs["logp"].clone().requires_grad_()
    for region in REGIONS:
        arguments = {**inputs, "logp": logp}
        loss = keel.policy_loss(region, **arguments, aggregation="seq_mean_token_mean")
        (gradient,) = torch.autograd.grad(loss, logp)
        g = keel.token_coefficients(region, **arguments).coefficient
        # Three valid tokens in each of three sequences: every weight is 1/9, 0 where masked.
        want = -g / 9
        assert torch.allclose(gradient, want, rtol=1e-12, atol=0), region
        assert not g.requires_grad


def compiled_is_the_same():
    inputs = batch()
    for region in REGIONS:
        def step(logp):
            return keel.policy_loss(region, **{**inputs, "logp": logp}, aggregation="token_mean")

        results = []
        for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
            logp = inputs["logp"].clone().requires_grad_()
            loss = function(logp)
            loss.backward()
            results.append((loss.detach(), logp.grad))
        assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1]), region


def the_default_compiler_supports_it():
    def step(logp, mu, advantages):
        return keel.policy_loss("dppo_tv", {"high": 0.2}, logp=logp, behavior_logp=mu, advantages=advantages * 2,
                                lengths=[4, 4, 4], aggregation="token_mean")

    inputs = [batch()[name] for name in ("logp", "behavior_logp", "advantages")]
    assert torch.allclose(torch.compile(step, fullgraph=True)(*inputs), step(*inputs), rtol=1e-6)


def a_parameter_may_change_between_calls_of_compiled_code():
    inputs = batch()
    names = ("logp", "behavior_logp", "advantages")

    def one(delta, *tensors):
        return keel.policy_loss("drpo", {"delta": delta}, **dict(zip(names, tensors)), aggregation="token_mean")

    def two(low, high, *tensors):
        params = {"low": low, "high": high, "anchor": "behavior"}
        return keel.policy_loss("cispo", params, **dict(zip(names, tensors)), aggregation="token_mean")

    def horizon(length, *tensors):
        return keel.policy_loss("dppo_kl", **dict(zip(names, tensors)), lengths=[4, 4, 4], horizon=length)

    tensors = [inputs[name] for name in names]
    # More values than torch.compile's limit of 8 recompilations, as in a schedule.
    schedule = [0.05 * i for i in range(1, 15)]
    for step, values in ((one, [(delta,) for delta in schedule]), (two, list(zip(schedule, reversed(schedule)))),
                         (horizon, [(16,), (40,), *((100 * delta,) for delta in schedule)])):
        torch._dynamo.reset()
        compiled, distinct = torch.compile(step, fullgraph=True, backend="aot_eager"), set()
        for value in values:
            got = compiled(*value, *tensors)
            assert torch.equal(got, step(*value, *tensors)), (step.__name__, value)
            distinct.add(got.item())
        assert len(distinct) > 2, f"{step.__name__}: the values must not be without effect"
    torch._dynamo.reset()


def torch_checks_the_operators():
    inputs = batch()
    lengths, groups, mask = torch.tensor([4, 4, 4]), torch.tensor([0, 0, 1]), inputs["mask"] != 0
    three = inputs["logp"], inputs["behavior_logp"], inputs["advantages"]
    ops = torch.ops.keel
    no_numbers = torch.empty(0, dtype=torch.float64)
    none = (None,) * 8
    # pg returns the advantages unchanged: its result must not share their memory.
    for region in ("pg", "dppo_tv", "gspo"):
        library.opcheck(ops.token_coefficients, (region, [], no_numbers, [], [], *three, mask, lengths, groups, *none))
    library.opcheck(ops.token_coefficients, ("ppo", ["low", "high"], torch.tensor([0.1, 0.3], dtype=torch.float64), ["anchor"], ["behavior"], *three, mask,
                                             lengths, groups, *none))
    library.opcheck(ops.divergence, ("binary_kl", three[0], three[1], None, None, None, None, None, "union"))
    library.opcheck(ops.advantages, ("grpo", torch.rand(3), groups, None, None, None, None, None, None, None))
    library.opcheck(ops.advantages, ("reinforce_pp", torch.rand(3), groups, lengths, mask, None, None, None, None, None))
    library.opcheck(ops.aggregation_weights, ("token_mean", three[2], mask, lengths, None, None))


def without_valid_tokens_the_loss_is_zero():
    inputs = batch()
    inputs["mask"] = torch.zeros(12)
    logp = inputs["logp"].clone().requires_grad_()
    loss = keel.policy_loss("dppo_tv", **{**inputs, "logp": logp}, aggregation="token_mean")
    loss.backward()
    assert loss.item() == 0 and (logp.grad == 0).all()


def masked_garbage_has_no_effect():
    inputs = batch()
    logp = inputs["logp"].clone()
    logp[3] = float("nan")
    logp.requires_grad_()
    keel.policy_loss("drpo", **{**inputs, "logp": logp}, aggregation="token_mean").backward()
    assert logp.grad.isfinite().all() and logp.grad[3] == 0


def a_certain_token_has_a_finite_divergence():
    # 1 - mu = 1e-9, 1 - pi = 1e-12: log pi rounds to 0 in float32. KL = 5.9087552794811376e-9 with 120 digits.
    tensor = torch.tensor
    inputs = dict(logp=tensor([0.0]), behavior_logp=tensor([math.log1p(-1e-9)]))
    others = dict(other_logp=tensor([math.log(1e-12)]), behavior_other_logp=tensor([math.log(1e-9)]))
    assert math.isinf(keel.divergence("binary_kl", **inputs).item())
    assert abs(keel.divergence("binary_kl", **inputs, **others).item() / 5.9087552794811376e-9 - 1) < 1e-3
    for region, params in (("trm_max", {}), ("dppo_kl", {}), ("dppo_kl", {"anchor": "recomputed"})):
        inputs |= dict(advantages=tensor([1.0]), old_logp=inputs["behavior_logp"])
        others["old_other_logp"] = others["behavior_other_logp"]
        assert not keel.token_coefficients(region, params, **inputs).keep.item(), region
        assert keel.token_coefficients(region, params, **inputs, **others).keep.item(), region
        assert keel.policy_loss(region, params, **inputs, **others, aggregation="token_mean").isfinite(), region


def padded_and_flat_tensors_agree():
    flat = batch(torch.float64)
    lengths, groups = flat.pop("lengths"), flat.pop("groups")
    padded = {name: tensor.reshape(3, 4) for name, tensor in flat.items()}
    generator = torch.Generator().manual_seed(8)
    def others(logp):  # five other tokens, with half of what the sampled one leaves
        shares = torch.softmax(torch.randn(12, 5, generator=generator, dtype=torch.float64), -1)
        return (shares * (1 - logp.exp())[:, None] / 2).log().reshape(3, 4, 5)

    padded_top = {"topk_logp": others(flat["logp"]), "topk_behavior_logp": others(flat["behavior_logp"]),
                  "sampled_in_topk": torch.zeros(3, 4, dtype=torch.bool)}
    flat_top = {name: tensor.reshape(12, *tensor.shape[2:]) for name, tensor in padded_top.items()}
    for region in (*REGIONS, "dppo_topk_tv"):
        more, wide_more = (flat_top, padded_top) if "topk" in region else ({}, {})
        want = keel.token_coefficients(region, **flat, **more, lengths=lengths, groups=groups)
        for advantages in (padded["advantages"], padded["advantages"][:, 0], padded["advantages"][:, :1]):
            got = keel.token_coefficients(region, **{**padded, "advantages": advantages}, **wide_more, groups=groups)
            assert got.coefficient.shape == (3, 4)
            for name in ("coefficient", "keep", "outside", "divergence", "threshold"):
                assert torch.equal(getattr(got, name).reshape(-1), getattr(want, name)), (region, name)
        logp = padded["logp"].clone().requires_grad_()
        loss = keel.policy_loss(region, **{**padded, "logp": logp}, **wide_more, groups=groups, aggregation="token_mean")
        same = keel.policy_loss(region, **flat, **more, lengths=lengths, groups=groups, aggregation="token_mean")
        assert torch.equal(loss.detach(), same), region
        (gradient,) = torch.autograd.grad(loss, logp)
        assert torch.allclose(gradient.reshape(-1), -want.coefficient / 9, rtol=1e-12, atol=0), region
    for wrong, words in ((dict(lengths=[4, 4, 4]), "lengths are for flat tensors"), (dict(behavior_logp=flat["logp"]), "behavior_logp is [12]"),
                         (dict(advantages=flat["advantages"]), "or one value per row")):
        try:
            keel.policy_loss("dppo_tv", **{**padded, **wrong}, aggregation="token_mean")
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{words}: not refused")


def the_gpu_agrees():
    if not torch.cuda.is_available():
        return "skipped, there is no GPU"
    for region in REGIONS:
        here = keel.token_coefficients(region, **batch(torch.float64))
        there = keel.token_coefficients(region, **batch(torch.float64, "cuda"))
        assert there.coefficient.is_cuda
        assert torch.allclose(here.coefficient, there.coefficient.cpu(), rtol=1e-12, atol=1e-14), region
        assert torch.equal(here.keep, there.keep.cpu()), region


if __name__ == "__main__":
    sys.exit(run([a_hand_computed_case, the_gradient_of_the_loss_is_the_coefficient, compiled_is_the_same,
                  the_default_compiler_supports_it, a_parameter_may_change_between_calls_of_compiled_code, torch_checks_the_operators, without_valid_tokens_the_loss_is_zero,
                  masked_garbage_has_no_effect, a_certain_token_has_a_finite_divergence,
                  padded_and_flat_tensors_agree, the_gpu_agrees]))
