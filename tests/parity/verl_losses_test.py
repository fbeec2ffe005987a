"""Policy gradients of Keel match verl 0.9.1 where the numerical guards of verl have no effect, and differ as
tests/goldens/README.md describes.

Both sides get the same random padded batches in float64; padded_batches.py defines the tolerance. The masks
of verl are integers, as in its trainer: the 1e-8 that it adds to lengths is then lost in rounding.
"""

import math
import sys
from typing import Any, Mapping, NamedTuple, Optional

from verl_package import ROOT, algos, correction, trainer_config, worker_config  # first: it can skip the test

import numpy
import torch

import keel

sys.path.insert(0, str(ROOT / "tests" / "python"))
import padded_batches  # noqa: E402
from padded_batches import WIDTH, Batch, flat, random_batch  # noqa: E402
from support import AGGREGATIONS, close, run  # noqa: E402

OFF = 1e30  # verl cannot switch it off
BEHAVIOR, RECOMPUTED = {"anchor": "behavior"}, {"anchor": "recomputed"}


class Case(NamedTuple):
    """A registered loss of verl and the method of Keel with the same gradient."""

    loss: str
    settings: Mapping[str, Any]  # of the verl actor
    region: str
    params: Mapping[str, Any]  # Keel's
    scope: str = "token"  # or "sequence": one advantage for all its tokens
    empty: int = 1  # sequences without a valid token
    aggregations: tuple = AGGREGATIONS
    correction: Optional[tuple] = None  # verl's rollout correction: level and threshold, or OFF for the plain old/mu

    @property
    def anchor(self):
        """The log-probs that verl gets as old policy."""
        return "recomputed" if self.correction else self.params.get("anchor", "behavior")

    def __str__(self):
        return f"{self.loss} {dict(self.settings)} / {self.region} {dict(self.params)}"


def actor(settings):
    """Returns the actor configuration of verl: its defaults and `settings`."""
    settings = dict(settings)
    loss = worker_config.PolicyLossConfig(dro_beta=settings.pop("dro_beta", None))
    horizon = settings.pop("horizon", None)
    return worker_config.ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, policy_loss=loss,
        global_batch_info={} if horizon is None else {"loss_scale_factor": horizon}, **settings)


def clip(low, high, c=OFF):
    return {"clip_ratio_low": low, "clip_ratio_high": high, "clip_ratio_c": c}


def verl_correction(case, batch):
    if not case.correction:
        return None
    level, threshold = case.correction
    if threshold == OFF:
        return (batch.old_logp - batch.behavior_logp).exp()
    log_ratio = batch.old_logp - batch.behavior_logp
    return correction.compute_rollout_correction_weights(log_ratio, batch.mask, level, threshold)[0]


def verl_gradient(case, batch, aggregation, horizon=None):
    logp = batch.logp.clone().requires_grad_()
    loss, _ = algos.get_policy_loss_fn(case.loss)(
        old_log_prob=batch.anchor(case.anchor), log_prob=logp, advantages=batch.advantages, response_mask=batch.mask,
        loss_agg_mode=aggregation.replace("_", "-"), config=actor({**case.settings, "horizon": horizon}),
        rollout_is_weights=verl_correction(case, batch))
    (gradient,) = torch.autograd.grad(loss, logp)
    return loss.detach(), gradient


def keel_gradient(case, batch, aggregation, horizon=None, params=None):
    return padded_batches.keel_gradient(case.region, params or case.params, batch, aggregation, horizon)


def worst(case, batch, theirs, ours, aggregation, horizon):
    where = ~depends_on_the_guard(case, batch)
    return padded_batches.disagreement(batch, theirs, ours, aggregation, horizon, case.anchor, where)


