"""Which verl this is for, and which rows of the table it can run."""

import functools

import keel

OLDEST, NEWEST = "0.9.0", "0.9.1"  # verl's releases between which tests/integrations was run
PREFIX = "keel_"


def require_tested():
    """Raises ImportError where verl is missing or is a release that nobody has tried."""
    try:
        import verl
    except ImportError as error:
        raise ImportError(f"keel.verl needs verl {OLDEST} to {NEWEST}, which cannot be imported here: {error}") from error
    from packaging.version import Version  # verl brings it
    found = Version(verl.__version__)
    if found.is_devrelease or not Version(OLDEST).release <= found.release <= Version(NEWEST).release:
        raise ImportError(f"verl is {verl.__version__}; keel.verl is tested with {OLDEST} to {NEWEST}, and what it is given by "
                          f"another may mean something else: pip install 'verl=={NEWEST}', or a newer keel")


def _why_not(needs):
    """Why verl cannot give a row what it needs; empty where it can."""
    if needs["scope"] == "batch":
        return ("it weighs all tokens of an update together, and verl hands a loss one micro-batch of one rank at a time")
    if needs["top_k"]:
        return ("it looks at the sampler's likeliest tokens, and verl hands a loss the log-prob of the sampled token alone "
                "(its rollout records no others)")
    if needs["hidden_states"]:
        return "it measures over the whole vocabulary, and verl hands a loss the log-prob of the sampled token alone"
    if needs["reference_logp"]:
        return "it looks at a reference model, and verl keeps that for its own KL (actor.use_kl_loss)"
    return ""


@functools.lru_cache(maxsize=None)
def _table():
    return keel.methods()


def rows():
    """The rows that verl can run, by the name it knows them by (`keel_dppo_tv`)."""
    return {PREFIX + name: row for name, row in _table().items() if not _why_not(row["requirements"])}


def refused():
    """The rows that it cannot run, with the reason."""
    reasons = {PREFIX + name: _why_not(row["requirements"]) for name, row in _table().items()}
    return {name: reason for name, reason in reasons.items() if reason}


def row_of(loss_mode):
    """The row behind a loss_mode; ValueError with the reason where there is none."""
    if loss_mode in rows():
        return rows()[loss_mode]
    if loss_mode in refused():
        raise ValueError(f"policy_loss.loss_mode is {loss_mode}, which verl cannot run: {refused()[loss_mode]}")
    raise ValueError(f"policy_loss.loss_mode is {loss_mode!r}; expected one of Keel's: {', '.join(sorted(rows()))}")
