"""The fused head compared with materialised logits in float64: values, gradients, torch.compile, operator checks, errors."""

import os
import sys

import torch
from torch import library

import keel
from support import refused, run

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from effort import count  # noqa: E402

torch.set_num_threads(1)
torch.set_default_device(os.environ.get("KEEL_TEST_DEVICE", "cpu"))  # tests/gpu/python_head_test.py: cuda
ROWS, WIDTH, VOCABULARY = 24, 10, 37
LENGTHS = [7, 1, 9, 7]


def problem(dtype=torch.float32, seed=3):
    """Hidden states and a head that need gradients, targets, and the arguments of a method."""
    generator = torch.Generator("cpu").manual_seed(seed)  # the same problem on every device

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device="cpu").to(torch.get_default_device())

    hidden, weight = normal(ROWS, WIDTH).to(dtype).requires_grad_(), normal(VOCABULARY, WIDTH).to(dtype).requires_grad_()
    targets = torch.randint(VOCABULARY, (ROWS,), generator=generator, device="cpu").to(hidden.device)
    mu = reference_logp(hidden.double(), weight.double()).gather(1, targets[:, None])[:, 0].detach().float()
    known = dict(behavior_logp=(mu + 0.3 * normal(ROWS)).clamp(max=-1e-3),
                 advantages=torch.tensor([1.0, -0.5, 0.7, -1.2]).repeat_interleave(torch.tensor(LENGTHS)))
    return hidden, weight, targets, known


def reference_logp(hidden, weight, temperature=1.0, softcap=None):
    logits = hidden @ weight.T
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    return torch.log_softmax(logits / temperature, -1)


def near(got, want, what, tolerance=1e-5):
    off = (got.double() - want).abs().max().item() / max(want.abs().max().item(), 1e-3)
    assert off <= tolerance, f"{what}: {off:.2g} off, relative to the largest"


def in_double(*tensors):
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def log_probs_and_gradients_are_those_of_materialised_logits():
    for temperature, softcap, rows in ((1.0, None, 0), (0.7, None, 5), (1.3, 4.0, 7), (1.0, 2.0, 1)):
        hidden, weight, targets, known = problem()
        got = keel.fused_log_probs(hidden, weight, targets, temperature, softcap=softcap, chunk_rows=rows)
        wide = in_double(hidden, weight)
        logp = reference_logp(*wide, temperature, softcap)
        chosen, entropy = logp.gather(1, targets[:, None])[:, 0], -(logp.exp() * logp).sum(1)
        near(got.logp, chosen, "logp")
        near(got.entropy, entropy, "entropy")
        near(got.other_logp, torch.log1p(-chosen.exp()), "log(1 - p)")
        assert got.topk_logp is None and not got.other_logp.requires_grad
        a, b = known["advantages"], known["behavior_logp"]
        ours = torch.autograd.grad((got.logp * a).sum() + (got.entropy * b).sum(), (hidden, weight))
        theirs = torch.autograd.grad((chosen * a.double()).sum() + (entropy * b.double()).sum(), wide)
        for name, one, other in zip(("hidden", "weight"), ours, theirs):
            near(one, other, f"the gradient of {name} at temperature {temperature}, softcap {softcap}")


def requested_tokens_have_their_log_probs():
    hidden, weight, targets, _ = problem()
    ids = torch.stack([targets, (targets + 5) % VOCABULARY], 1)
    got = keel.fused_log_probs(hidden, weight, targets, topk_ids=ids, chunk_rows=7)
    near(got.topk_logp, reference_logp(hidden.double(), weight.double()).gather(1, ids), "top-K")
    assert torch.equal(got.topk_logp[:, 0], got.logp) and not got.topk_logp.requires_grad


def mixed_dtypes_are_computed_in_float32():
    hidden, weight, targets, _ = problem(torch.bfloat16)
    got = keel.fused_log_probs(hidden, weight, targets)
    near(got.logp, reference_logp(hidden.double(), weight.double()).gather(1, targets[:, None])[:, 0], "logp of bfloat16")
    got.logp.sum().backward()
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16
    mixed = keel.fused_log_probs(hidden, weight.float(), targets)
    near(mixed.logp, got.logp.detach().double(), "logp of bfloat16 and a float32 head")