def depends_on_the_guard(case, batch):
    """Returns tokens whose binary KL is so close to the threshold that the 1e-8 of verl can change the mask."""
    mu, pi = batch.anchor(case.anchor), batch.logp
    if case.loss != "dppo_kl":
        return batch.flat(torch.zeros_like(mu, dtype=torch.bool))
    rest_mu, rest_pi = -torch.expm1(mu), -torch.expm1(pi)
    kl = mu.exp() * (mu - pi) + rest_mu * (rest_mu.log() - rest_pi.log())
    change = rest_mu * 1e-8 * (1 / rest_pi - 1 / rest_mu).abs() + 1e-9
    threshold = torch.where(batch.advantages > 0, case.settings["clip_ratio_high"], case.settings["clip_ratio_low"])
    return batch.flat((kl - threshold).abs() <= change)


def batches(case):
    return padded_batches.random_batches(case.scope, case.empty)


MEAN = ("seq_mean_token_mean",)  # SAPO and GMPO have no other in verl, whatever loss_agg_mode says
ANCHORS = (BEHAVIOR, RECOMPUTED)
CASES = [
    *(Case("vanilla", clip(low, high, dual or OFF), "ppo_clip", {"low": low, "high": high, "dual": dual, **anchor})
      for low, high, dual in ((0.2, 0.2, None), (0.2, 0.28, None), (0.2, 0.28, 3.0), (0.1, 0.4, 1.5))
      for anchor in ANCHORS),
    *(Case("dppo_tv", clip(low, high, cap or OFF), "dppo_binary_tv", {"low": low, "high": high, "ratio_cap": cap})
      for low, high, cap in ((0.15, 0.15, None), (0.05, 0.2, 3.0), (0.2, 0.02, 20.0))),
    *(Case("dppo_kl", clip(low, high, cap or OFF), "dppo_binary_kl", {"low": low, "high": high, "ratio_cap": cap})
      for low, high, cap in ((0.05, 0.05, None), (0.01, 0.15, 3.0), (0.1, 0.002, 20.0))),
    *(Case("gspo", clip(low, high), "gspo", {"low": low, "high": high, **anchor}, scope="sequence")
      for low, high in ((3e-4, 4e-4), (0.2, 0.28), (0.01, 0.03)) for anchor in ANCHORS),
    *(Case("sapo", {"tau_pos": positive, "tau_neg": negative}, "sapo",
           {"tau_positive": positive, "tau_negative": negative, **anchor}, aggregations=MEAN)
      for positive, negative in ((1.0, 1.05), (0.3, 2.0)) for anchor in ANCHORS),
    *(Case("geo_mean", clip(low, high), "gmpo", {"low": low, "high": high, **anchor}, scope="sequence", empty=0,
           aggregations=MEAN)
      for low, high in ((0.4, 0.4), (0.05, 0.2)) for anchor in ANCHORS),
    *(Case("cispo", clip(low, high), "cispo", {"low": low, "high": high, **anchor})
      for low, high in ((0.2, 0.28), (0.5, 4.0)) for anchor in ANCHORS),
    Case("cispo", clip(1.0, 4.0), "cispo", {"low": None, "high": 4.0}),
    *(Case("dro", {"dro_beta": beta}, "dro", {"beta": beta}) for beta in (0.1, 2.0)),
    # Trust region on pi/old, weight pi/mu.
    Case("vanilla", clip(0.2, 0.28), "minirl", {"low": 0.2, "high": 0.28}, correction=("token", OFF)),
    Case("dppo_tv", clip(0.15, 0.05), "dppo_binary_tv", {"low": 0.15, "high": 0.05, "ratio_cap": None, **RECOMPUTED},
         correction=("token", OFF)),
    Case("dppo_kl", clip(0.05, 0.01), "dppo_binary_kl", {"low": 0.05, "high": 0.01, "ratio_cap": None, **RECOMPUTED},
         correction=("token", OFF)),
    # Truncated and masked rollout corrections of verl.
    *(Case("vanilla", clip(0.2, 0.28, dual or OFF), "tis",
           {"low": 0.2, "high": 0.28, "ratio_cap": cap, "level": level, "dual": dual}, correction=(level, cap))
      for level, cap, dual in (("token", 1.2, None), ("sequence", 1.5, 3.0))),
    *(Case("vanilla", clip(0.2, 0.28), row,
           {"low": 0.2, "high": 0.28, "gap_low": low, "gap_high": high, "level": level},
           correction=(level, f"{low}_{high}"))
      for row, level, low, high in (("icepop", "token", 0.8, 1.3), ("mis", "sequence", 0.5, 2.0))),
]


