"""Keel's methods as policy losses of verl: registry, actor loss, aggregation, configuration. Needs the peer verl
(tests/parity/packages.py), without Ray."""

import copy
import functools
import os
import shlex
import sys

from peers import ROOT, close, run, stand_in

os.environ["RANK"] = "1"  # hides what rank 0 prints at its start
from verl_package import algos, correction, worker_config  # noqa: E402  it may end the test

import torch  # noqa: E402
import verl  # noqa: E402
from hydra import compose, initialize_config_module  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from padded_batches import random_batch  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass, validate_config  # noqa: E402

import keel  # noqa: E402
import keel.verl  # noqa: E402
from keel.verl import _rows  # noqa: E402

MODES = ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
OFF = 1e30  # verl cannot switch it off

# Settings that pass the start-up check, as +keel=row sets them.
RUN = {"rollout_correction": {"bypass_mode": True}, "use_v1": True, "calculate_log_probs": True, "temperature": 1.0, "top_p": 1,
       "top_k": -1, "logprobs_mode": "processed_logprobs", "loss_agg_mode": "token-mean", "loss_scale_factor": None,
       "clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05}
CORRECTED = {**RUN, "rollout_correction": {"bypass_mode": False, "rollout_is": "token", "rollout_is_threshold": 1e9}}


def actor(section, **settings):
    """verl's configuration of an actor."""
    return worker_config.ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, policy_loss=section,
                                     **settings)


def keel_actor(row, parameters=None, run=RUN, **settings):
    return actor(keel.verl.PolicyLoss(loss_mode=f"keel_{row}", parameters=parameters or {}, run=run), **settings)


def gradient(config, batch, mode="token-mean", logp=None, weights=None, mask=None):
    """The loss and its gradient in log pi, from the function that verl has registered under the configured name."""
    logp = (batch.logp if logp is None else logp).clone().requires_grad_()
    loss, metrics = algos.get_policy_loss_fn(config.policy_loss.loss_mode)(
        old_log_prob=batch.old_logp if weights is not None else batch.behavior_logp, log_prob=logp, advantages=batch.advantages,
        response_mask=(batch.mask if mask is None else mask).bool(), loss_agg_mode=mode, config=config,
        rollout_is_weights=weights)
    return loss.detach(), torch.autograd.grad(loss, logp)[0], metrics


def relative(got, want):
    return ((got - want).norm() / want.norm()).item()


def refusal(action, *words):
    try:
        action()
    except Exception as error:  # verl's instantiation wraps the error
        message = f"{error} {error.__cause__ or ''}"
        missing = [word for word in words if word not in message]
        assert not missing, f"{missing} not in: {message}"
        return message
    raise AssertionError(f"was not refused: {words}")


def every_method_of_token_or_sequence_scope_is_registered():
    table = {name for name in algos.POLICY_LOSS_REGISTRY if name.startswith("keel_")}
    fed = {name: row["requirements"] for name, row in keel.methods().items()}
    wanted = {f"keel_{name}" for name, needs in fed.items()
              if needs["scope"] != "batch" and not needs["top_k"] and not needs["hidden_states"] and not needs["reference_logp"]}
    assert table == wanted == set(keel.verl.rows()), table ^ wanted
    assert {"keel_dppo_tv", "keel_dppo_kl", "keel_drpo", "keel_grpo", "keel_gspo", "keel_minirl"} <= table
    assert {"vanilla", "dppo_tv"} <= set(algos.POLICY_LOSS_REGISTRY)  # verl's own losses stay
    return f"{len(table)} of {len(fed)} rows"


def the_other_methods_are_refused_by_name():
    for row, words in (("tvpo", "micro-batch of one rank"), ("m2po", "micro-batch of one rank"),
                       ("dppo_topk_tv", "likeliest tokens"), ("dppo_full_kl", "full distribution")):
        assert words in keel.verl.refused()[f"keel_{row}"]
        refusal(lambda row=row: keel_actor(row), f"keel_{row}", words)
    refusal(lambda: keel_actor("dppo_vt"), "keel_dppo_vt", "keel_dppo_tv")
    refusal(lambda: keel_actor("dppo_tv", {"divergence": "topk_tv"}), "keel_dppo_tv", "topk")


