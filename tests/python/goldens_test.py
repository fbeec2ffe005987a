"""Runs every case of tests/goldens through the Python module in float64 and float32, with the tolerances of their README."""

import sys

import torch

import keel
from support import AGGREGATIONS, close, floats, golden, policy_arguments, run

TYPES = (torch.float64, torch.float32)


def weights_agree():
    batches = {batch["name"]: batch for batch in golden("batches.json")["batches"]}
    cases = 0
    for row in golden("weights.json")["methods"]:
        for case in row["cases"]:
            batch, expected = batches[case["batch"]], case["expected"]
            for dtype in TYPES:
                check_weights(row["method"], case["params"], batch, expected, dtype)
                cases += 1
    return f"{cases} cases"


def check_weights(method, params, batch, expected, dtype):
    place = f"{method} {batch['name']} {params} {dtype}"
    arguments = policy_arguments(batch, dtype)
    decision = keel.token_coefficients(method, params, **arguments)
    want = floats(expected["g"], torch.float64)
    mask = arguments["mask"] != 0
    if dtype == torch.float64:
        tolerance = 1e-9 * want.abs() + 1e-300
    else:
        ratio = (arguments["logp"].double() - arguments["behavior_logp"].double()).clamp(-20, 20).exp()
        scale = arguments["advantages"].double().abs() * ratio.clamp(min=1)
        tolerance = torch.where(mask, 1e-5 * (want.abs() + scale), torch.zeros_like(want))
    close(decision.coefficient, want, tolerance, f"{place} g")
    for name in ("keep", "outside"):
        if name in expected:
            flags = torch.tensor(expected[name])
            got = getattr(decision, name).long()
            assert ((flags == -1) | (flags == got)).all(), f"{place}: {name} {got.tolist()} want {flags.tolist()}"
    if dtype != torch.float64:
        return
    if "threshold" in expected:
        threshold = floats(expected["threshold"], dtype)
        close(decision.threshold[mask], threshold[mask], 1e-9 * threshold[mask].abs() + 1e-12, f"{place} threshold")
    logp = arguments["logp"].clone().requires_grad_()
    for aggregation in AGGREGATIONS:
        loss = keel.policy_loss(method, params, **{**arguments, "logp": logp}, aggregation=aggregation,
                                horizon=batch["horizon"])
        score = expected["score_loss"][aggregation]
        close(loss.detach(), score, 1e-9 * abs(score) + 1e-11, f"{place} score_loss {aggregation}")
        (gradient,) = torch.autograd.grad(loss, logp)
        weights = keel.aggregate(aggregation, values=logp, mask=arguments["mask"], lengths=batch["lengths"],
                                 horizon=batch["horizon"]).weights
        close(gradient, -weights * want, 1e-9 * (weights * want).abs() + 1e-300, f"{place} gradient {aggregation}")


def divergences_agree():
    batches = {batch["name"]: batch for batch in golden("batches.json")["batches"]}
    file, cases = golden("divergences.json"), 0
    for case in file["tokens"]:
        batch = batches[case["batch"]]
        for dtype in TYPES:
            arguments = policy_arguments(batch, dtype)
            valid = arguments["mask"] != 0
            inputs = {name: arguments[name][valid] for name in
                      ("logp", "behavior_logp", "topk_behavior_logp", "topk_logp", "sampled_in_topk") if name in arguments}
            for kind, values in case["expected"].items():
                want = floats(values, torch.float64)[valid]
                tolerance = 1e-9 * want.abs() + 1e-15 if dtype == torch.float64 else 1e-6 + 1e-4 * want.abs()
                close(keel.divergence(kind, **inputs), want, tolerance, f"{kind} {batch['name']} {dtype}")
                cases += 1
    for case in file["vocabularies"]:
        cases += check_vocabulary(case)
    return f"{cases} cases"


def check_vocabulary(case):
    expected, ids, sampled = case["expected"], case["expected"]["topk_ids"], case["sampled"]
    for dtype in TYPES:
        mu = torch.tensor([case["behavior_logits"]], dtype=torch.float64).log_softmax(1).to(dtype)
        pi = torch.tensor([case["logits"]], dtype=torch.float64).log_softmax(1).to(dtype)
        topk = dict(topk_behavior_logp=mu[:, ids], topk_logp=pi[:, ids], sampled_in_topk=torch.tensor([sampled in ids]))
        for kind in ("binary_tv", "binary_kl", "topk_tv", "topk_kl", "full_tv", "full_kl"):
            rows = dict(logp=pi, behavior_logp=mu) if kind.startswith("full") else \
                dict(logp=pi[:, sampled], behavior_logp=mu[:, sampled], **topk)
            want = floats([expected[kind]], torch.float64)
            tolerance = 1e-9 * want.abs() + 1e-13 if dtype == torch.float64 else 1e-6 + 1e-4 * want.abs()
            close(keel.divergence(kind, **rows), want, tolerance, f"{kind} of a vocabulary {dtype}")
    return 12


def advantages_agree():
    cases = 0
    for case in golden("advantages.json")["cases"]:
        for dtype in TYPES:
            scale = 1e-9 if dtype == torch.float64 else 1e-5
            inputs = dict(rewards=floats(case["rewards"], dtype), groups=case["groups"], lengths=case["lengths"],
                          mask=torch.tensor(case["mask"]))
            for name in ("values", "token_rewards"):
                if name in case:
                    inputs[name] = floats(case[name], dtype)
            for kind, expected in case["expected"].items():
                for one in expected if isinstance(expected[0], dict) else [{"value": expected}]:
                    params = {name: one[name] for name in ("eps", "gamma", "lambda") if name in one}
                    got = keel.advantages(kind, **inputs, **params)
                    pairs = [(got.advantages, one["advantages"]), (got.returns, one["returns"])] if kind == "gae" else \
                        [(got, one["value"])]
                    for value, want in pairs:
                        want = floats(want, torch.float64)
                        close(value, want, scale * (want.abs() + 1), f"{kind} {case['about']} {dtype}")
                    cases += 1
    return f"{cases} cases"


def aggregations_agree():
    cases = 0
    for case in golden("aggregations.json")["cases"]:
        for dtype in TYPES:
            scale = 1e-9 if dtype == torch.float64 else 1e-5
            values = floats(case["values"], dtype)
            for kind, expected in case["expected"].items():
                got = keel.aggregate(kind, values=values, mask=torch.tensor(case["mask"]), lengths=case["lengths"],
                                     horizon=case["horizon"])
                want = floats(expected["weights"], torch.float64)
                close(got.weights, want, scale * want.abs(), f"{kind} {case['about']} {dtype}")
                close(got.loss, expected["loss"], scale * (abs(expected["loss"]) + 1), f"{kind} {case['about']} {dtype}")
                cases += 1
    return f"{cases} cases"


def certificates_agree():
    estimates = golden("improvement.json")["estimates"]
    for case in estimates:
        got = keel.certificate(logp=floats(case["logp"], torch.float64), rewards=floats(case["rewards"], torch.float64),
                               behavior_logp=floats(case["behavior_logp"], torch.float64), lengths=case["lengths"],
                               tv=floats(case["tv"], torch.float64), xi=case["xi"], horizon=case["horizon"])
        for name, want in case["expected"].items():
            close(torch.tensor(getattr(got, name), dtype=torch.float64), want, 1e-9 * abs(want) + 1e-12, name)
    return f"{len(estimates)} cases"


if __name__ == "__main__":
    sys.exit(run([weights_agree, divergences_agree, advantages_agree, aggregations_agree, certificates_agree]))
