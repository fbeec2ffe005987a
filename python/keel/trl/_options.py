"""Checks of KeelGRPOTrainer: rejects methods and TRL settings that it cannot apply as set, before anything is loaded."""

from importlib import metadata

import torch

from .. import methods, token_coefficients

TESTED = ((1, 16), (1, 17))  # from, up to but excluding
AGGREGATIONS = ("grpo", "bnpo", "dr_grpo", "dapo")  # TRL loss_type values that only set the aggregation
CLIPS = ("grpo", "grpo_clip_higher", "dr_grpo", "dapo", "ppo")  # the methods that clip as the TRL loss does


def require_version() -> None:
    try:
        version = metadata.version("trl")
    except metadata.PackageNotFoundError:
        raise ImportError("keel.trl needs TRL, which is not installed: pip install 'trl>=1.16,<1.17'") from None
    from packaging.version import Version  # a dependency of TRL
    if not TESTED[0] <= Version(version).release[:2] < TESTED[1]:
        raise ImportError(f"TRL {version} is installed; keel.trl relies on internals of GRPOTrainer and is tested with TRL 1.16 only: "
                          "pip install 'trl>=1.16,<1.17'")


def check_method(method, parameters, anchor, has_sampler_logps):
    """Rejects methods that need inputs TRL does not have."""
    table = methods()
    if method not in table:
        raise ValueError(f"method is {method!r}; known: {', '.join(table)}")
    if anchor not in (None, "behavior", "recomputed"):
        raise ValueError(f"anchor is {anchor!r}; expected 'behavior' (the sampler's log-probabilities), 'recomputed' (the trainer's own), or None")
    if "anchor" in (parameters or {}):
        raise ValueError("anchor is in parameters; pass it as the trainer's argument `anchor`")
    needs = table[method]["requirements"]
    if needs["top_k"] and has_sampler_logps and anchor != "recomputed":
        raise ValueError(f"method {method} needs the sampler's likeliest tokens, but TRL keeps only the log-probability of the sampled token "
                         "(vLLM logprobs=0). Fix: set anchor='recomputed', which takes them from the trainer's model, or use dppo_tv")
    reasons = {
        "hidden_states": "the sampler's hidden states, which TRL does not have: use dppo_tv",
        "reference_logp": "the reference model in its coefficient, which TRL adds to the loss instead (beta)",
    }
    for name, reason in reasons.items():
        if needs[name]:
            raise ValueError(f"method {method} needs {reason}")
    if table[method]["advantage"] == "gae":
        raise ValueError(f"method {method} needs a critic, which TRL's GRPOTrainer does not have: use ppo")
    if needs["scope"] == "batch":
        raise ValueError(f"method {method} needs the whole update, but TRL's loss gets a micro-batch of one process. Fix: use a method of token or "
                         "sequence scope (keel.methods()[name]['requirements']['scope'])")
    if anchor == "behavior" and not has_sampler_logps:
        raise ValueError("anchor='behavior' needs the sampler's log-probabilities, which transformers' generate does not return. Fix: set "
                         "use_vllm=True, pass a rollout_func that returns 'logprobs', or remove anchor to recompute them with the trainer")
    if needs["recomputed_logp"]:
        if anchor == "recomputed" or not has_sampler_logps:
            raise ValueError(f"method {method} compares the sampler's log-probabilities with the trainer's, but the sampler returns none. Fix: "
                             "set use_vllm=True or pass a rollout_func that returns 'logprobs', and remove anchor")
    one = torch.tensor([-1.0])
    likeliest = dict(topk_behavior_logp=one[:, None], topk_logp=one[:, None], sampled_in_topk=[True]) if needs["top_k"] else {}
    token_coefficients(method, parameters, logp=one, behavior_logp=one, advantages=one, old_logp=one, **likeliest)  # rejects bad parameters


def with_epsilon(method, parameters, args):
    """Completes a ratio clip's bounds: from `parameters`, else from TRL's epsilon if changed, else the method's defaults."""
    if method not in CLIPS:
        return parameters
    row = methods()[method]["parameters"]
    bounds = {"low": row["low"], "high": row["high"]}
    if args is not None and (args.epsilon, args.epsilon_high) != (0.2, None):
        bounds = {"low": args.epsilon, "high": args.epsilon if args.epsilon_high is None else args.epsilon_high}
        for name, value in bounds.items():
            if parameters.get(name, value) != value:
                raise ValueError(f"parameters has {name}={parameters[name]}, but epsilon and epsilon_high set {value}; keep one of them")
    return {**bounds, **parameters}


