"""Policy gradients of Keel match TRL 1.16.0, except for the differences that tests/goldens/README.md names.
padded_batches.py defines the tolerance.

The losses of TRL are a method of GRPOTrainer. It is called here on an object without a model: the log-probs are leaf
tensors. Needs the peer trl (packages.py).
"""

import math
import sys
import types
from collections import defaultdict
from typing import Any, Mapping, NamedTuple

from packages import ROOT, use

use("trl")

import torch  # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402

import keel  # noqa: E402, F401

sys.path.insert(0, str(ROOT / "tests" / "python"))
from padded_batches import WIDTH, Batch, disagreement, keel_gradient, random_batch, random_batches  # noqa: E402
from support import close, run  # noqa: E402


def trainer(logp, settings):
    """Returns the attributes that GRPOTrainer._compute_loss reads, for one process without gradient accumulation."""
    settings = {"loss_type": "grpo", "epsilon_low": 0.2, "epsilon_high": 0.2, "delta": None,
                "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0,
                "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0, "importance_sampling_level": "token",
                "off_policy_mask_threshold": None, "max_completion_length": WIDTH, "steps_per_generation": 1, **settings}
    accelerator = types.SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    return types.SimpleNamespace(
        **settings, args=types.SimpleNamespace(**settings), accelerator=accelerator, beta=0.0, use_vllm=False,
        top_entropy_quantile=1.0, aux_loss_enabled=False, _entropy_bonus_enabled=False,
        model=types.SimpleNamespace(training=True), current_gradient_accumulation_steps=1,
        _metrics=defaultdict(lambda: defaultdict(list)), get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp, torch.zeros_like(logp), None))


def trl_gradient(settings, batch, anchor):
    logp = batch.logp.clone().requires_grad_()
    ids = torch.zeros_like(batch.mask)
    inputs = dict(prompt_ids=ids[:, :1], prompt_mask=ids[:, :1], completion_ids=ids, completion_mask=batch.mask,
                  advantages=batch.advantages, old_per_token_logps=batch.anchor(anchor),
                  sampling_per_token_logps=batch.behavior_logp, num_items_in_batch=batch.mask.sum())
    if settings.get("importance_sampling_level") == "sequence":
        inputs["advantages"] = batch.advantages[:, 0]
    loss = GRPOTrainer._compute_loss(trainer(logp, settings), None, inputs)
    (gradient,) = torch.autograd.grad(loss, logp)
    return loss.detach(), gradient


class Case(NamedTuple):
    settings: Mapping[str, Any]  # TRL's
    region: str
    params: Mapping[str, Any]  # Keel's
    aggregation: str
    scope: str = "token"

    @property
    def anchor(self):
        return self.params.get("anchor", "behavior")

    @property
    def batches(self):
        return [batch for batch in random_batches(self.scope, 0) if self.region != "vespo" or below_the_clamps(batch)]

    def off(self, batch, **changes):
        _, theirs = trl_gradient(self.settings, batch, self.anchor)
        _, ours = keel_gradient(self.region, {**self.params, **changes}, batch, self.aggregation, WIDTH)
        assert ours.abs().max() > 0
        return disagreement(batch, theirs, ours, self.aggregation, WIDTH, self.anchor)


def below_the_clamps(batch):
    """TRL's VESPO clamps log W from below at log 1e-8."""
    return ((batch.logp - batch.behavior_logp) * batch.mask).sum(1).abs().max() < 18


def clip(loss_type, low, high, **more):
    return {"loss_type": loss_type, "epsilon_low": low, "epsilon_high": high, **more}


ANCHORS = ({"anchor": "behavior"}, {"anchor": "recomputed"})
CASES = [
    *(Case(clip(loss, 0.2, 0.28, delta=dual), "ppo_clip", {"low": 0.2, "high": 0.28, "dual": dual, **anchor},
           aggregation)
      for loss, aggregation in (("grpo", "seq_mean_token_mean"), ("bnpo", "token_mean"), ("dapo", "token_mean"),
                                ("dr_grpo", "seq_mean_token_sum_norm"))
      for dual in (None, 4.0) for anchor in ANCHORS),
    *(Case(clip(loss, low, high, importance_sampling_level="sequence"), "gspo", {"low": low, "high": high, **anchor},
           aggregation, "sequence")
      for loss, aggregation, low, high in (("grpo", "seq_mean_token_mean", 3e-4, 4e-4),
                                           ("grpo", "seq_mean_token_mean", 0.2, 0.28),
                                           ("luspo", "seq_mean_token_sum", 0.01, 0.015))
      for anchor in ANCHORS),
    # TRL: the cap itself.
    *(Case(clip("cispo", 0.2, cap), "cispo", {"low": None, "high": cap - 1, **anchor}, "token_mean")
      for cap in (1.28, 5.0) for anchor in ANCHORS),
    # Temperatures that float32 holds exactly: TRL makes a float32 tensor of them.
    *(Case({"loss_type": "sapo", "sapo_temperature_pos": positive, "sapo_temperature_neg": negative}, "sapo",
           {"tau_positive": positive, "tau_negative": negative, **anchor}, "seq_mean_token_mean")
      for positive, negative in ((1.0, 1.0625), (0.25, 2.0)) for anchor in ANCHORS),
    Case({"loss_type": "vespo"}, "vespo",
         {"k_positive": 2.0, "lambda_positive": 3.0, "k_negative": 3.0, "lambda_negative": 2.0}, "token_mean",
         "sequence"),
    *(Case(clip("grpo", 0.2, 0.28, off_policy_mask_threshold=0.01), "ds_v32",
           {"low": 0.2, "high": 0.28, "delta": 0.01, **anchor}, "seq_mean_token_mean", "sequence")
      for anchor in ANCHORS),
]


