"""The trainer. TRL's loss gets the method's coefficients as advantages with a ratio of 1, so its gradient is that of the method. All
other code is TRL's."""

import inspect
from typing import Any, Mapping, Optional

import torch
from trl import GRPOTrainer

from .. import methods, token_coefficients
from . import _options


class KeelGRPOTrainer(GRPOTrainer):
    """TRL's GRPOTrainer with a method of `keel.methods()` in place of its ratio clip.

    `parameters` overrides the method's defaults ({"high": 0.2}). `anchor` is the source of mu's log-probabilities:
    "behavior", the sampler (vLLM, or `rollout_func`), or "recomputed", the trainer with the sampling weights.
    By default it is the sampler if it returns log-probabilities, else the trainer."""

    def __init__(self, *args: Any, method: str = "dppo_tv", parameters: Optional[Mapping[str, Any]] = None,
                 anchor: Optional[str] = None, **kwargs: Any) -> None:
        trl_arguments = inspect.signature(GRPOTrainer.__init__).bind(self, *args, **kwargs).arguments
        has_sampler_logps = getattr(trl_arguments.get("args"), "use_vllm", False) or trl_arguments.get("rollout_func") is not None
        _options.check_method(method, parameters, anchor, has_sampler_logps)
        self.keel_method, self.keel_anchor = method, anchor
        self.keel_parameters = _options.with_epsilon(method, dict(parameters or {}), trl_arguments.get("args"))
        if trl_arguments.get("args") is not None:
            _options.check_arguments(trl_arguments["args"], method, anchor)
        super().__init__(*args, **kwargs)
        needs = methods()[method]["requirements"]
        self._needs_recomputed = needs["recomputed_logp"]
        self._top_k = int(self.keel_parameters.get("k", needs["top_k"])) if needs["top_k"] else 0
        if self._top_k:
            _options.check_dropout(self.model, method)
        self._clips_like_trl = _options.clips_like_trl(method, self.keel_parameters)
        if self._clips_like_trl:  # TRL's loss then has the clip's value for blocked tokens, and its metrics count them
            self.epsilon_low, self.epsilon_high = (self.keel_parameters[name] for name in ("low", "high"))
        if self.use_vllm and anchor != "recomputed":
            self.vllm_importance_sampling_correction = False  # pi / mu already corrects the mismatch
        self._pending_inputs = None
        self.accelerator.print(f"keel: {method} {self.keel_parameters or 'with default parameters'}; mu: "
                               f"{_options.describe_anchor(anchor, has_sampler_logps)}; aggregation: {self.loss_type}")

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        if self._top_k and batch.get("old_per_token_logps") is not None:  # else there is no update before the loss, and pi is mu
            ids, logps = zip(*(self._likeliest(self.model, part) for part in _parts(batch, self.args.per_device_train_batch_size)))
            batch["topk_ids"], batch["topk_behavior_logp"] = torch.cat(ids), torch.cat(logps)
        return batch

    @torch.no_grad()
    def _likeliest(self, model, batch, ids=None):
        """The likeliest tokens at each position of the completions (or `ids`) and their log-probabilities, both [B, T, K]."""
        _options.check_text_only(batch, self.keel_method)
        tokens = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        with self.accelerator.autocast():
            logits = model(input_ids=tokens, attention_mask=attention, use_cache=False).logits
        logps = torch.log_softmax(logits[:, batch["prompt_ids"].shape[1] - 1:-1].float() / self.temperature, -1)
        ids = logps.topk(min(self._top_k, logps.shape[-1])).indices if ids is None else ids
        return ids, logps.gather(-1, ids)

    def _compute_loss(self, model, inputs):
        inputs = dict(inputs)
        if self._top_k:
            inputs["topk_ids"], inputs["topk_logp"] = self._likeliest(model, inputs, inputs.get("topk_ids"))
        self._pending_inputs = inputs
        try:
            loss = super()._compute_loss(model, inputs)
        finally:
            self._pending_inputs = None
        if not self._clips_like_trl:  # TRL would log 0, although the method blocks tokens
            metrics = self._metrics["train" if self.model.training else "eval"]
            for name in [name for name in metrics if name.startswith("clip_ratio/")]:
                del metrics[name]
        return loss

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        logps, entropies, aux_loss = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._pending_inputs is not None:  # called by _compute_loss
            self._decide(logps.detach(), self._pending_inputs)
        return logps, entropies, aux_loss

    def _generate(self, prompts):
        generated = super()._generate(prompts)
        _options.check_sampled(generated[1], generated[4], self.keel_method, self.keel_anchor, self._needs_recomputed)
        return generated

    def _decide(self, logps, inputs):
        """Replaces the advantages in the inputs of the TRL loss by the method's coefficients."""
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        pi = logps.float().clamp(max=0)
        recomputed = inputs.get("old_per_token_logps")  # None: equal to pi, since no update was made
        recomputed = pi if recomputed is None else recomputed.float().clamp(max=0)
        sampled = inputs.get("sampling_per_token_logps")
        mu = recomputed
        if sampled is not None and self.keel_anchor != "recomputed":
            # vLLM returns NaN for tokens without a log-probability; these use the recomputed one.
            mu = torch.where(sampled.isnan(), recomputed, sampled.float().clamp(max=0))
        for name, tensor in (("mu", mu), ("the mask", mask)):
            if tensor.shape != logps.shape:
                raise ValueError(f"{name} is {list(tensor.shape)}, but the log-probabilities are {list(logps.shape)}; expected the same shape")
        advantages = inputs["advantages"]
        advantages = advantages.unsqueeze(1).expand_as(pi) if advantages.dim() == 1 else advantages
        likeliest = {}
        if self._top_k:
            likeliest = dict(topk_behavior_logp=inputs.get("topk_behavior_logp", inputs["topk_logp"]), topk_logp=inputs["topk_logp"],
                             sampled_in_topk=(inputs["topk_ids"] == inputs["completion_ids"][..., None]).any(-1))
        decision = token_coefficients(self.keel_method, self.keel_parameters, logp=pi, behavior_logp=mu,
                                      advantages=advantages.float(), mask=mask,
                                      old_logp=recomputed if self._needs_recomputed else None, **likeliest)
        self._log_metrics(decision, pi, mu, advantages, mask.bool())
        # Tokens that a ratio clip blocks are left to TRL's clip, which has the same bounds.
        clipped_by_trl = ~decision.keep if self._clips_like_trl else torch.zeros_like(decision.keep)
        inputs["old_per_token_logps"] = torch.where(clipped_by_trl, mu, logps)
        inputs["advantages"] = torch.where(clipped_by_trl, advantages, decision.coefficient)

    def _log_metrics(self, decision, pi, mu, advantages, mask):
        """Logs the trust region's metrics (docs/metrics.md) over the tokens of all processes."""
        ratio = (pi - mu).clamp(-20, 20).exp()
        change, infinite = pi.exp() - mu.exp(), decision.divergence.isinf()
        blocked, positive, negative = ~decision.keep, advantages > 0, advantages < 0
        divergence = decision.divergence.masked_fill(infinite, 0)
        columns = [mask, positive, negative, blocked, blocked & positive, blocked & negative, decision.outside, divergence, infinite,
                   ratio, ratio - 1 - (pi - mu), negative & (change <= -0.5)]
        sums = torch.stack([(column * mask).sum(dtype=torch.float64) for column in columns] + [decision.clamped.double()])
        sums = self.accelerator.reduce(sums, reduction="sum").tolist()
        tokens, up, down, masked, masked_up, masked_down, outside, distance, infinite_count, ratios, kl, bad, clamped = sums
        tokens = max(tokens, 1)
        highest = torch.stack([(column * mask).max().double() for column in (divergence, ratio)])
        highest = self.accelerator.gather(highest).view(-1, 2).amax(0).tolist()
        metrics = {
            "trust_region/masked": masked / tokens, "trust_region/masked_positive": masked_up / max(up, 1),
            "trust_region/masked_negative": masked_down / max(down, 1), "trust_region/outside": outside / tokens,
            "trust_region/bad_updates": bad / tokens,
            "trust_region/divergence_mean": distance / max(tokens - infinite_count, 1), "trust_region/divergence_max": highest[0],
            "trust_region/divergence_infinite": infinite_count, "ratio/mean": ratios / tokens, "ratio/max": highest[1],
            "ratio/clamped": clamped, "policy/kl_behavior": kl / tokens,
        }
        for name, value in metrics.items():
            self._metrics["train" if self.model.training else "eval"][name].append(value)


def _parts(batch, size):
    """Splits a batch into parts of `size` sequences with the inputs of a forward pass."""
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "pixel_values", "num_images")
    for begin in range(0, len(batch["completion_ids"]), size):
        yield {name: batch[name][begin:begin + size] for name in names if name in batch}
