"""What KeelGRPOTrainer refuses of a method and of TRL's settings, before anything is loaded: what it would not do as said."""

from importlib import metadata

import torch

from .. import methods, token_coefficients

TESTED = ((1, 16), (1, 17))  # from, before
AVERAGES = ("grpo", "bnpo", "dr_grpo", "dapo")  # what TRL's loss_type still says here
CLIPS = ("grpo", "grpo_clip_higher", "dr_grpo", "dapo", "ppo")  # the rows that are the clip of TRL's own loss


def require_version() -> None:
    try:
        version = metadata.version("trl")
    except metadata.PackageNotFoundError:
        raise ImportError("keel.trl needs TRL, which is not installed: pip install 'trl>=1.16,<1.17'") from None
    from packaging.version import Version  # TRL's own packages bring it
    if not TESTED[0] <= Version(version).release[:2] < TESTED[1]:
        raise ImportError(f"TRL {version} is installed; keel.trl is tested with TRL from 1.16 to before 1.17, and relies on how its GRPOTrainer "
                          "makes the loss: pip install 'trl>=1.16,<1.17'")


def check_method(method, parameters, anchor, sampler_speaks):
    """Whether the row can be decided with what TRL knows about a token."""
    table = methods()
    if method not in table:
        raise ValueError(f"method is {method!r}; known: {', '.join(table)}")
    if anchor not in (None, "behavior", "recomputed"):
        raise ValueError(f"anchor is {anchor!r}; expected 'behavior' (the sampler's log-probabilities), 'recomputed' (the trainer's own), or None")
    if "anchor" in (parameters or {}):
        raise ValueError("parameters has an anchor; expected it as the trainer's argument of that name")
    needs = table[method]["requirements"]
    if needs["top_k"] and sampler_speaks and anchor != "recomputed":
        raise ValueError(f"method {method} needs the sampler's likeliest tokens, and TRL keeps the log-probability of the sampled one alone (it "
                         "asks vLLM for logprobs=0): set anchor='recomputed', which takes them from the trainer's own model, or take dppo_tv")
    reasons = {
        "hidden_states": "the sampler's hidden states, which TRL does not have: take dppo_tv",
        "reference_logp": "the reference model in its coefficient, which TRL adds to the loss instead (beta)",
    }
    for name, reason in reasons.items():
        if needs[name]:
            raise ValueError(f"method {method} needs {reason}")
    if table[method]["advantage"] == "gae":
        raise ValueError(f"method {method} needs a critic, which TRL's GRPOTrainer does not have: take ppo")
    if needs["scope"] == "batch":
        raise ValueError(f"method {method} decides over a whole update, and TRL's loss sees a micro-batch of one process: take a row of token or "
                         "sequence scope (keel.methods()[name]['requirements']['scope'])")
    if anchor == "behavior" and not sampler_speaks:
        raise ValueError("anchor='behavior' wants the sampler's log-probabilities, and transformers' generate gives none: set use_vllm=True, give a "
                         "rollout_func that returns 'logprobs', or leave anchor out to take the trainer's own at the weights that sampled")
    if needs["recomputed_logp"]:
        if anchor == "recomputed" or not sampler_speaks:
            raise ValueError(f"method {method} sets the sampler's log-probabilities against the trainer's own, and here is no sampler that gives any: "
                             "set use_vllm=True or give a rollout_func that returns 'logprobs', and leave anchor out")
    one = torch.tensor([-1.0])
    likeliest = dict(topk_behavior_logp=one[:, None], topk_logp=one[:, None], sampled_in_topk=[True]) if needs["top_k"] else {}
    token_coefficients(method, parameters, logp=one, behavior_logp=one, advantages=one, old_logp=one, **likeliest)  # names and values of parameters


def with_epsilon(method, parameters, args):
    """A ratio clip's bounds are its parameters, else TRL's where they are not its defaults, else the row's."""
    if method not in CLIPS:
        return parameters
    row = methods()[method]["parameters"]
    bounds = {"low": row["low"], "high": row["high"]}
    if args is not None and (args.epsilon, args.epsilon_high) != (0.2, None):
        bounds = {"low": args.epsilon, "high": args.epsilon if args.epsilon_high is None else args.epsilon_high}
        for name, value in bounds.items():
            if parameters.get(name, value) != value:
                raise ValueError(f"parameters has {name}={parameters[name]}, and epsilon and epsilon_high make it {value}; keep one of them")
    return {**bounds, **parameters}