def another_verl_is_refused():
    for version in ("0.8.0", "0.9.2", "0.10.0.dev", "1.0"):
        found, verl.__version__ = verl.__version__, version
        try:
            refusal(_rows.require_tested, version, _rows.OLDEST, _rows.NEWEST, "pip install")
        finally:
            verl.__version__ = found
    _rows.require_tested()


def verls(loss, low, high, cap=OFF):
    return actor(worker_config.PolicyLossConfig(loss_mode=loss), clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=cap)


PAIRS = (
    (verls("dppo_tv", 0.2, 0.2, 5.0), keel_actor("dppo_tv"), True),
    (verls("dppo_tv", 0.15, 0.15), keel_actor("dppo_tv", {"low": 0.15, "high": 0.15, "ratio_cap": "none"}), True),
    (verls("dppo_tv", 0.05, 0.2, 3.0), keel_actor("dppo_tv", {"low": 0.05, "high": 0.2, "ratio_cap": 3.0}), True),
    (verls("dppo_kl", 0.05, 0.05, 5.0), keel_actor("dppo_kl"), True),
    (verls("vanilla", 0.2, 0.2), keel_actor("grpo"), False),
    (verls("vanilla", 0.2, 0.28, 10.0), keel_actor("ppo", {"low": 0.2, "high": 0.28, "dual": 10.0}), False),
)


def gradients_equal_those_of_verls_losses():
    """The loss is equal too if verl's is g log pi; its PPO clip has the same gradient and another value."""
    worst = 0.0
    for theirs, ours, same_value in PAIRS:
        for seed, spread in ((0, 0.02), (1, 0.3), (2, 2.0)):
            batch = random_batch(seed, spread)
            for mode in MODES:
                their_loss, want, _ = gradient(theirs, batch, mode)
                our_loss, got, metrics = gradient(ours, batch, mode)
                off = relative(got, want)
                assert off <= 1e-12, f"{ours.policy_loss.loss_mode} {mode} seed {seed}: {off:.3g}"
                worst = max(worst, off)
                if same_value:
                    close(our_loss, their_loss, 1e-12 * (1 + their_loss.abs()), ours.policy_loss.loss_mode)
        assert 0 < metrics["trust_region/masked"] < 1
    return f"off by {worst:.2g} at most"


def padding_is_never_read():
    batch = random_batch(3, 0.3)
    config = keel_actor("dppo_tv")
    holes = batch.mask == 0
    spoilt = batch._replace(behavior_logp=batch.behavior_logp.masked_fill(holes, float("nan")),
                            advantages=batch.advantages.masked_fill(holes, float("inf")))
    loss, got, metrics = gradient(config, spoilt, logp=batch.logp.masked_fill(holes, float("nan")))
    want_loss, want, want_metrics = gradient(config, batch)
    assert loss == want_loss and torch.equal(got, want) and metrics == want_metrics


def methods_with_recomputed_log_probs_get_both():
    """verl's rollout weights contain the sampler's log-probs."""
    for row in ("minirl", "tis", "mis", "icepop"):
        config = keel_actor(row, run=CORRECTED)
        batch = random_batch(4, 0.3)
        weights, _ = correction.compute_rollout_correction_weights(batch.old_logp - batch.behavior_logp, batch.mask, "token", 1e9)
        _, got, _ = gradient(config, batch, weights=weights)
        logp = batch.flat(batch.logp).requires_grad_()
        loss = keel.policy_loss(row, logp=logp, aggregation="token_mean", **batch.arguments())
        want = torch.autograd.grad(loss, logp)[0]
        off = relative(batch.flat(got), want)
        assert off <= 1e-9, f"{row}: {off:.3g}"
        refusal(lambda: gradient(config, batch), "rollout_is_weights are missing")
    refusal(lambda: gradient(keel_actor("dppo_tv"), batch, weights=weights), "rollout_is_weights are set", "bypass_mode")


