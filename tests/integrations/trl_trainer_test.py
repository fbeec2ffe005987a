"""KeelGRPOTrainer in TRL: with the ratio clip it equals TRL's own trainer up to rounding, with other methods its gradient is the
method's, and unsupported settings are rejected before the first step. Needs the peer trl; about 20 s, a minute at full length."""

import contextlib
import io
import math
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings

import torch

from peers import ROOT, count, run, use

use("trl")
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # of rollout_func
warnings.filterwarnings("ignore")

import trl  # noqa: E402
from peft import LoraConfig  # noqa: E402
from trl import GRPOTrainer  # noqa: E402
from trl.trainer import grpo_trainer  # noqa: E402

import keel  # noqa: E402
import tiny_trl as tiny  # noqa: E402
from keel.trl import KeelGRPOTrainer  # noqa: E402

torch.set_num_threads(1)
STEPS = count(5, 20)


def the_ratio_clip_equals_trls_up_to_rounding():
    """Loss, weights and clip metrics, with every supported aggregation, a reference KL and an entropy bonus."""
    highest, clipped = 0.0, 0.0
    cases = [({"loss_type": "dapo", "epsilon": 0.05}, "ppo"), ({"loss_type": "grpo", "epsilon_high": 0.03, "epsilon": 0.02}, "grpo")]
    if count(False, True):
        cases += [({"loss_type": "dr_grpo", "epsilon": 0.05}, "dr_grpo"), ({"loss_type": "bnpo", "entropy_coef": 0.01}, "ppo"),
                  ({"loss_type": "dapo", "epsilon": 0.05, "top_entropy_quantile": 0.5}, "ppo")]
    for changes, method in cases:
        made = []
        for kind, more in ((GRPOTrainer, {}), (KeelGRPOTrainer, {"method": method})):
            made.append(tiny.trainer(kind, {"max_steps": STEPS, **changes}, **more))
            made[-1].train()
        theirs, ours = made
        assert len(theirs.losses) == len(ours.losses) == STEPS
        off = max(abs(a - b) for a, b in zip(theirs.losses, ours.losses))
        moved = (tiny.weights(theirs) - tiny.weights(ours)).abs().max().item()
        assert off < 1e-6 and moved < 1e-6, f"{changes}: losses are {off:.2g} apart, weights {moved:.2g}"
        for row, other in zip(theirs.state.log_history, ours.state.log_history):
            for name, value in row.items():
                if name.startswith(("clip_ratio", "entropy", "reward")):
                    assert abs(value - other[name]) < 1e-6, f"{name}: {other[name]}, in TRL {value}"
        clipped = max(clipped, *(row.get("clip_ratio/region_mean", 0) for row in theirs.state.log_history))
        highest = max(highest, off, moved)
    assert clipped > 0.05, "the comparison must see clipped tokens"
    return f"{len(cases)} settings, {STEPS} steps, at most {highest:.1g} apart, {clipped:.0%} clipped"


def a_wrong_bound_is_detected():
    theirs, ours = tiny.trainer(GRPOTrainer, {"epsilon": 0.05}), tiny.trainer(KeelGRPOTrainer, method="ppo", parameters={"low": 0.05, "high": 0.06})
    theirs.train()
    ours.train()
    assert (tiny.weights(theirs) - tiny.weights(ours)).abs().max() > 1e-5


def scored_batch(made):
    """The inputs of TRL's loss for completions whose sampler differs from the model."""
    made.model.train()
    made.current_gradient_accumulation_steps = 1
    return made._generate_and_score_completions([{"prompt": text} for text in tiny.prompts(8)["prompt"]])


def dppos_gradient_equals_the_papers():
    """With the log-probabilities of a rollout function, and with those of a replacement for vLLM."""
    notes = [is_dppos_gradient({}, rollout_func=tiny.fixed_rollout)]
    real, grpo_trainer.VLLMGeneration = grpo_trainer.VLLMGeneration, tiny.Vllm
    try:
        notes.append(is_dppos_gradient({"use_vllm": True, "vllm_mode": "colocate"}))
    finally:
        grpo_trainer.VLLMGeneration = real
    return "; ".join(notes)


