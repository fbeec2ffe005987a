"""The supported verl versions, and the methods that verl can run."""

import functools

import keel

OLDEST, NEWEST = "0.9.0", "0.9.1"  # verl releases that tests/integrations was run with
PREFIX = "keel_"


def require_tested():
    """Raises ImportError if verl is missing or an untested release."""
    try:
        import verl
    except ImportError as error:
        raise ImportError(f"keel.verl needs verl {OLDEST} to {NEWEST}, which cannot be imported here: {error}") from error
    from packaging.version import Version  # a dependency of verl
    found = Version(verl.__version__)
    if found.is_devrelease or not Version(OLDEST).release <= found.release <= Version(NEWEST).release:
        raise ImportError(f"verl is {verl.__version__}; keel.verl is tested with {OLDEST} to {NEWEST}, and relies on verl internals. Fix: "
                          f"pip install 'verl=={NEWEST}', or a newer keel")


def _unsupported_reason(needs):
    """Why verl cannot run a method with these requirements; empty if it can."""
    if needs["scope"] == "batch":
        return "it needs all tokens of an update, but verl gives a loss one micro-batch of one rank"
    if needs["top_k"]:
        return "it needs the sampler's likeliest tokens, but verl records only the log-prob of the sampled token"
    if needs["hidden_states"]:
        return "it needs the full distribution, but verl gives a loss only the log-prob of the sampled token"
    if needs["reference_logp"]:
        return "it needs a reference model, which verl uses only for its own KL (actor.use_kl_loss)"
    return ""


@functools.lru_cache(maxsize=None)
def _table():
    return keel.methods()


def rows():
    """The methods that verl can run, by their name in verl (`keel_dppo_tv`)."""
    return {PREFIX + name: row for name, row in _table().items() if not _unsupported_reason(row["requirements"])}


def refused():
    """The methods that verl cannot run, with the reason."""
    reasons = {PREFIX + name: _unsupported_reason(row["requirements"]) for name, row in _table().items()}
    return {name: reason for name, reason in reasons.items() if reason}


def method_of(loss_mode):
    """The method of a loss_mode; raises ValueError with the reason if verl cannot run it."""
    if loss_mode in rows():
        return rows()[loss_mode]
    if loss_mode in refused():
        raise ValueError(f"policy_loss.loss_mode is {loss_mode}, which verl cannot run: {refused()[loss_mode]}")
    raise ValueError(f"policy_loss.loss_mode is {loss_mode!r}; expected a Keel loss: {', '.join(sorted(rows()))}")