class TinyPolicy:
    """A softmax over 11 tokens, whose gradient is a single matrix that ranks average."""

    def __init__(self, batch):
        torch.manual_seed(7)
        rows, width = batch.mask.shape
        self.weight = torch.randn(6, 11, dtype=torch.float64).requires_grad_()
        self.state = torch.randn(rows, width, 6, dtype=torch.float64)
        self.token = torch.randint(11, (rows, width))

    def logp(self, rows):
        logits = self.state[rows] @ self.weight
        return logits.log_softmax(-1).gather(-1, self.token[rows][..., None])[..., 0]

    def gradient(self, loss):
        return torch.autograd.grad(loss, self.weight)[0]


def split(batch, rows):
    return batch._replace(**{name: getattr(batch, name)[rows] for name in ("logp", "behavior_logp", "old_logp", "advantages", "mask")})


def on_ranks(config, policy, batch, mode, ranks):
    """The gradient as in FSDP: the average of the ranks' gradients for their shares."""
    counts = dict(batch_num_tokens=int(batch.mask.sum()), global_batch_size=int((batch.mask.sum(1) > 0).sum()))
    config.global_batch_info.clear()
    config.global_batch_info.update(dp_size=ranks, loss_scale_factor=32, **counts)
    total = 0
    for rows in torch.arange(len(batch.mask)).chunk(ranks):
        part = split(batch, rows)
        loss, _ = algos.get_policy_loss_fn(config.policy_loss.loss_mode)(
            old_log_prob=part.behavior_logp, log_prob=policy.logp(rows), advantages=part.advantages,
            response_mask=part.mask.bool(), loss_agg_mode=mode, config=config)
        total = total + policy.gradient(loss) / ranks
    return total


def divided_by_local_counts(policy, batch, ranks):
    total = 0
    for rows in torch.arange(len(batch.mask)).chunk(ranks):
        part = split(batch, rows)
        loss = keel.policy_loss("dppo_tv", logp=policy.logp(rows), behavior_logp=part.behavior_logp, advantages=part.advantages,
                                mask=part.mask, aggregation="token_mean")
        total = total + policy.gradient(loss) / ranks
    return total


def gradients_do_not_depend_on_the_number_of_ranks():
    batch = random_batch(5, 0.3)
    # Ranks get very different token counts, as with long and short answers.
    keep = torch.arange(40)[:, None] >= torch.arange(16)[None] * 2
    batch = batch._replace(mask=batch.mask * keep)
    policy = TinyPolicy(batch)
    behavior = (policy.logp(torch.arange(40)).detach() + 0.3 * torch.randn(40, 16, dtype=torch.float64)).clamp(max=-1e-7)
    batch = batch._replace(behavior_logp=behavior)
    worst, naive = 0.0, []
    for row in ("dppo_tv", "drpo", "grpo", "gspo"):
        whole = batch if row != "gspo" else batch._replace(advantages=batch.advantages[:, :1].expand(40, 16).contiguous())
        for mode in MODES:
            config = keel_actor(row, loss_scale_factor=32)
            want = on_ranks(config, policy, whole, mode, 1)
            for ranks in (2, 4):
                off = relative(on_ranks(config, policy, whole, mode, ranks), want)
                assert off <= 1e-6, f"{row} {mode} on {ranks} ranks: off by {off:.3g}"
                worst = max(worst, off)
    want = on_ranks(keel_actor("dppo_tv"), policy, batch, "token-mean", 1)
    for ranks in (2, 4):
        naive.append(relative(divided_by_local_counts(policy, batch, ranks), want))
    assert min(naive) > 0.05, naive  # agg_loss and its global counts solve this
    return f"off by {worst:.2g} at most; divided by local counts by {naive[0]:.0%} and {naive[1]:.0%}"


