"""keel.policy_loss with score centering: gradients in float64 equal torch's autograd of the written formula, and the mean gradient
over all tokens that the sampler could draw is 0."""

import sys

import torch

import keel
from support import refused, run

VOCABULARY, K = 50, 20
generator = torch.Generator().manual_seed(3)
LOGITS = 2 * torch.randn(VOCABULARY, generator=generator, dtype=torch.float64)
MU = (LOGITS + 0.5 * torch.randn(VOCABULARY, generator=generator, dtype=torch.float64)).softmax(0)
TOP = MU.topk(K).indices


def clip(pi, mu, sign):
    ratio = pi / mu
    return torch.where(ratio > 1.28 if sign > 0 else ratio < 0.8, 0, ratio)


def dppo_tv(pi, mu, sign):
    return torch.where(sign * (pi - mu) > 0.05, 0, (pi / mu).clamp(max=2))


def dppo_kl(pi, mu, sign):
    kl = mu * (mu / pi).log() + (1 - mu) * ((1 - mu) / (1 - pi)).log()
    return torch.where((sign * (pi - mu) > 0) & (kl > 0.01), 0, (pi / mu).clamp(max=2))


# Method, parameters, weight as a function of pi, mu and the sign of A.
METHODS = (
    ("pg", {}, lambda pi, mu, sign: torch.ones_like(pi)),
    ("pg_is", {}, lambda pi, mu, sign: pi / mu),
    ("pg_tis", {"C": 1.5}, lambda pi, mu, sign: (pi / mu).clamp(max=1.5)),
    ("cispo", {"low": 0.2, "high": 0.28}, lambda pi, mu, sign: (pi / mu).clamp(0.8, 1.28)),
    ("grpo", {"low": 0.2, "high": 0.28}, clip),
    ("dppo_tv", {"low": 0.05, "high": 0.05, "C": 2}, dppo_tv),
    ("dppo_kl", {"low": 0.01, "high": 0.01, "C": 2}, dppo_kl),
    ("drpo", {"delta": 0.1}, lambda pi, mu, sign: pi / mu * (1 - sign * (pi - mu) / 0.1)),
    ("spo", {"eps": 0.2}, lambda pi, mu, sign: pi / mu * (1 - sign * (pi / mu - 1) / 0.2)),
)


def gradients(method, params, advantage, kind):
    """The gradient of the loss of each token of the vocabulary, as if it had been sampled: [V, V]."""
    rows = []
    for token in range(VOCABULARY):
        logits = LOGITS.clone().requires_grad_()
        logp = logits.log_softmax(0)
        chosen = TOP if kind == "topk" else slice(None)
        centered = {} if kind == "none" else dict(centering=kind, centering_logp=logp[chosen][None],
                                                  centering_behavior_logp=MU.log()[chosen][None])
        loss = keel.policy_loss(method, params, logp=logp[token:token + 1], behavior_logp=MU.log()[token:token + 1],
                                advantages=torch.tensor([advantage], dtype=torch.float64), aggregation="token_mean", **centered)
        rows.append(torch.autograd.grad(loss, logits)[0])
    return torch.stack(rows)


def written(weight, advantage, kind):
    """The same from the formula: -A (w_a log pi_a - sum_v b_v log pi_v) with constants w and b."""
    sign = 1 if advantage > 0 else -1
    pi = LOGITS.softmax(0)
    w, b = weight(pi, MU, sign), torch.zeros_like(MU)
    if kind == "exact":
        b = MU * w
    elif kind == "topk":
        rho = (1 - MU[TOP].sum()) / (1 - pi[TOP].sum())
        tiny = torch.tensor(1e-14, dtype=torch.float64)
        b[TOP] = MU[TOP] * w[TOP] - rho * weight(tiny, rho * tiny, sign) * pi[TOP]
    rows = []
    for token in range(VOCABULARY):
        logits = LOGITS.clone().requires_grad_()
        logp = logits.log_softmax(0)
        rows.append(torch.autograd.grad(-advantage * (w[token] * logp[token] - (b * logp).sum()), logits)[0])
    return torch.stack(rows)


def equals_autograd_of_the_formula():
    for method, params, weight in METHODS:
        for advantage in (1.0, -1.0, 0.3):
            for kind in ("none", "topk", "exact"):
                got, want = gradients(method, params, advantage, kind), written(weight, advantage, kind)
                worst = (got - want).abs().max().item()
                assert worst < 1e-12, f"{method} {kind} {advantage}: {worst}"


