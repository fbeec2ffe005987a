"""Conversion of arguments to those of the operators. Invalid ones raise a ValueError with name, value and expected type.

These functions read no tensor values and compare no floats: torch.compile traces them and would specialise the compiled
code to those values. The operators check values.
"""

from collections.abc import Mapping

import torch

_NO_LIMIT = float("inf")  # None in the operators


def refuse(name, value, expected):
    text = repr(value)
    text = text if len(text) <= 80 else text[:77] + "..."
    type_note = "" if value is None else f", a {type(value).__name__}"
    raise ValueError(f"{name} is {text}{type_note}; expected {expected}")


def string(name, value, expected):
    if not isinstance(value, str):
        refuse(name, value, expected)
    return value


def tensor(name, value):
    """The tensor detached, since no gradient flows through decisions."""
    if not isinstance(value, torch.Tensor):
        refuse(name, value, "a torch tensor")
    return value.detach()


def rows_as_sequences(shape, padded, lengths):
    """Flattens padded tensors [B, T] into B sequences of T tokens; returns them by name, and the lengths. The mask marks the
    padding. Advantages may be per row, [B] or [B, 1]; top-K log-probs are [B, T, K]."""
    if lengths is not None:
        raise ValueError("lengths are for flat tensors; use mask for padded tensors [B, T]")
    rows, width = shape

    def flat(name, value):
        if not isinstance(value, torch.Tensor):
            value = _as_tensor(name, value, "a tensor [B, T]")
        if name == "advantages" and value.dim() < 3 and value.shape in ((rows,), (rows, 1)):
            value = value.reshape(rows, 1).expand(rows, width)
        if value.shape[:2] != shape:
            raise ValueError(f"{name} is {list(value.shape)}, but logp is {list(shape)}; expected the same [B, T]"
                             + (", or one value per row" if name == "advantages" else ""))
        return value.reshape(rows * width, *value.shape[2:])

    flattened = {name: None if value is None else flat(name, value) for name, value in padded.items()}
    return flattened, torch.full((rows,), width, dtype=torch.int64)


def optional_tensor(name, value):
    return None if value is None else tensor(name, value)


def _as_tensor(name, value, expected):
    if isinstance(value, torch.Tensor):
        return value.detach()
    if not isinstance(value, (list, tuple, range)) and not hasattr(value, "__array__"):
        refuse(name, value, expected)
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        refuse(name, value, expected)


def flags(name, value, like):
    """Booleans, or 0 and 1, one per token. A list is moved to the device of `like`."""
    if value is None:
        return None
    result = _as_tensor(name, value, "booleans, or 0 and 1, one per token")
    return result if isinstance(value, torch.Tensor) else result.to(like.device)


def integers(name, value):
    """Integers, one per sequence."""
    if value is None:
        return None
    result = _as_tensor(name, value, "integers, one per sequence")
    return result if result.numel() else result.to(torch.int64)  # torch makes an empty list float32


def number(name, value, expected):
    if isinstance(value, (float, torch.SymFloat)):
        return value
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            refuse(name, value, expected)
    is_tensor = isinstance(value, torch.Tensor)
    is_scalar = value.numel() == 1 and not value.is_meta if is_tensor else getattr(value, "shape", None) == ()  # NumPy's
    if is_scalar and hasattr(value, "item"):
        return number(name, value.item(), expected)
    refuse(name, value, expected)


def as_tensor(*numbers):
    """Floats as a CPU tensor. The products keep torch.compile from specialising the code to the floats."""
    one = torch.ones((), dtype=torch.float64)
    return torch.stack([one * value for value in numbers]) if numbers else torch.empty(0, dtype=torch.float64)


def optional_number(name, value, expected):
    """As a tensor of one element, or None."""
    return None if value is None else as_tensor(number(name, value, expected))


def parameters(params):
    """Splits a method's parameters into names and a tensor of numbers (None: infinite), and names and strings."""
    names, numbers, string_names, strings = [], [], [], []
    if params is None:
        return names, as_tensor(), string_names, strings
    if not isinstance(params, Mapping):
        refuse("params", params, "a dict from parameter names to values")
    for name, value in params.items():
        if not isinstance(name, str):
            refuse("a name in params", name, "a string")
        if isinstance(value, (str, bool)):
            string_names.append(name)
            strings.append(value if isinstance(value, str) else "true" if value else "false")
        else:
            names.append(name)
            numbers.append(_NO_LIMIT if value is None else number(
                f"the parameter {name!r}", value, "a number, a string, or None for no limit"))
    return names, as_tensor(*numbers), string_names, strings