LOSSES = (  # method, parameters, names of its other arguments
    ("dppo_tv", {"high": 0.05}, {}), ("drpo", None, {}), ("ppo", None, {}), ("gspo", None, {}), ("m2po", None, {}),
    ("dppo_kl", {"low": 0.02}, dict(temperature=0.8, softcap=5.0)), ("dppo_tv", None, dict(entropy_coefficient=0.1)))


def reference_loss(method, parameters, hidden, weight, targets, known, temperature=1.0, softcap=None, entropy_coefficient=0.0,
                   divergence=None, **more):
    """keel.policy_loss on materialised logits in float64, which the golden tests cover."""
    logp = reference_logp(hidden, weight, temperature, softcap)
    chosen = logp.gather(1, targets[:, None])[:, 0].clamp(max=0)
    wide = {name: value.double() if value.is_floating_point() else value for name, value in {**known, **more}.items()}
    if "topk_ids" in wide:
        ids = wide.pop("topk_ids")
        wide.update(topk_logp=logp.gather(1, ids).detach(), sampled_in_topk=(ids == targets[:, None]).any(1))
    if divergence:
        sampler = reference_logp(wide.pop("behavior_hidden"), wide.pop("behavior_weight"), temperature, softcap)
        wide["divergence"] = keel.divergence(divergence, logp=logp.detach(), behavior_logp=sampler)
    loss = keel.policy_loss(method, parameters, logp=chosen, lengths=LENGTHS, aggregation="seq_mean_token_mean", **wide)
    entropy = -(logp.exp() * logp).sum(1)
    return loss - entropy_coefficient * keel.aggregate("seq_mean_token_mean", values=entropy, lengths=LENGTHS).loss


def fused_loss(method, parameters, hidden, weight, targets, known, **more):
    return keel.fused_policy_loss(method, parameters, hidden=hidden, weight=weight, targets=targets, lengths=LENGTHS,
                                  aggregation="seq_mean_token_mean", **known, **more)


def the_loss_is_policy_loss_and_so_are_its_gradients():
    blocked = 0
    for method, parameters, more in LOSSES:
        for rows in (0, 5):
            hidden, weight, targets, known = problem()
            got = fused_loss(method, parameters, hidden, weight, targets, known, chunk_rows=rows, **more)
            wide = in_double(hidden, weight)
            want = reference_loss(method, parameters, *wide, targets, known, **more)
            near(got.loss, want, f"the loss of {method}")
            ours, theirs = torch.autograd.grad(2 * got.loss, (hidden, weight)), torch.autograd.grad(2 * want, wide)
            for name, one, other in zip(("hidden", "weight"), ours, theirs):
                near(one, other, f"the gradient of {name} with {method}, {rows} rows at a time")
            blocked += int((~got.decision.keep).sum())
    assert blocked > 10, "the comparison must see blocked tokens"


def top_k_and_full_divergences_agree():
    hidden, weight, targets, known = problem()
    other_hidden, other_weight = (x.detach() + 0.1 * torch.randn(x.shape, generator=torch.Generator("cpu").manual_seed(1), device="cpu").to(x.device)
                                  for x in (hidden, weight))
    mu = reference_logp(other_hidden.double(), other_weight.double())
    known["behavior_logp"] = mu.gather(1, targets[:, None])[:, 0].float()
    topk = mu.topk(4)
    cases = [("dppo_topk_tv", {"k": 4, "high": 0.05}, dict(topk_ids=topk.indices, topk_behavior_logp=topk.values.float()), None),
             ("dppo_full_kl", {"high": 0.01}, dict(behavior_hidden=other_hidden, behavior_weight=other_weight), "full_kl")]
    for method, parameters, more, divergence in cases:
        got = fused_loss(method, parameters, hidden, weight, targets, known, chunk_rows=7, **more)
        wide = in_double(hidden, weight)
        want = reference_loss(method, parameters, *wide, targets, known, divergence=divergence, **more)
        near(got.loss, want, method)
        near(torch.autograd.grad(got.loss, hidden)[0], torch.autograd.grad(want, wide[0])[0], f"the gradient of {method}")
        assert 0 < (~got.decision.keep).sum() < ROWS, method