def gradients_agree():
    compared, left_out, highest = 0, 0, 0.0
    for case in CASES:
        for number, batch in enumerate(batches(case)):
            left_out += int((depends_on_the_guard(case, batch) & (batch.flat(batch.mask) > 0)).sum())
            for aggregation in case.aggregations if number < 4 else case.aggregations[:1]:
                # The default horizon of verl is the padded length.
                for horizon in (WIDTH, 37) if aggregation.endswith("norm") else (None,):
                    their_loss, theirs = verl_gradient(case, batch, aggregation, None if horizon == WIDTH else horizon)
                    our_loss, ours = keel_gradient(case, batch, aggregation, horizon)
                    off = worst(case, batch, theirs, ours, aggregation, horizon)
                    assert off <= 1, f"{case}: batch {number}, {aggregation}: {off:.3g} times what is allowed"
                    assert (theirs * (1 - batch.mask) == 0).all() and ours.abs().max() > 0
                    if case.loss in ("dppo_tv", "dppo_kl", "cispo") and not case.correction:  # the same scalar too
                        if not depends_on_the_guard(case, batch).any():
                            close(our_loss, their_loss, 1e-13 * (1 + their_loss.abs()), f"{case} loss")
                    highest = max(highest, off)
                    compared += int(batch.mask.sum())
    assert left_out <= 20, f"{left_out} tokens hang on verl's 1e-8"
    return f"{len(CASES)} cases, {compared} tokens, at most {highest:.2g} of the tolerance, {left_out} left out"


def a_wrong_parameter_is_noticed():
    """The comparison fails with 10 % more of any parameter, or another anchor, level or aggregation."""
    tried = 0
    for case in CASES:
        theirs = [verl_gradient(case, batch, case.aggregations[0])[1] for batch in batches(case)]
        wrong = [{**case.params, name: value * 1.1} for name, value in case.params.items() if isinstance(value, float)]
        if "anchor" in case.params:
            other = "recomputed" if case.params["anchor"] == "behavior" else "behavior"
            wrong.append({**case.params, "anchor": other})
        if "level" in case.params:
            wrong.append({**case.params, "level": "sequence" if case.params["level"] == "token" else "token"})
        for params in wrong:
            noticed = any(disagrees(case, *pair, params, case.aggregations[0]) for pair in zip(batches(case), theirs))
            assert noticed, f"{case}: {params} passes too"
            tried += 1
        for aggregation in AGGREGATIONS:
            if aggregation != case.aggregations[0]:
                noticed = disagrees(case, batches(case)[0], theirs[0], case.params, aggregation)
                assert noticed, f"{case}: {aggregation} passes too"
                tried += 1
    return f"{tried} wrong settings"


def disagrees(case, batch, theirs, params, aggregation):
    _, ours = keel_gradient(case, batch, aggregation, WIDTH, params)
    return worst(case, batch, theirs, ours, aggregation, WIDTH) > 1


def g(loss, settings, region, params, mu, pi, advantage, aggregation="token_mean"):
    """Returns the weights (verl, Keel) of grad log pi for a batch of one token."""
    def one(value):
        return torch.tensor([[value]], dtype=torch.float64)

    batch = Batch(one(pi), one(mu), one(mu), one(advantage), one(1.0), [1])
    case = Case(loss, settings, region, params)
    return tuple(-gradient.item() for gradient in
                 (verl_gradient(case, batch, aggregation)[1], keel_gradient(case, batch, aggregation)[1]))


def near(got, want, tolerance=1e-12):
    assert abs(got - want) <= tolerance * max(abs(want), 1e-300), f"got {got!r}, want {want!r}"