def is_dppos_gradient(changes, **more):
    """Written out by hand: sum of 1[kept] min(r, cap) A grad log pi over the number of tokens, with the sampler's mu."""
    low, high, cap = 0.005, 0.003, 1.3
    made = tiny.trainer(KeelGRPOTrainer, {"steps_per_generation": 1, "num_iterations": 1, **changes}, method="dppo_tv",
                        parameters={"low": low, "high": high, "ratio_cap": cap}, **more)
    if made.use_vllm:
        made.vllm_generation.trainer = made
    batch = scored_batch(made)
    assert "importance_sampling_ratio" not in batch, "a second weight besides pi / mu"
    made._compute_loss(made.model, batch).backward()
    got = torch.cat([parameter.grad.flatten() for parameter in made.model.parameters()])
    ids, mask = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1), batch["completion_mask"]
    made.model.zero_grad()
    logits = made.model(input_ids=ids, attention_mask=torch.cat([batch["prompt_mask"], mask], 1)).logits
    width = mask.shape[1]
    logp = torch.log_softmax(logits[:, -width - 1:-1].double(), -1).gather(-1, batch["completion_ids"][..., None])[..., 0]
    mu, advantage = batch["sampling_per_token_logps"].double(), batch["advantages"][:, None].double()
    pi, r = logp.detach().exp(), (logp.detach() - mu).exp()
    away = advantage * (pi - mu.exp()) > 0
    blocked = away & ((pi - mu.exp()).abs() > torch.where(advantage > 0, high, low))
    g = torch.where(blocked, 0, r.clamp(max=cap) * advantage) * mask
    (-(g * logp).sum() / mask.sum()).backward()
    want = torch.cat([parameter.grad.flatten() for parameter in made.model.parameters()])
    off = ((got - want).abs().max() / want.abs().max()).item()
    share = (blocked & mask.bool()).sum().item() / mask.sum().item()
    assert off < 1e-6, f"{off:.2g} off, relative to the largest"
    metrics = made._metrics["train"]
    assert 0.05 < share < 0.95 and abs(metrics["trust_region/masked"][0] - share) < 1e-9
    assert abs(metrics["ratio/max"][0] / (r * mask).max().item() - 1) < 1e-5
    return f"{share:.0%} of the tokens blocked, {off:.1g} off"


def log_softmax_of_completions(made, batch):
    """Over the whole vocabulary, [B, T, V] in float64, from the model's logits."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    logits = made.model(input_ids=ids, attention_mask=torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)).logits
    return torch.log_softmax(logits[:, -batch["completion_ids"].shape[1] - 1:-1].double() / made.temperature, -1)


def top_k_methods_use_the_tokens_of_the_sampling_weights():
    """Written out by hand: the total variation over the top 5 tokens of the sampling weights, the sampled one and all others, after an
    update."""
    k, low, high = 5, 0.04, 0.02
    made = tiny.trainer(KeelGRPOTrainer, {"per_device_train_batch_size": 4, "steps_per_generation": 2, "temperature": 0.8}, method="dppo_topk_tv",
                        parameters={"k": k, "low": low, "high": high})
    batch = scored_batch(made)
    tokens, mask = batch["completion_ids"], batch["completion_mask"]
    with torch.no_grad():
        before = log_softmax_of_completions(made, batch).exp()
        torch.manual_seed(5)
        for parameter in made.model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    made._compute_loss(made.model, batch).backward()
    got = torch.cat([parameter.grad.flatten() for parameter in made.model.parameters()])
    made.model.zero_grad()
    logp = log_softmax_of_completions(made, batch)
    now = logp.detach().exp()
    named = torch.zeros_like(before).scatter(-1, before.topk(k).indices, 1.0).scatter(-1, tokens[..., None], 1.0)
    rest = ((before - now) * (1 - named)).sum(-1).abs()
    tv = (((before - now).abs() * named).sum(-1) + rest) / 2
    mu, pi, sampled = (each.gather(-1, tokens[..., None])[..., 0] for each in (before, now, logp))
    advantage = batch["advantages"][:, None].double()
    blocked = (advantage * (pi - mu) > 0) & (tv > torch.where(advantage > 0, high, low))
    (-(torch.where(blocked, 0, pi / mu * advantage) * mask * sampled).sum() / (mask.sum() / 2)).backward()  # all tokens here; TRL counts those of an update, which is half of them
    want = torch.cat([parameter.grad.flatten() for parameter in made.model.parameters()])
    off = ((got - want).abs().max() / want.abs().max()).item()
    assert off < 1e-5, f"{off:.2g} off, relative to the largest"
    masked, share = made._metrics["train"]["trust_region/masked"][0], (blocked & mask.bool()).sum().item() / mask.sum().item()
    binary = (advantage * (pi - mu) > 0) & ((pi - mu).abs() > torch.where(advantage > 0, high, low))
    assert 0.05 < share < 0.95 and abs(masked - share) < 1e-9 and (binary != blocked)[mask.bool()].any()
    trained = tiny.trainer(KeelGRPOTrainer, method="drpo_topk_kl", parameters={"k": 64})  # all 32 tokens
    trained.train()
    assert all(row["trust_region/divergence_mean"] >= 0 for row in trained.state.log_history if "trust_region/divergence_mean" in row)
    return f"{share:.0%} of the tokens blocked, {off:.1g} off"


def it_trains_and_logs_the_trust_region():
    made = tiny.trainer(KeelGRPOTrainer, {"max_steps": STEPS, "loss_type": "dr_grpo"}, method="dppo_tv", parameters={"low": 0.001, "high": 0.001})
    made.train()
    rows = [row for row in made.state.log_history if "trust_region/masked" in row]
    assert len(rows) == STEPS and not any(name.startswith("clip_ratio") for row in rows for name in row)
    assert rows[0]["trust_region/masked"] == 0, "nothing has moved before the first update"
    assert any(row["trust_region/masked"] > 0 for row in rows[1:]) and all(row["ratio/max"] >= row["ratio/mean"] > 0 for row in rows)
    return f"{STEPS} steps, up to {max(row['trust_region/masked'] for row in rows):.0%} blocked"


def tokens_without_sampler_logps_have_a_ratio_of_1():
    def with_gaps(texts, made):
        rollout = tiny.fixed_rollout(texts, made)
        rollout["logprobs"] = [[None] + values[1:] for values in rollout["logprobs"]]
        return rollout

    made = tiny.trainer(KeelGRPOTrainer, {"steps_per_generation": 1, "num_iterations": 1}, rollout_func=with_gaps)
    assert math.isfinite(made._compute_loss(made.model, scored_batch(made)).item())


def forked(rank, size, port, file):
    """One of several processes, forked so that nothing is imported again; writes its weights after three updates to the file."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), ACCELERATE_USE_CPU="true")
    changes = dict(per_device_train_batch_size=8 // size, steps_per_generation=1, num_iterations=2, max_steps=4, optim="sgd", learning_rate=1.0,
                   max_grad_norm=0.0, ddp_backend="gloo", loss_type=os.environ["KEEL_LOSS_TYPE"])
    method = os.environ["KEEL_METHOD"]
    made = tiny.trainer(KeelGRPOTrainer, changes, rollout_func=tiny.fixed_rollout, method=method, parameters={"low": 0.02, "high": 0.02},
                        anchor="recomputed" if "topk" in method else None)
    made.train()
    assert made.accelerator.num_processes == size
    if rank == 0:
        masked = [row["trust_region/masked"] for row in made.state.log_history if "trust_region/masked" in row]
        torch.save((tiny.weights(made), masked), file)