def a_part_of_a_batch_uses_the_weights_of_the_whole():
    hidden, weight, targets, known = problem()
    whole = fused_loss("dppo_tv", None, hidden, weight, targets, known).loss
    weights = keel.aggregate("seq_mean_token_mean", values=known["advantages"], lengths=LENGTHS).weights
    parts = [keel.fused_policy_loss("dppo_tv", hidden=hidden[rows], weight=weight, targets=targets[rows], weights=weights[rows],
                                    **{name: value[rows] for name, value in known.items()}).loss
             for rows in (slice(0, 8), slice(8, ROWS))]
    near(sum(parts), whole.double(), "the sum of two parts")


def frozen_heads_and_no_grad_get_no_gradients():
    hidden, weight, targets, known = problem()
    weight.requires_grad_(False)
    fused_loss("dppo_tv", None, hidden, weight, targets, known).loss.backward()
    assert weight.grad is None and hidden.grad.abs().sum() > 0
    with torch.no_grad():
        quiet = fused_loss("dppo_tv", None, hidden, weight, targets, known)
    assert not quiet.loss.requires_grad and torch.equal(quiet.loss, fused_loss("dppo_tv", None, hidden, weight, targets, known).loss)


def an_empty_batch_has_loss_0():
    hidden, weight, targets, known = problem()
    none = {name: value[:0] for name, value in known.items()}
    loss = keel.fused_policy_loss("drpo", hidden=hidden[:0], weight=weight, targets=targets[:0], lengths=[],
                                  aggregation="token_mean", **none).loss
    loss.backward()
    assert loss.item() == 0 and weight.grad.abs().sum() == 0
    assert keel.fused_log_probs(hidden[:0], weight, targets[:0], topk_ids=targets[:0, None].expand(0, 3)).topk_logp.shape == (0, 3)


def compiled_is_the_same():
    hidden, weight, targets, known = problem()

    def log_probs(h, w):
        out = keel.fused_log_probs(h, w, targets, 0.9)
        return (out.logp * known["advantages"]).sum() + out.entropy.sum()

    def loss(h, w):
        return fused_loss("dppo_tv", {"high": 0.05}, h, w, targets, known).loss * 3

    for function in (log_probs, loss):
        for backend in count(("aot_eager",), ("aot_eager", "inductor")):
            results = []
            for step in (function, torch.compile(function, fullgraph=True, backend=backend)):
                value = step(hidden, weight)
                results.append((value.detach(), *torch.autograd.grad(value, (hidden, weight))))
            for one, other in zip(*results):
                assert torch.allclose(one, other, rtol=1e-6, atol=1e-7), (function.__name__, backend)


def torch_checks_the_operators():
    hidden, weight, targets, known = problem()
    library.opcheck(torch.ops.keel.head_log_probs, (hidden, weight, targets, None, 1.0, 0.0, 0))
    library.opcheck(torch.ops.keel.head_log_probs, (hidden, weight, targets, targets[:, None].clone(), 1.0, 0.0, 5))
    a, b = (known[name].clone() for name in ("advantages", "behavior_logp"))
    library.opcheck(torch.ops.keel.head_gradients, (hidden.detach(), weight.detach(), targets, a, b, 1.0, 0.0, 0, True))
    none = torch.empty(0, dtype=torch.float64)
    tail = (None,) * 9 + (0.0, 1.0, 0.0, 0, True, True)
    library.opcheck(torch.ops.keel.policy_head, (hidden, weight, targets, "dppo_tv", [], none, [], [], b, a, a.abs(), *tail))


