"""Arguments as the operators take them. What cannot be one is a ValueError that says its name, its value and what is wanted.

Nothing here looks at a tensor's numbers or compares a float: torch.compile traces these functions, and both would tie
the compiled code to what it has seen. The operators look.
"""

from collections.abc import Mapping

import torch

_NO_LIMIT = float("inf")  # what the operators take for None


def refuse(name, value, wanted):
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    kind = "" if value is None else f", a {type(value).__name__}"
    raise ValueError(f"{name} is {shown}{kind}; expected {wanted}")


def word(name, value, wanted):
    if not isinstance(value, str):
        refuse(name, value, wanted)
    return value


def tensor(name, value):
    """A tensor as a constant: no gradient flows through a decision."""
    if not isinstance(value, torch.Tensor):
        refuse(name, value, "a torch tensor")
    return value.detach()


def rows_as_sequences(shape, given, lengths):
    """Padded tensors [B, T] as the flat ones of B sequences of T tokens, of which a mask says what is padding: the same
    tensors by name, and the lengths. Advantages may be one per row, [B] or [B, 1]; top-K log-probs are [B, T, K]."""
    if lengths is not None:
        raise ValueError("lengths go with flat tensors; of padded ones [B, T] the mask says which tokens are there")
    rows, width = shape

    def flat(name, value):
        if not isinstance(value, torch.Tensor):
            value = _as_tensor(name, value, "a tensor [B, T]")
        if name == "advantages" and value.dim() < 3 and value.shape in ((rows,), (rows, 1)):
            value = value.reshape(rows, 1).expand(rows, width)
        if value.shape[:2] != shape:
            raise ValueError(f"{name} is {list(value.shape)} beside a logp of {list(shape)}; expected the same [B, T]"
                             + (", or one number per row" if name == "advantages" else ""))
        return value.reshape(rows * width, *value.shape[2:])

    flattened = {name: None if value is None else flat(name, value) for name, value in given.items()}
    return flattened, torch.full((rows,), width, dtype=torch.int64)


def optional_tensor(name, value):
    return None if value is None else tensor(name, value)


def _as_tensor(name, value, wanted):
    if isinstance(value, torch.Tensor):
        return value.detach()
    if not isinstance(value, (list, tuple, range)) and not hasattr(value, "__array__"):
        refuse(name, value, wanted)
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        refuse(name, value, wanted)


def flags(name, value, like):
    """Booleans, or 0 and 1, one per token; a list goes where `like` is."""
    if value is None:
        return None
    given = _as_tensor(name, value, "booleans, or 0 and 1, one per token")
    return given if isinstance(value, torch.Tensor) else given.to(like.device)


def integers(name, value):
    """Integers, one per sequence."""
    if value is None:
        return None
    given = _as_tensor(name, value, "integers, one per sequence")
    return given if given.numel() else given.to(torch.int64)  # an empty list has no type of its own


def number(name, value, wanted):
    if isinstance(value, (float, torch.SymFloat)):
        return value
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            refuse(name, value, wanted)
    is_tensor = isinstance(value, torch.Tensor)
    is_scalar = value.numel() == 1 and not value.is_meta if is_tensor else getattr(value, "shape", None) == ()  # NumPy's
    if is_scalar and hasattr(value, "item"):
        return number(name, value.item(), wanted)
    refuse(name, value, wanted)


def as_tensor(*numbers):
    """Numbers as a tensor of the CPU, made by products: torch.compile keeps a changing number apart from the code it
    compiles only where the number meets a tensor."""
    one = torch.ones((), dtype=torch.float64)
    return torch.stack([one * value for value in numbers]) if numbers else torch.empty(0, dtype=torch.float64)


def optional_number(name, value, wanted):
    """As a tensor of one element, or None."""
    return None if value is None else as_tensor(number(name, value, wanted))


def parameters(params):
    """A method's parameters as names and a tensor of numbers (None: infinite), names and words."""
    names, numbers, word_names, words = [], [], [], []
    if params is None:
        return names, as_tensor(), word_names, words
    if not isinstance(params, Mapping):
        refuse("params", params, "a dict from a parameter's name to its value")
    for name, value in params.items():
        if not isinstance(name, str):
            refuse("a name in params", name, "a string")
        if isinstance(value, (str, bool)):
            word_names.append(name)
            words.append(value if isinstance(value, str) else "true" if value else "false")
        else:
            names.append(name)
            numbers.append(_NO_LIMIT if value is None else number(
                f"the parameter {name!r}", value, "a number, a word, or None for no limit"))
    return names, as_tensor(*numbers), word_names, words