def clips_like_trl(method, parameters):
    """Whether TRL's own clip blocks exactly the tokens that the method blocks. Not with a second bound."""
    return method in CLIPS and parameters.get("dual") is None and parameters.get("ratio_cap") is None


def check_arguments(args, method, anchor):
    """Settings of GRPOConfig that would not do what they say."""
    def refuse(name, reason):
        raise ValueError(f"{name}={getattr(args, name)!r} with method {method!r}: {reason}")

    if args.loss_type not in AVERAGES:
        refuse("loss_type", f"it is a method in TRL; here the method is `method`, and loss_type only says how tokens are averaged: {', '.join(AVERAGES)}")
    if args.importance_sampling_level != "token":
        refuse("importance_sampling_level", "the method says what its ratios are of: method='gspo' is the clip of whole sequences")
    if method not in CLIPS and (args.epsilon, args.epsilon_high) != (0.2, None):
        own = ", ".join(f"{name!r}: {value}" for name, value in methods()[method]["parameters"].items())
        refuse("epsilon" if args.epsilon != 0.2 else "epsilon_high", f"it has thresholds of its own: parameters={{{own}}}")
    if args.delta is not None:
        refuse("delta", "the second bound is a parameter of the rows that have it: parameters={'dual': ...}")
    if args.off_policy_mask_threshold is not None:
        refuse("off_policy_mask_threshold", "it would go by the sign of the coefficient: take method='ds_v32'")
    if args.beta != 0 and args.use_bias_correction_kl:
        refuse("use_bias_correction_kl", "the KL would be weighted by a ratio that is 1 here: set use_bias_correction_kl=False, or beta=0")
    if args.use_vllm and anchor != "recomputed":
        for name, default in (("top_p", 1.0), ("top_k", 0), ("min_p", None), ("repetition_penalty", 1.0)):
            if getattr(args, name) != default:
                refuse(name, "the sampler would report another distribution than the one that is trained: leave it out, or set anchor='recomputed'")
        for name, default in (("vllm_importance_sampling_mode", "sequence_mask"), ("vllm_importance_sampling_clip_max", 3.0),
                              ("vllm_importance_sampling_clip_min", None)):
            if getattr(args, name) != default:
                refuse(name, "the ratio to the sampler's log-probabilities takes that correction's place: leave it out, or set anchor='recomputed'")


def check_sampled(completion_ids, logprobs, method, anchor, needs_recomputed):
    """What the sampler said about its tokens, before the first step."""
    if logprobs is None:
        if anchor == "behavior" or needs_recomputed:
            wanting = "anchor='behavior'" if anchor == "behavior" else f"method {method}"
            raise ValueError(f"the completions came without the sampler's log-probabilities, which {wanting} needs: have rollout_func return them as "
                             "'logprobs', or set use_vllm=True")
        return
    for i, (ids, values) in enumerate(zip(completion_ids, logprobs)):
        if len(ids) != len(values):
            raise ValueError(f"completion {i} has {len(ids)} tokens and {len(values)} log-probabilities of the sampler's; expected one for each")


def check_text_alone(batch, method):
    """The likeliest tokens come from a forward pass of our own, which is given token ids."""
    for name in ("pixel_values", "num_images"):
        if batch.get(name) is not None:
            raise ValueError(f"method {method} needs the likeliest tokens of a model that is given images ({name}), which is not supported: take dppo_tv")


def dropout_of(module):
    """The shares of units that a module leaves out, by attribute: torch's own modules, and numbers that are given to torch's functions."""
    if isinstance(module, torch.nn.modules.dropout._DropoutNd):
        return {"p": module.p}
    return {name: value for name, value in vars(module).items() if "drop" in name and isinstance(value, float)}


def check_dropout(model, method):
    """The likeliest tokens' probabilities and the sampled one's come from two forward passes, which must be of one network."""
    for name, module in model.named_modules():
        for attribute, share in dropout_of(module).items():
            if share > 0:
                raise ValueError(f"the model has dropout ({name}.{attribute}: {share}), and method {method} sets probabilities of one forward pass "
                                 "beside those of another, in which other units are left out: set disable_dropout=True in GRPOConfig, and to 0 "
                                 "what the model's configuration has of dropout, attention_dropout, layerdrop and the like, and an adapter's "
                                 "lora_dropout, or take dppo_tv")


def anchor_in_words(anchor, sampler_speaks):
    return "the sampler's, where it gives them" if sampler_speaks and anchor != "recomputed" else "recomputed at the weights that sampled"