def mismatched_arguments_are_refused_by_name():
    hidden, weight, targets, known = problem()

    def loss(**changes):
        arguments = dict(hidden=hidden, weight=weight, targets=targets, lengths=LENGTHS, aggregation="token_mean", **known)
        return keel.fused_policy_loss(changes.pop("region", "dppo_tv"), **{**arguments, **changes})

    ids = torch.stack([targets, (targets + 5) % VOCABULARY, (targets + 9) % VOCABULARY], 1)
    three = torch.stack([known["behavior_logp"], *[torch.full_like(known["behavior_logp"], -30)] * 2], 1)

    def likeliest(**changes):
        return loss(region="dppo_topk_tv", **{"topk_ids": ids, "topk_behavior_logp": three, **changes})

    assert likeliest().loss.isfinite()
    cases = [
        (lambda: keel.fused_log_probs(hidden[:, :4], weight, targets), "one H"),
        (lambda: keel.fused_log_probs(hidden.double(), weight.double(), targets), "float32, bfloat16 or float16"),
        (lambda: keel.fused_log_probs(hidden, weight, targets + VOCABULARY), f"the head has {VOCABULARY} rows"),
        (lambda: keel.fused_log_probs(hidden, weight, targets.int()), "targets is Int"),
        (lambda: keel.fused_log_probs(hidden, weight, targets[1:]), "one id for each of the 24 rows"),
        (lambda: keel.fused_log_probs(hidden, weight, targets, 0.0), "temperature is 0"),
        (lambda: keel.fused_log_probs(hidden, weight, [1, 2]), "targets is [1, 2]"),
        (lambda: keel.fused_log_probs(hidden, weight, targets, topk_ids=-targets[:, None]), "topk_ids has the token -"),
        (lambda: loss(behavior_logp=known["behavior_logp"][1:]), "behavior_logp"),
        (lambda: loss(behavior_logp=known["behavior_logp"] + 5), "behavior_logp["),
        (lambda: loss(advantages=known["advantages"] * float("nan")), "advantages["),
        (lambda: loss(region="dppo_topk_tv"), "needs topk_ids"),
        (lambda: likeliest(topk_behavior_logp=three[:, :2]), "topk_behavior_logp is [24, 2], but topk_ids is [24, 3]"),
        (lambda: likeliest(topk_behavior_logp=three[:, :1].expand(24, 4)), "topk_behavior_logp is [24, 4], but topk_ids is [24, 3]"),
        (lambda: likeliest(topk_ids=torch.where(torch.arange(24)[:, None] == 7, ids[:, [2, 1, 2]], ids)), "topk_ids[7] has a duplicate token"),
        (lambda: loss(region="dppo_full_tv"), "needs behavior_hidden"),
        (lambda: loss(region="tis"), "old_logp"),
        (lambda: loss(lengths=[5, 5]), "lengths"),
        (lambda: loss(weights=known["advantages"]), "keep one of them"),
        (lambda: loss(entropy_coefficient=float("nan")), "entropy_coefficient is nan"),
        (lambda: loss(entropy_coefficient=float("inf")), "entropy_coefficient is inf"),
    ]
    # A meta tensor with ordinary ones would give a result without values.
    empty = {name: value.to("meta") for name, value in dict(known, targets=targets, weight=weight.detach(), hidden=hidden.detach()).items()}
    cases += [(lambda name=name: loss(aggregation=None, weights=known["advantages"].abs(), **{name: empty[name]}), "on meta") for name in empty]
    cases += [(lambda: keel.fused_log_probs(hidden, weight, empty["targets"]), "targets is on meta"),
              (lambda: loss(lengths=torch.tensor(LENGTHS, device="meta"), aggregation=None, weights=known["advantages"].abs()), "lengths is on meta")]
    refused(cases)


if __name__ == "__main__":
    sys.exit(run([
        log_probs_and_gradients_are_those_of_materialised_logits, requested_tokens_have_their_log_probs, mixed_dtypes_are_computed_in_float32,
        the_loss_is_policy_loss_and_so_are_its_gradients, top_k_and_full_divergences_agree,
        a_part_of_a_batch_uses_the_weights_of_the_whole, frozen_heads_and_no_grad_get_no_gradients,
        an_empty_batch_has_loss_0, compiled_is_the_same, torch_checks_the_operators, mismatched_arguments_are_refused_by_name]))