def on_processes(size):
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.NamedTemporaryFile() as file:
        children = []
        for rank in range(size):
            child = os.fork()
            if child == 0:
                try:
                    forked(rank, size, port, file.name)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        assert codes == [0] * size, f"{size} processes ended with {codes}"
        return torch.load(file.name)


def one_two_and_four_processes_take_the_same_steps():
    """Plain gradient descent with learning rate 1: weights are sums of gradients."""
    highest = 0.0
    cases = (("dapo", "dppo_tv"), ("dapo", "dppo_topk_tv"), ("grpo", "dppo_tv"), ("dr_grpo", "dppo_tv"))
    for average, method in count(cases[:1], cases):
        os.environ["KEEL_LOSS_TYPE"], os.environ["KEEL_METHOD"] = average, method
        alone, masked = on_processes(1)
        start = tiny.weights_of(tiny.model())
        assert (alone - start).abs().max() > 1e-3 and max(masked) > 0.05
        for size in count((2,), (2, 4)):
            weights, other = on_processes(size)
            off = (weights - alone).abs().max().item()
            assert off < 1e-6, f"{method}, {average} on {size} processes: {off:.2g} apart"
            assert max(abs(a - b) for a, b in zip(masked, other)) < 1e-6, f"{masked} on one process, {other} on {size}"
            highest = max(highest, off)
    return f"at most {highest:.1g} apart"


def the_examples_run():
    """In this process; at full length also in two, as torchrun starts them."""
    kept, sys.argv = sys.argv, ["example", str(count(4, 40))]
    try:
        for name, wanted in (("trl_dppo.py", "reward"), ("hf_loop.py", "reward")):
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
                runpy.run_path(str(ROOT / "examples" / name))
            assert count(True, wanted in printed.getvalue()), f"{name} said {printed.getvalue()!r}"
    finally:
        sys.argv = kept
    if count(False, True):
        paths = [os.path.dirname(os.path.dirname(module.__file__)) for module in (keel, trl)]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", ROOT / "examples" / "trl_dppo.py", "20"],
                                  cwd=folder, env={**os.environ, "PYTHONPATH": ":".join(paths)}, capture_output=True, text=True)
        assert done.returncode == 0 and "step 20: reward" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