UP, DOWN = (-30.0, -5.0), (-1.0, -26.0)  # log mu and log pi: a log-ratio of +25 and of -25


def beyond_20_a_differentiated_ratio_vanishes_in_verl():
    low, high = math.exp(-20), math.exp(20)
    for loss, settings, region, params, (mu, pi), advantage, want in (
            ("vanilla", clip(0.2, 0.2), "ppo_clip", {"low": 0.2, "high": 0.2}, DOWN, 1.0, low),
            ("vanilla", clip(0.2, 0.2), "ppo_clip", {"low": 0.2, "high": 0.2}, UP, -1.0, -high),
            ("sapo", {}, "sapo", {}, DOWN, 1.0, 4 * low / (2 + math.exp(1) + math.exp(-1)))):
        theirs, ours = g(loss, settings, region, params, mu, pi, advantage)
        assert theirs == 0, f"{loss}: {theirs}"
        near(ours, want, 1e-8)
    # Losses that hold the ratio constant clamp it like Keel, and DRO does not clamp at all.
    for loss, settings, region, params, (mu, pi), advantage, want in (
            ("dppo_tv", clip(0.15, 0.15), "dppo_tv", {"ratio_cap": None}, UP, -1.0, -high),
            ("dppo_kl", clip(0.05, 0.05), "dppo_kl", {"ratio_cap": None}, UP, -1.0, -high),
            ("dppo_tv", clip(0.15, 0.15), "dppo_tv", {}, DOWN, 1.0, low),
            ("cispo", clip(1.0, 1e12), "cispo", {"low": None, "high": 1e12}, UP, 1.0, high),
            ("dro", {"dro_beta": 0.1}, "dro", {"beta": 0.1}, UP, 1.0, 1 - 2.5),
            ("dro", {"dro_beta": 0.1}, "dro", {"beta": 0.1}, DOWN, 1.0, 1 + 2.5)):
        theirs, ours = g(loss, settings, region, params, mu, pi, advantage)
        near(theirs, want)
        near(ours, want)


def the_sequence_ratios_are_clamped_elsewhere():
    params = {"low": 0.2, "high": 0.2}
    theirs, ours = g("gspo", clip(0.2, 0.2), "gspo", params, -15.0, -5.5, -1.0)  # 9.5: not clamped
    near(theirs, -math.exp(9.5))
    near(ours, -math.exp(9.5))
    theirs, ours = g("gspo", clip(0.2, 0.2), "gspo", params, -15.0, -3.0, -1.0)  # 12: verl clamps at 10
    assert theirs == 0
    near(ours, -math.exp(12))
    for loss, region in (("gspo", "gspo"), ("geo_mean", "gmpo")):  # -25: no clamp from below in verl
        theirs, ours = g(loss, clip(0.2, 0.2), region, params, *DOWN, 1.0)
        near(theirs, math.exp(-25), 1e-6)
        near(ours, math.exp(-20))


def clip_ratio_c_is_3_unless_set():
    mu, pi = -3.0, -3.0 + math.log(5)  # r = 5
    unset = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2}
    assert actor(unset).clip_ratio_c == 3.0
    theirs, ours = g("vanilla", unset, "ppo", {}, mu, pi, -1.0)
    assert theirs == 0
    near(ours, -5)
    assert g("vanilla", unset, "ppo", {"dual": 3.0}, mu, pi, -1.0) == (0, 0)
    for loss in ("dppo_tv", "dppo_kl"):  # the default in their code is 20
        unset = {"clip_ratio_low": 0.15, "clip_ratio_high": 0.15}
        theirs, ours = g(loss, unset, loss, {"low": 0.15, "high": 0.15}, mu, pi, -1.0)
        near(theirs, -3)
        near(ours, -5)
        theirs, ours = g(loss, unset, loss, {"low": 0.15, "high": 0.15, "ratio_cap": 3.0}, mu, pi, -1.0)
        near(ours, theirs)