def the_actors_loss_calls_the_keel_method():
    """verl.workers.utils.losses.ppo_loss, which every verl engine calls, on its own batch of nested tensors."""
    stand_in("datasets", "pandas", "PIL", "PIL.Image")  # verl reads its data with them; this test has no data
    from tensordict import TensorDict
    from verl.utils import tensordict_utils
    from verl.workers.utils.losses import ppo_loss

    batch = random_batch(6, 0.3, empty=0)
    lengths, prompt = batch.lengths, 2

    def jagged(rows):
        return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)

    def responses(tensor):
        return jagged(row[:n] for row, n in zip(tensor, lengths))

    def losses(config):
        logp = batch.logp.clone().requires_grad_()
        whole = jagged(torch.cat([row.new_zeros(prompt - 1), row[:n], row.new_zeros(1)]) for row, n in zip(logp, lengths))
        data = TensorDict({
            "prompts": jagged(torch.zeros(prompt, dtype=torch.long) for _ in lengths),
            "responses": responses(torch.zeros(batch.mask.shape, dtype=torch.long)),
            "response_mask": responses(batch.mask), "old_log_probs": responses(batch.behavior_logp),
            "advantages": responses(batch.advantages)}, batch_size=len(lengths))
        tensordict_utils.assign_non_tensor(data, dp_size=1, batch_num_tokens=int(batch.mask.sum()), global_batch_size=len(lengths))
        loss, metrics = ppo_loss(config=config, model_output={"log_probs": whole}, data=data)
        return loss.detach(), torch.autograd.grad(loss, logp)[0], metrics

    their_loss, want, _ = losses(verls("dppo_tv", 0.2, 0.2, 5.0))
    loss, got, metrics = losses(keel_actor("dppo_tv"))
    assert relative(got, want) <= 1e-12 and relative(loss, their_loss) <= 1e-12
    for name in ("trust_region/masked", "actor/pg_clipfrac", "actor/pg_loss"):
        assert name in metrics, sorted(metrics)
    assert metrics["trust_region/masked"].aggregate() == metrics["actor/pg_clipfrac"].aggregate() > 0


def metrics_equal_keels():
    """Computed by hand: mu 0.5, pi 0.8, 0.5, 0.2, 0.04 with A 1, 1, 1, -1, and a masked token."""
    def row(*values):
        return torch.tensor([values], dtype=torch.float64)

    batch = random_batch(0, 0.1)._replace(
        logp=row(0.8, 0.5, 0.2, 0.04, 0.3).log(), behavior_logp=row(0.5, 0.5, 0.5, 0.6, 0.3).log(),
        advantages=row(1, 1, 1, -1, 1), mask=torch.tensor([[1, 1, 1, 1, 0]]))
    metrics = gradient(keel_actor("dppo_tv"), batch)[2]
    want = {"trust_region/masked": 2 / 4, "trust_region/masked_positive": 1 / 3, "trust_region/masked_negative": 1.0,
            "trust_region/outside": None, "trust_region/bad_updates": 1 / 4,
            "trust_region/divergence_mean": (0.3 + 0 + 0.3 + 0.56) / 4, "ratio/mean": (1.6 + 1 + 0.4 + 1 / 15) / 4,
            "policy/kl_behavior": 0.5552509925993, "actor/pg_clipfrac": 2 / 4, "actor/ppo_kl": 0.7885843259326}
    assert set(metrics) == set(want), set(metrics) ^ set(want)
    for name, value in want.items():
        assert value is None or abs(metrics[name] - value) < 1e-8, (name, metrics[name], value)