def unsupported_settings_are_refused_before_the_first_step():
    def no_logprobs(texts, made):
        return {**tiny.fixed_rollout(texts, made), "logprobs": None}

    def short(texts, made):
        rollout = tiny.fixed_rollout(texts, made)
        return {**rollout, "logprobs": [values[1:] for values in rollout["logprobs"]]}

    cases = [
        ({}, {"method": "dppo_tvv"}, "known: dppo_tv"),
        ({}, {"method": "dppo_topk_tv", "rollout_func": tiny.fixed_rollout}, "vLLM logprobs=0"),
        ({"use_vllm": True}, {"method": "drpo_topk_kl"}, "set anchor='recomputed'"),
        ({}, {"method": "dppo_topk_tv", "parameters": {"k": 0}}, "k"),
        ({}, {"method": "dppo_topk_tv", "model": tiny.model(attention_dropout=0.1)}, "dropout (model.layers.0.self_attn.attention_dropout: 0.1)"),
        ({"disable_dropout": True}, {"method": "dppo_topk_tv", "model": tiny.model_of_opt()}, "dropout (model.decoder.dropout: 0.1)"),
        ({}, {"method": "drpo_topk_kl", "peft_config": LoraConfig(r=2, lora_dropout=0.05)}, "set disable_dropout=True"),
        ({}, {"method": "dppo_full_tv"}, "hidden states"),
        ({}, {"method": "ppo_gae"}, "a critic"),
        ({}, {"method": "m2po"}, "needs the whole update"),
        ({}, {"method": "tis"}, "the sampler returns none"),
        ({}, {"parameters": {"hihg": 0.1}}, "hihg"),
        ({}, {"parameters": {"high": -1.0}}, "high"),
        ({}, {"parameters": {"anchor": "behavior"}}, "as the trainer's argument"),
        ({}, {"anchor": "sampler"}, "expected 'behavior'"),
        ({}, {"anchor": "behavior"}, "transformers' generate does not return"),
        ({}, {"anchor": "behavior", "rollout_func": no_logprobs}, "came without the sampler's log-probabilities"),
        ({}, {"rollout_func": short}, "expected one for each"),
        ({"loss_type": "cispo"}, {}, "it selects a loss in TRL"),
        ({"importance_sampling_level": "sequence"}, {}, "method='gspo'"),
        ({"epsilon_high": 0.28}, {}, "set its thresholds in parameters: {'low': 0.2"),
        ({"epsilon": 0.1}, {"method": "ppo", "parameters": {"low": 0.2}}, "keep one of them"),
        ({"delta": 4.0}, {"method": "ppo"}, "'dual'"),
        ({"off_policy_mask_threshold": 0.1}, {}, "ds_v32"),
        ({"beta": 0.1}, {}, "use_bias_correction_kl=False"),
        ({"use_vllm": True, "top_p": 0.9}, {}, "another distribution"),
        ({"use_vllm": True, "vllm_importance_sampling_clip_max": 2.0}, {}, "replaces this correction"),
    ]
    for changes, more, wanted in cases:
        try:
            made = tiny.trainer(KeelGRPOTrainer, changes, **more)
            made.train()
        except ValueError as error:
            assert wanted in str(error), f"{changes} {more}: expected {wanted!r}: {error}"
        else:
            raise AssertionError(f"{changes} {more}: no error, expected {wanted!r}")
        if "made" in locals():
            assert made.losses == [], "a step was made"
            del made
    return f"{len(cases)} refusals"


def another_version_of_trl_is_refused():
    from keel.trl import _options
    known = _options.metadata.version
    try:
        for version in ("1.15.4", "1.17.0", "1.17.0.dev0", "2.0rc1", "2"):
            _options.metadata.version = lambda _: version
            try:
                _options.require_version()
            except ImportError as error:
                assert f"TRL {version} is installed" in str(error) and "pip install 'trl>=1.16,<1.17'" in str(error)
            else:
                raise AssertionError(f"TRL {version} was taken")
    finally:
        _options.metadata.version = known
    _options.require_version()


if __name__ == "__main__":
    sys.exit(run([one_two_and_four_processes_take_the_same_steps,  # first: accelerate must not have any state before the fork
                  the_ratio_clip_equals_trls_up_to_rounding, a_wrong_bound_is_detected, dppos_gradient_equals_the_papers,
                  top_k_methods_use_the_tokens_of_the_sampling_weights, it_trains_and_logs_the_trust_region, tokens_without_sampler_logps_have_a_ratio_of_1,
                  the_examples_run, unsupported_settings_are_refused_before_the_first_step, another_version_of_trl_is_refused]))