def the_binary_kl_near_1_flips_decisions_in_verl():
    mu, pi = -0.00221, -1e-9
    exact = keel.divergence("binary_kl", logp=torch.tensor([pi], dtype=torch.float64),
                            behavior_logp=torch.tensor([mu], dtype=torch.float64)).item()
    assert round(exact, 4) == 0.03, exact

    def kept(delta, pi=pi, mu=mu):
        both = g("dppo_kl", clip(delta, delta), "dppo_kl", {"low": delta, "high": delta}, mu, pi, 1.0)
        return tuple(value != 0 for value in both)

    assert kept(0.0246) == (False, False)
    assert kept(0.0248) == kept(0.0299) == (True, False)  # verl's KL is 0.0247
    assert kept(0.0301) == (True, True)
    # pi = 1 > mu is infinitely far; verl's form gives mu log mu + (1 - mu) log((1 - mu) / 1e-8) = 0.0105 at mu = 0.999.
    assert kept(0.05, pi=0.0, mu=math.log(0.999)) == kept(0.0106, pi=0.0, mu=math.log(0.999)) == (True, False)
    assert kept(0.0104, pi=0.0, mu=math.log(0.999)) == (False, False)
    # float32 rounds 1 - p before the 1e-8 comes: 0 at pi = exp(-2e-8), which makes a KL of 0.0234 0.0250.
    tokens = [torch.tensor([[value]], dtype=torch.float32) for value in (-2e-8, mu, mu, 1.0, 1.0)]
    batch, case = Batch(*tokens, [1]), Case("dppo_kl", clip(0.0242, 0.0242), "dppo_kl", {"low": 0.0242, "high": 0.0242})
    assert verl_gradient(case, batch, "token_mean")[1].item() == 0
    near(keel_gradient(case, batch, "token_mean")[1].item(), -math.exp(0.00221), 1e-6)


def lengths_get_1e_8_in_verl_where_masks_are_floating():
    for loss, settings, region, power in (("vanilla", clip(0.2, 0.2), "ppo", 1), ("sapo", {}, "sapo", 1),
                                          ("geo_mean", clip(0.4, 0.4), "gmpo", 2)):
        theirs, ours = g(loss, settings, region, {}, -1.0, -1.0, 1.0, "seq_mean_token_mean")
        near(theirs, ours / (1 + 1e-8) ** power)
        assert theirs != ours
    theirs, ours = g("vanilla", clip(0.2, 0.2), "ppo", {}, -1.0, -1.0, 1.0)
    assert theirs == ours == 1  # not in the others


def nothing_valid_is_nan_in_verl():
    batch = random_batch(1, 0.1)
    batch = batch._replace(mask=torch.zeros_like(batch.mask))
    values = batch.flat(batch.logp)
    for aggregation in AGGREGATIONS:
        case = Case("vanilla", clip(0.2, 0.2), "ppo_clip", {})
        loss, _ = verl_gradient(case, batch, aggregation)
        assert torch.isnan(loss), (aggregation, loss)
        loss, gradient = keel_gradient(case, batch, aggregation, WIDTH)
        assert loss == 0 and (gradient == 0).all()
        got = keel.aggregate(aggregation, values=values, mask=batch.flat(batch.mask), lengths=batch.lengths,
                             horizon=WIDTH)
        assert got.loss == 0 and (got.weights == 0).all()


def gmpo_counts_empty_sequences_in_verl():
    case = next(case for case in CASES if case.loss == "geo_mean")
    batch = random_batch(3, 0.1, "sequence", empty=8)  # of 40
    _, theirs = verl_gradient(case, batch, "seq_mean_token_mean")
    _, ours = keel_gradient(case, batch, "seq_mean_token_mean")
    assert ours.abs().max() > 0.001
    close(40 / 32 * batch.flat(theirs), ours, 1e-13 * ours.abs(), "gmpo")