LOSS = "actor_rollout_ref.actor.policy_loss"
BASE = ["hydra.searchpath=[pkg://keel.verl]", "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.model.path=m",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1", "data.max_response_length=8192"]


@functools.lru_cache(maxsize=None)
def hydras(*overrides):
    """Hydra's result for verl's defaults and these arguments, as in main_ppo."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [*BASE, *overrides])


def composed(*overrides, **changes):
    """That result with changed settings, and the actor that verl creates from it before it starts Ray. The changes bypass Hydra, which
    takes a second each."""
    config = copy.deepcopy(hydras(*overrides))
    for key, value in changes.items():
        OmegaConf.update(config, key, value, merge=False, force_add=True)
    return config, omega_conf_to_dataclass(config.actor_rollout_ref.actor)


def one_override_selects_the_settings_of_the_paper():
    config, made = composed("+keel=dppo_tv")
    assert isinstance(made.policy_loss, keel.verl.PolicyLoss) and made.policy_loss.loss_mode == "keel_dppo_tv"
    assert config.algorithm.rollout_correction.bypass_mode and config.actor_rollout_ref.rollout.calculate_log_probs
    assert made.loss_agg_mode == "seq-mean-token-sum-norm" and made.loss_scale_factor == 8192
    assert config.algorithm.adv_estimator == "grpo" and not config.algorithm.norm_adv_by_std_in_grpo
    batch = random_batch(1, 0.3)
    made.global_batch_info.update(loss_scale_factor=made.loss_scale_factor)
    theirs = verls("dppo_tv", 0.2, 0.2, 5.0)  # the paper's cap: verl's default is 3
    theirs.global_batch_info.update(loss_scale_factor=8192)
    assert relative(gradient(made, batch, made.loss_agg_mode)[1], gradient(theirs, batch, made.loss_agg_mode)[1]) <= 1e-12
    for row in ("dppo_kl", "drpo"):
        assert composed(f"+keel={row}")[1].policy_loss.loss_mode == f"keel_{row}"


def verl_accepts_the_configuration_of_the_example():
    """Passes its arguments through Hydra and verl's own configuration check, as main_ppo does before it starts Ray."""
    script = (ROOT / "examples" / "verl_plugin" / "dppo_gsm8k.sh").read_text()
    command = script[script.index("-m verl.trainer.main_ppo"):].replace("\\\n", "")
    words = shlex.split(command)[2:-1]  # without the script's own arguments
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", words)
    validate_config(config, use_reference_policy=False, use_critic=False)
    assert config.actor_rollout_ref.actor.loss_scale_factor == 1024
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "keel_dppo_tv"


def parameters_reach_the_method():
    _, made = composed("+keel=dppo_tv", f"+{LOSS}.parameters.high=0.02", f"+{LOSS}.parameters.ratio_cap=3")
    batch = random_batch(1, 0.3)
    assert relative(gradient(made, batch)[1], gradient(verls("dppo_tv", 0.2, 0.02, 3.0), batch)[1]) <= 1e-12
    _, made = composed("+keel=row", f"{LOSS}.loss_mode=keel_cispo")
    assert made.policy_loss.loss_mode == "keel_cispo" and made.loss_agg_mode == "token-mean"
    _, made = composed(*MINIRL)
    assert made.policy_loss.uses_recomputed_logp


ROLLOUT, CORRECTION, ACTOR = "actor_rollout_ref.rollout", "algorithm.rollout_correction", "actor_rollout_ref.actor"
MINIRL = ("+keel=corrected", f"{LOSS}.loss_mode=keel_minirl")
TRAPS = (  # changed settings, and a part of the error
    ({f"{CORRECTION}.bypass_mode": False}, ("bypass_mode is false", "sampler")),
    ({f"{ROLLOUT}.calculate_log_probs": False}, ("calculate_log_probs",)),
    ({f"{ACTOR}.clip_ratio_high": 0.28}, ("clip_ratio_high is 0.28", "parameters")),
    ({f"{ACTOR}.clip_ratio_c": 10000.0}, ("clip_ratio_c",)),
    ({"trainer.use_v1": False}, ("use_v1", "bypass_mode")),
    ({f"{CORRECTION}.rollout_rs": "token_k1"}, ("rollout_rs",)),
    ({f"{ROLLOUT}.top_p": 0.9}, ("top_p", "0.9")),
    ({f"{ROLLOUT}.temperature": 0.7, f"{ROLLOUT}.logprobs_mode": "raw_logprobs"}, ("temperature", "processed_logprobs")),
    ({f"{ACTOR}.loss_scale_factor": None}, ("loss_scale_factor", "micro-batch")),
    ({f"{LOSS}.parameters.hihg": 0.2}, ("hihg",)),
    ({f"{LOSS}.parameters.high": 2}, ("high",)),
    ({f"{LOSS}.loss_mode": "keel_dppo_topk_tv"}, ("keel_dppo_topk_tv", "likeliest")),
    ({f"{LOSS}.loss_mode": "keel_tvpo"}, ("keel_tvpo", "micro-batch")),
    ({f"{LOSS}.loss_mode": "dppo_tv"}, ("dppo_tv", "keel_dppo_tv")),
    ({f"{LOSS}.dro_beta": 0.1}, ("dro_beta",)),
    ({f"{LOSS}.run": {}}, ("policy_loss.run", "+keel=row")),
    ({f"{LOSS}.loss_mode": "keel_minirl"}, ("bypass_mode is true", "recomputed")),
    ({f"{CORRECTION}.bypass_mode": False, f"{ACTOR}.clip_ratio": 0.3}, ("bypass_mode", "clip_ratio is 0.3")),  # all errors at once
)
TRAPS_OF_MINIRL = (
    ({f"{CORRECTION}.rollout_is_threshold": 2}, ("rollout_is_threshold", "1e9")),
    ({f"{CORRECTION}.rollout_is_threshold": "0.5_2.0"}, ("rollout_is_threshold", "1e9")),
    ({f"{CORRECTION}.rollout_is": "sequence"}, ("rollout_is",)),
)


def conflicting_settings_are_refused_at_the_start():
    for typed, traps in ((("+keel=dppo_tv",), TRAPS), (MINIRL, TRAPS_OF_MINIRL)):
        composed(*typed)
        for changes, words in traps:
            refusal(lambda: composed(*typed, **changes), *words)
    return f"{len(TRAPS) + len(TRAPS_OF_MINIRL)} traps"


def inputs_of_the_loss_are_checked():
    batch, config = random_batch(1, 0.3), keel_actor("dppo_tv")
    refusal(lambda: gradient(config, batch._replace(behavior_logp=None)), "old_log_prob is missing", "calculate_log_probs")
    refusal(lambda: gradient(config, batch._replace(advantages=batch.advantages[:, :1])), "advantages is [40, 1]", "[40, 16]")
    refusal(lambda: gradient(config, batch, mask=batch.mask[:, :3]), "response_mask")
    plain = actor(worker_config.PolicyLossConfig(loss_mode="keel_dppo_tv"))
    refusal(lambda: gradient(plain, batch), "keel_dppo_tv", "+keel=row")
    config = actor(keel_actor("drpo").policy_loss)
    refusal(lambda: algos.get_policy_loss_fn("keel_dppo_tv")(batch.behavior_logp, batch.logp, batch.advantages, batch.mask,
                                                             config=config), "keel_drpo")
    rounded = batch._replace(behavior_logp=batch.behavior_logp.clamp(max=-1e-5))
    logp = rounded.logp.float()
    logp[0, 0], rounded.mask[0, 0] = 1e-6, 1  # the softmax of a certain token, rounded
    gradient(config, rounded, logp=logp)
    logp[0, 0] = 0.1
    refusal(lambda: gradient(config, rounded, logp=logp), "logp", "at most 0")


if __name__ == "__main__":
    sys.exit(run([
        every_method_of_token_or_sequence_scope_is_registered, the_other_methods_are_refused_by_name, another_verl_is_refused,
        gradients_equal_those_of_verls_losses, padding_is_never_read, methods_with_recomputed_log_probs_get_both,
        gradients_do_not_depend_on_the_number_of_ranks, the_actors_loss_calls_the_keel_method, metrics_equal_keels,
        one_override_selects_the_settings_of_the_paper, verl_accepts_the_configuration_of_the_example, parameters_reach_the_method, conflicting_settings_are_refused_at_the_start,
        inputs_of_the_loss_are_checked]))