def gradients_agree():
    compared, highest = 0, 0.0
    for case in CASES:
        for number, batch in enumerate(case.batches):
            off = case.off(batch)
            assert off <= 1, f"{case}: batch {number}: {off:.3g} times what is allowed"
            highest, compared = max(highest, off), compared + int(batch.mask.sum())
    return f"{len(CASES)} cases, {compared} tokens, at most {highest:.2g} of the tolerance"


def a_wrong_parameter_is_noticed():
    """The comparison fails with 10 % more of any parameter, or another anchor."""
    tried = 0
    for case in CASES:
        wrong = [{name: value * 1.1} for name, value in case.params.items() if isinstance(value, float)]
        if "anchor" in case.params:
            wrong.append({"anchor": "recomputed" if case.anchor == "behavior" else "behavior"})
        for change in wrong:
            assert any(case.off(batch, **change) > 1 for batch in case.batches), f"{case}: {change} passes too"
            tried += 1
    return f"{tried} wrong settings"


def g(settings, region, params, mu, pi, advantage, aggregation="token_mean"):
    """Returns the weights (TRL, Keel) of grad log pi for a batch of one sequence, times the aggregation weight."""
    mu, pi = (torch.tensor([row], dtype=torch.float64) for row in (mu, pi))
    batch = Batch(pi, mu, mu, torch.full_like(mu, advantage), torch.ones_like(mu, dtype=torch.long), [mu.shape[1]])
    theirs = trl_gradient({"max_completion_length": mu.shape[1], **settings}, batch, "behavior")[1]
    ours = keel_gradient(region, params, batch, aggregation, mu.shape[1])[1]
    return -theirs[0], -ours


def near(got, want, tolerance=1e-12):
    got = got.flatten()
    assert ((got - want).abs() <= tolerance * abs(want)).all(), f"got {got.tolist()}, want {want!r}"


def token_ratios_are_not_clamped_in_trl():
    for mu, pi, advantage, ratio in ((-30.0, -5.0, -1.0, 25), (-1.0, -26.0, 1.0, -25)):
        theirs, ours = g(clip("bnpo", 0.2, 0.2), "ppo", {}, [mu], [pi], advantage)
        near(theirs, advantage * math.exp(ratio))
        near(ours, advantage * math.exp(math.copysign(20, ratio)))


def cispos_bound_is_the_cap_itself_in_trl():
    mu, pi = [-3.0], [-3.0 + math.log(4)]  # r = 4
    theirs, ours = g(clip("cispo", 0.2, 2.0), "cispo", {"low": None, "high": 2.0}, mu, pi, 1.0)
    near(theirs, 2)
    near(ours, 3)


def vespo_clamps_tokens_and_a_small_w_in_trl():
    def phi(log_w):
        return math.exp(2 * log_w + 3 * (1 - math.exp(log_w)))

    vespo = {"loss_type": "vespo"}
    theirs, ours = g(vespo, "vespo", {}, [-1.0, -1.0], [-13.5, -13.5], 1.0)  # log W = -25
    near(theirs, phi(math.log(1e-8)) / 2)
    near(ours, phi(-20) / 2)
    theirs, ours = g(vespo, "vespo", {}, [-1.0, -23.0], [-26.0, -1.0], 1.0)  # tokens of -25 and +22
    near(theirs, phi(-20 + 20) / 2)
    near(ours, phi(-25 + 22) / 2)


AGGREGATIONS = (("grpo", "seq_mean_token_mean"), ("dr_grpo", "seq_mean_token_sum_norm"), ("bnpo", "token_mean"))


def empty_sequences_count_in_trl():
    batch = random_batch(3, 0.1, empty=8)  # of 40
    for loss, aggregation in AGGREGATIONS:
        theirs = trl_gradient(clip(loss, 0.2, 0.2), batch, "behavior")[1]
        ours = keel_gradient("ppo_clip", {"low": 0.2, "high": 0.2}, batch, aggregation, WIDTH)[1]
        factor = 1 if loss == "bnpo" else 40 / 32
        close(factor * batch.flat(theirs), ours, 1e-12 * ours.abs(), loss)


def nothing_valid_is_0_in_both():
    batch = random_batch(3, 0.1)
    batch = batch._replace(mask=torch.zeros_like(batch.mask))
    for loss, aggregation in AGGREGATIONS:
        for value, gradient in (trl_gradient(clip(loss, 0.2, 0.2), batch, "behavior"),
                                keel_gradient("ppo_clip", {}, batch, aggregation, WIDTH)):
            assert value == 0 and (gradient == 0).all()


if __name__ == "__main__":
    sys.exit(run([gradients_agree, a_wrong_parameter_is_noticed, token_ratios_are_not_clamped_in_trl,
                  cispos_bound_is_the_cap_itself_in_trl, vespo_clamps_tokens_and_a_small_w_in_trl,
                  empty_sequences_count_in_trl, nothing_valid_is_0_in_both]))