def aggregations_agree():
    for seed in range(5):
        batch = random_batch(seed, 0.3)
        values = torch.randn(batch.mask.shape, dtype=torch.float64).requires_grad_()
        for aggregation in AGGREGATIONS:
            for horizon in (None, 37):
                theirs = algos.agg_loss(values, batch.mask, aggregation.replace("_", "-"), loss_scale_factor=horizon)
                (weights,) = torch.autograd.grad(theirs, values)
                ours = keel.aggregate(aggregation, values=batch.flat(values.detach()), mask=batch.flat(batch.mask),
                                      lengths=batch.lengths, horizon=horizon or WIDTH)
                close(ours.weights, batch.flat(weights), 1e-14 * ours.weights, aggregation)
                close(ours.loss, theirs.detach(), 1e-13 * (1 + theirs.detach().abs()), aggregation)


def divergence_estimates_agree_below_the_cap():
    """verl's second policy is the reference: its log(ref/pi) is our log(pi/mu)."""
    torch.manual_seed(5)
    first, second = (-4 * torch.rand(2000, dtype=torch.float64)).split(1000)
    for kind in ("k1", "k2", "k3"):
        theirs = algos.kl_penalty(first, second, kind)
        ours = keel.divergence(kind, logp=second, behavior_logp=first)
        below = ours < 10 if kind == "k3" else torch.ones(1000, dtype=torch.bool)
        assert below.sum() > 900
        close(ours[below], theirs[below], 1e-12 * (1 + theirs[below].abs()), kind)
        if kind == "k3":
            assert (~below).sum() > 20 and (theirs[~below] == 10).all() and (ours[~below] > 10).all()


class Rewards(NamedTuple):
    scores: torch.Tensor  # [S]
    groups: list
    mask: torch.Tensor  # [S, T]
    lengths: list

    def placed(self):
        """Puts the rewards on the last valid token of each row, like the reward managers of verl."""
        rows = torch.zeros_like(self.mask)
        last = (self.mask * torch.arange(1, self.mask.shape[1] + 1)).argmax(1)
        return rows.scatter(1, last[:, None], self.scores[:, None])

    def flat(self, tensor):
        return flat(tensor, self.lengths)

    def valid(self, tensor):
        """Returns the valid values of a padded tensor; values of sequences are repeated."""
        tensor = tensor if tensor.dim() == 2 else tensor[:, None].expand(self.mask.shape)
        return tensor[self.mask > 0]

    def arguments(self):
        return dict(rewards=self.scores, groups=self.groups, lengths=self.lengths, mask=self.flat(self.mask))


def random_rewards(seed):
    batch = random_batch(seed, 0.3, empty=0, sequences=10)
    scores = torch.randn(10, dtype=torch.float64)
    scores[1] = scores[2] = 0.0
    return Rewards(scores, [7, 3, 3, 7, 3, 0, 0, 7, 7, 3], batch.mask.double(), batch.lengths)


def verl_advantages(kind, rewards, **settings):
    if kind not in ("gae", "reinforce_plus_plus"):
        settings["index"] = numpy.array(rewards.groups)
    estimate = algos.get_adv_estimator_fn(kind)
    result = estimate(token_level_rewards=rewards.placed(), response_mask=rewards.mask, **settings)
    return tuple(rewards.valid(tensor) for tensor in result)


def whitened(values):
    return (values - values.mean()) / (values.var() + 1e-8).sqrt()