def clips_like_trl(method, parameters):
    """Whether TRL's clip blocks the same tokens as the method, which needs a second bound (`dual`, `ratio_cap`) to be unset."""
    return method in CLIPS and all(parameters.get(name) in (None, "none") for name in ("dual", "ratio_cap"))


def check_arguments(args, method, anchor):
    """Rejects settings of GRPOConfig that would not have their effect."""
    def refuse(name, reason):
        raise ValueError(f"{name}={getattr(args, name)!r} with method {method!r}: {reason}")

    if args.loss_type not in AGGREGATIONS:
        refuse("loss_type", f"it selects a loss in TRL, but here `method` does. Fix: set it to the aggregation, one of {', '.join(AGGREGATIONS)}")
    if args.importance_sampling_level != "token":
        refuse("importance_sampling_level", "the method defines its ratios: method='gspo' clips sequence ratios")
    if method not in CLIPS and (args.epsilon, args.epsilon_high) != (0.2, None):
        thresholds = ", ".join(f"{name!r}: {value}" for name, value in methods()[method]["parameters"].items())
        refuse("epsilon" if args.epsilon != 0.2 else "epsilon_high", f"set its thresholds in parameters: {{{thresholds}}}")
    if args.delta is not None:
        refuse("delta", "TRL's second bound is a parameter here, of the methods that have it: parameters={'dual': ...}")
    if args.off_policy_mask_threshold is not None:
        refuse("off_policy_mask_threshold", "TRL would apply it by the sign of the method's coefficient instead of the advantage: use method='ds_v32'")
    if args.beta != 0 and args.use_bias_correction_kl:
        refuse("use_bias_correction_kl", "the KL would be weighted by a ratio that is 1 here: set use_bias_correction_kl=False, or beta=0")
    if args.use_vllm and anchor != "recomputed":
        for name, default in (("top_p", 1.0), ("top_k", 0), ("min_p", None), ("repetition_penalty", 1.0)):
            if getattr(args, name) != default:
                refuse(name, "the sampler would report another distribution than the trained one: remove it, or set anchor='recomputed'")
        for name, default in (("vllm_importance_sampling_mode", "sequence_mask"), ("vllm_importance_sampling_clip_max", 3.0),
                              ("vllm_importance_sampling_clip_min", None)):
            if getattr(args, name) != default:
                refuse(name, "the ratio to the sampler's log-probabilities replaces this correction: remove it, or set anchor='recomputed'")


def check_sampled(completion_ids, logprobs, method, anchor, needs_recomputed):
    """Checks the sampler's log-probabilities before the first step."""
    if logprobs is None:
        if anchor == "behavior" or needs_recomputed:
            reader = "anchor='behavior'" if anchor == "behavior" else f"method {method}"
            raise ValueError(f"the completions came without the sampler's log-probabilities, which {reader} needs: return them from rollout_func as "
                             "'logprobs', or set use_vllm=True")
        return
    for i, (ids, values) in enumerate(zip(completion_ids, logprobs)):
        if len(ids) != len(values):
            raise ValueError(f"completion {i} has {len(ids)} tokens but {len(values)} sampler log-probabilities; expected one for each")


def check_text_only(batch, method):
    """Rejects images: the top-K forward pass gets only token ids."""
    for name in ("pixel_values", "num_images"):
        if batch.get(name) is not None:
            raise ValueError(f"method {method} does not support images ({name}), since it needs the likeliest tokens: use dppo_tv")


def dropout_probabilities(module):
    """The dropout probabilities of a module by attribute: of torch's dropout modules, and float attributes named *drop*."""
    if isinstance(module, torch.nn.modules.dropout._DropoutNd):
        return {"p": module.p}
    return {name: value for name, value in vars(module).items() if "drop" in name and isinstance(value, float)}


def check_dropout(model, method):
    """Rejects dropout: top-K and sampled probabilities come from two forward passes, which must agree."""
    for name, module in model.named_modules():
        for attribute, probability in dropout_probabilities(module).items():
            if probability > 0:
                raise ValueError(f"the model has dropout ({name}.{attribute}: {probability}), but method {method} compares two forward passes, which would "
                                 "use different dropout masks. Fix: set disable_dropout=True in GRPOConfig and all dropout settings of the model's "
                                 "configuration and adapter (attention_dropout, layerdrop, lora_dropout, ...) to 0, or use dppo_tv")


def describe_anchor(anchor, has_sampler_logps):
    return "the sampler's, if it returns them" if has_sampler_logps and anchor != "recomputed" else "recomputed with the sampling weights"