def the_mean_gradient_over_all_tokens_is_0():
    remainders = {}
    for method, params, _ in METHODS:
        mean = {kind: (MU @ gradients(method, params, 1.0, kind)).abs().max().item() for kind in ("none", "topk", "exact")}
        assert mean["exact"] < 1e-12, (method, mean)
        remainders[method] = mean
    assert remainders["pg"]["topk"] < remainders["pg"]["none"] / 4 and remainders["pg_is"]["topk"] < 1e-12, remainders
    return ", ".join(f"{method} {mean['none']:.2g}, with the top {K} {mean['topk']:.2g}" for method, mean in remainders.items())


def masked_tokens_and_padding_are_ignored():
    logp = LOGITS.log_softmax(0)
    rows = torch.stack([logp, torch.full_like(logp, float("nan"))]).requires_grad_()
    arguments = dict(behavior_logp=MU.log()[:1].repeat(2), advantages=torch.tensor([1.0, 1.0], dtype=torch.float64), mask=[1, 0],
                     aggregation="token_mean", centering="exact")
    behavior = MU.log().repeat(2, 1)
    loss = keel.policy_loss("pg", logp=rows[:, 0], centering_logp=rows, centering_behavior_logp=behavior, **arguments)
    (gradient,) = torch.autograd.grad(loss, rows)
    assert (gradient[1] == 0).all() and torch.allclose(gradient[0, 1:], MU[1:], atol=1e-15)
    padded = {name: value[None] if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
    again = keel.policy_loss("pg", logp=rows[None, :, 0], centering_logp=rows[None], centering_behavior_logp=behavior[None],
                             **padded | {"mask": torch.tensor([[1, 0]])})
    assert torch.equal(loss, again)


def a_token_of_probability_0_is_allowed():
    logp = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64).log().requires_grad_()
    mu = torch.tensor([[0.4, 0.6, 0.0]], dtype=torch.float64).log()
    loss = keel.policy_loss("dppo_kl", logp=logp[:, 0], behavior_logp=mu[:, 0], advantages=torch.ones(1, dtype=torch.float64),
                            aggregation="token_mean", centering="exact", centering_logp=logp, centering_behavior_logp=mu)
    (gradient,) = torch.autograd.grad(loss, logp)
    assert torch.isfinite(loss) and torch.isfinite(gradient).all()


def wrong_arguments_are_refused():
    logp = LOGITS.log_softmax(0)

    def call(method="pg", params=None, **changes):
        arguments = dict(logp=logp[:1], behavior_logp=MU.log()[:1], advantages=torch.ones(1, dtype=torch.float64),
                         aggregation="token_mean", centering="exact", centering_logp=logp[None], centering_behavior_logp=MU.log()[None])
        return lambda: keel.policy_loss(method, params, **arguments | changes)

    refused([
        (call("minirl", old_logp=logp[:1]), "minirl cannot be centered: its weight depends on recomputed log-probs"),
        (call("ppo", {"anchor": "recomputed"}, old_logp=logp[:1]), "recomputed"),
        (call("gspo", lengths=[1]), "depends on the whole sequence"),
        (call("m2po"), "depends on the whole update"),
        (call("maspo"), "sign of A"),
        (call(centering="full"), 'centering is "full"; known: none, topk, exact'),
        (call(centering="none"), "centering_logp is given"),
        (call(centering_logp=None), "centering_logp is None"),
        (call(logp=logp[:1].clone().requires_grad_()), "centering_logp is detached, so nothing would be centered"),
        (call(centering_logp=logp[None, :9]), "centering_logp[0] is"),
        (call(centering_behavior_logp=MU.log()[None, :9]), "centering_behavior_logp has the shape [1, 9]; expected [1, V]"),
        (call(centering_logp=LOGITS[None]), "at most 0"),
        (call(centering="topk", centering_logp=torch.full((1, 9), -1.0, dtype=torch.float64)), "add up to at most 1"),
    ])


def compiled_is_the_same():
    logp = LOGITS.log_softmax(0)[None]

    def step(rows):
        return keel.policy_loss("drpo", logp=rows[:, 0], behavior_logp=MU.log()[:1], advantages=torch.ones(1, dtype=torch.float64),
                                aggregation="token_mean", centering="exact", centering_logp=rows, centering_behavior_logp=MU.log()[None])

    assert torch.allclose(step(logp), torch.compile(step, fullgraph=True)(logp), rtol=1e-12, atol=0)


if __name__ == "__main__":
    sys.exit(run([equals_autograd_of_the_formula, the_mean_gradient_over_all_tokens_is_0, masked_tokens_and_padding_are_ignored,
                  a_token_of_probability_0_is_allowed, wrong_arguments_are_refused, compiled_is_the_same]))