def advantages_agree():
    config = trainer_config.AlgoConfig(gamma=0.9)
    for seed in range(5):
        rewards = random_rewards(seed)
        mask, known = rewards.flat(rewards.mask) > 0, rewards.arguments()
        for theirs, settings, ours, params, tolerance in (
                ("grpo", {}, "grpo", {"eps": 1e-6}, 1e-12),
                ("grpo", {"norm_adv_by_std_in_grpo": False}, "group_mean", {}, 1e-12),
                ("grpo_vectorized", {}, "grpo", {"eps": 1e-6}, 1e-4),  # always in float32
                ("rloo", {}, "rloo", {}, 1e-12),
                ("rloo_vectorized", {}, "rloo", {}, 1e-12),
                ("reinforce_plus_plus", {"config": config}, "reinforce_pp", {"gamma": 0.9, "eps": 1e-8}, 2e-8),
                ("reinforce_plus_plus_baseline", {}, "reinforce_pp_baseline", {"eps": 1e-8}, 2e-8)):
            want = verl_advantages(theirs, rewards, **settings)[0]
            got = keel.advantages(ours, **known, **params)
            got = got[mask] if ours.startswith("reinforce") else rewards.valid(got)
            close(got, want, tolerance * (1 + want.abs()), f"{theirs} {settings}")
        values = torch.randn(rewards.mask.shape, dtype=torch.float64)
        want, returns = verl_advantages("gae", rewards, values=values, gamma=0.95, lam=0.8)
        got = keel.advantages("gae", **known, values=rewards.flat(values), gamma=0.95, lam=0.8)
        close(got.returns[mask], returns, 1e-12 * (1 + returns.abs()), "gae returns")
        close(whitened(got.advantages[mask]), want, 2e-8 * (1 + want.abs()), "gae whitened")  # only those of verl are whitened
        assert (got.advantages[mask] - want).abs().max() > 0.1


def a_group_of_one_gets_its_reward_in_verl():
    rewards = random_rewards(1)._replace(groups=[0, 0, 1, 1, 2, 3, 3, 3, 3, 3])  # the fifth is alone in its group
    assert rewards.scores[4] != 0
    alone = rewards.valid(torch.arange(10)) == 4
    assert alone.any()
    for theirs, ours in (("grpo", "grpo"), ("grpo_vectorized", "grpo"), ("rloo", "rloo")):
        want = verl_advantages(theirs, rewards)[0]
        got = rewards.valid(keel.advantages(ours, **rewards.arguments()))
        close(want[alone], rewards.scores[4].expand(int(alone.sum())), 2e-6 * rewards.scores[4].abs(), theirs)
        assert (got[alone] == 0).all()
        close(got[~alone], want[~alone], 2e-6 * (1 + want[~alone].abs()), theirs)
    assert (verl_advantages("rloo_vectorized", rewards)[0][alone] == 0).all()  # the only one like Keel


def equal_rewards_are_exactly_0_here_only():
    """For many rewards of 0.1 in float32 the mean of verl has a rounding error, which dividing by about 1e-6 amplifies. The
    group size at which it occurs depends on the vector width of the machine."""
    worst = 0
    for size in range(3, 41):
        batch = random_batch(2, 0.3, empty=0, sequences=size)
        rewards = Rewards(torch.full((size,), 0.1), [0] * size, batch.mask.float(), batch.lengths)
        worst = max(worst, verl_advantages("grpo", rewards)[0].abs().max().item())
        for kind in ("grpo", "rloo", "group_mean"):
            assert (keel.advantages(kind, **rewards.arguments()) == 0).all(), (kind, size)
    assert 0.001 < worst < 0.1, worst


def every_loss_named_here_is_registered():
    names = {"vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "geo_mean", "cispo", "dro"}
    assert names == {case.loss for case in CASES} and names <= set(algos.POLICY_LOSS_REGISTRY)


if __name__ == "__main__":
    sys.exit(run([
        every_loss_named_here_is_registered, gradients_agree, a_wrong_parameter_is_noticed,
        beyond_20_a_differentiated_ratio_vanishes_in_verl, the_sequence_ratios_are_clamped_elsewhere,
        clip_ratio_c_is_3_unless_set, the_binary_kl_near_1_flips_decisions_in_verl,
        lengths_get_1e_8_in_verl_where_masks_are_floating, nothing_valid_is_nan_in_verl,
        gmpo_counts_empty_sequences_in_verl, aggregations_agree, divergence_estimates_agree_below_the_cap,
        advantages_agree, a_group_of_one_gets_its_reward_in_verl, equal_rewards_are_exactly_0_here_only]))
