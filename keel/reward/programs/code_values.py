"""Serialises values between a program under test and its test runner, two interpreters that exchange lines of JSON.

Both run this file first, then their own (code_program.py, code_test_runner.py). None, booleans, strings, floats, lists and 64-bit integers
are plain JSON; other values are an object with one key, their type. The reader builds plain values of its own types, so that the other
side can only send data, not redefined equality or classes.
"""

import collections
import itertools
import json
import os
import sys
from operator import is_

# Mutable containers. The contents of a dictionary are pairs.
CONTAINERS = {kind.__name__: kind for kind in (list, dict, set, bytearray, collections.deque, collections.OrderedDict, collections.Counter)}
WRITTEN_AS = {**{kind: name for name, kind in CONTAINERS.items()}, collections.defaultdict: "defaultdict"}
SCALARS = (int, float, complex, str, bytes)
TYPES = {kind.__name__: kind for kind in (*SCALARS, bool, tuple, frozenset, range, list, dict, set, bytearray, object, type(None))}
# Types of other modules, with functions that return their constructor arguments.
STANDARD = {
    "Fraction": ("fractions", lambda x: (x.numerator, x.denominator)),
    "Decimal": ("decimal", lambda x: (str(x),)),
    "date": ("datetime", lambda x: (x.year, x.month, x.day)),
    "time": ("datetime", lambda x: (x.hour, x.minute, x.second, x.microsecond)),
    "datetime": ("datetime", lambda x: (x.year, x.month, x.day, x.hour, x.minute, x.second, x.microsecond)),
    "timedelta": ("datetime", lambda x: (x.days, x.seconds, x.microseconds)),
}
ARRAYS = "biufcUS"  # NumPy dtype kinds of numbers and strings


class Channel:
    """Lines over the original standard input and output. Later output of print is discarded."""

    def __init__(self):
        self.lines, self.out = os.fdopen(os.dup(0), "rb"), os.dup(1)
        devnull = os.open(os.devnull, os.O_RDWR)
        os.dup2(devnull, 0), os.dup2(devnull, 1), os.close(devnull)

    def read(self):
        line = self.lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the other side has closed the channel")
        return line

    def write(self, text):
        data = text.encode() + b"\n"
        while data:
            data = data[os.write(self.out, data):]


def base_value(x):
    """Converts an instance of a subclass of a plain type to that type; else returns NotImplemented."""
    for kind in SCALARS:
        if isinstance(x, kind):
            return kind.__getnewargs__(x)[0] if kind is not complex else complex(x.real, x.imag)
    if isinstance(x, (list, tuple)):
        kind = list if isinstance(x, list) else tuple
        return kind.__getitem__(x, slice(None))
    if isinstance(x, dict):
        return dict(dict.items(x))
    return next((kind(kind.__iter__(x)) for kind in (set, frozenset) if isinstance(x, kind)), NotImplemented)


# Exception classes of the standard library that both sides know.
ERRORS = {f"{module}.{name}" for module, names in {
    "asyncio.exceptions": "CancelledError InvalidStateError", "binascii": "Error", "csv": "Error", "dataclasses": "FrozenInstanceError",
    "decimal": "DecimalException DivisionByZero InvalidOperation Inexact Overflow", "graphlib": "CycleError", "json.decoder": "JSONDecodeError",
    "queue": "Empty Full", "re": "error", "statistics": "StatisticsError", "struct": "error", "zlib": "error"}.items() for name in names.split()}


def views(container):
    """The contents as iterables."""
    return (container, container.values()) if isinstance(container, dict) else (container,)


class Shared:
    """Mutable containers that both sides have, by number. Each message lists the changes since the last one, so that a change on one
    side reaches the copy of the other."""

    def __init__(self, first):
        self.next, self.containers, self.numbers, self.unsent = first, {}, {}, []
        self.seen = {}  # contents and size of each after the last message
        self.all_seen = None  # the same of all containers, for a fast comparison

    def add(self, container, number=None):
        """Registers a container under the number of the other side, or a new one. One side uses even numbers, the other odd ones."""
        if number is None:
            number, self.next = self.next, self.next + 2
            self.unsent.append(number)
        elif type(number) is not int or number % 2 == self.next % 2 or number in self.containers:
            raise ValueError(number)
        self.containers[number], self.numbers[id(container)], self.seen[number], self.all_seen = container, number, ([], -1), None
        return number

    def note(self, number):
        """Marks the container as synchronised."""
        container = self.containers[number]
        self.seen[number], self.all_seen = (list(itertools.chain(*views(container))), len(container)), None

    def changed(self):
        if self.all_seen is None:
            self.all_seen = [x for seen, _ in self.seen.values() for x in seen], [size for _, size in self.seen.values()]
        contents, sizes = self.all_seen
        now = [view for container in self.containers.values() for view in views(container)]
        if list(map(len, self.containers.values())) == sizes and all(map(is_, itertools.chain.from_iterable(now), contents)):
            return []
        return [number for number, (seen, size) in self.seen.items() if len(self.containers[number]) != size or
                not all(map(is_, itertools.chain(*views(self.containers[number])), seen))]

    def unreferenced(self):
        """Numbers of containers that only this table references (and the call of getrefcount)."""
        return [number for number in self.containers if sys.getrefcount(self.containers[number]) <= 2]

    def forget(self, numbers):
        for number in numbers:
            container = self.containers.pop(number)
            del self.numbers[id(container)], self.seen[number]
            self.all_seen = None

    def sent(self):
        self.unsent = []

    def not_sent(self):
        """Undoes the registrations of a message that was not sent."""
        self.forget(self.unsent)
        self.unsent = []
        self.seen, self.all_seen = dict.fromkeys(self.containers, ([], -1)), None


class Writer:
    """Converts values to JSON. A container starts with its number; a known one is {"same": number}, so that shared containers stay
    shared. `other` writes unknown values."""

    def __init__(self, other, shared):
        self.other, self.shared = other, shared

    def changes(self):
        """Changes of shared containers. They come before the other parts of a message."""
        return {number: self.filled(number)[1:] for number in self.shared.changed()}

    def filled(self, number):
        x = self.shared.containers[number]
        contents = [[self(k), self(v)] for k, v in x.items()] if isinstance(x, dict) else [self(v) for v in x]
        self.shared.note(number)
        return [number, *contents]

    def __call__(self, x):
        kind = type(x)
        if x is None or kind in (bool, str, float):
            return x
        if kind is int:
            return x if -2**63 < x < 2**63 else {"int": hex(x)}  # decimal conversion is slow and limited
        if kind in WRITTEN_AS:
            if id(x) in self.shared.numbers:
                return {"same": self.shared.numbers[id(x)]}
            written = self.filled(self.shared.add(x))
            if kind is collections.defaultdict:
                return {"defaultdict": [self.write_factory(x.default_factory), written]}
            if kind is collections.deque:
                return {"deque": [x.maxlen, written]}
            return written if kind is list else {WRITTEN_AS[kind]: written}
        if kind in (tuple, frozenset):
            return {kind.__name__: [self(v) for v in x]}
        if kind is bytes:
            return {"bytes": x.hex()}
        if kind is complex:
            return {"complex": [x.real, x.imag]}
        if kind in (range, slice):
            return {kind.__name__: [self(v) for v in (x.start, x.stop, x.step)]}
        return self.write_uncommon(x, kind)

    def write_factory(self, function):
        """Writes a default_factory: a plain type, or a function that is called on this side."""
        plain = any(function is kind for kind in (None, *TYPES.values()))
        return self(function if plain else lambda: function())

    def write_uncommon(self, x, kind):
        if isinstance(x, type) and TYPES.get(x.__name__) is x:
            return {"type": x.__name__}
        module, parts = STANDARD.get(kind.__name__, ("", None))
        if parts and kind is getattr(sys.modules.get(module), kind.__name__, None) and getattr(x, "tzinfo", None) is None:
            return {"standard": [kind.__name__, [self(part) for part in parts(x)]]}
        numpy = sys.modules.get("numpy")
        if isinstance(x, getattr(numpy, "ndarray", ())) and x.dtype.kind in ARRAYS:
            return {"array": [x.dtype.str, list(x.shape), x.tobytes().hex()]}
        if isinstance(x, getattr(numpy, "generic", ())) and x.dtype.kind in ARRAYS:
            return {"number": [x.dtype.str, x.tobytes().hex()]}
        if isinstance(x, tuple) and hasattr(kind, "_fields"):
            return {"named": [kind.__name__, list(kind._fields), [self(v) for v in x]]}
        return self(base_value(x)) if isinstance(x, SCALARS) else self.other(x, self)


class Reader:
    """Converts JSON to values. `other` reads values that only one side writes, by key and content."""

    def __init__(self, other, shared):
        self.other, self.shared = other, shared

    def changes(self, changed):
        for number, contents in changed.items():
            self.fill(int(number), contents)

    def __call__(self, x):
        if type(x) is list:
            return self.new([], x)
        if type(x) is not dict:
            return x
        (key, payload), = x.items()
        if key == "defaultdict":
            return self.new(collections.defaultdict(self(payload[0])), payload[1])
        if key == "deque":
            return self.new(collections.deque(maxlen=payload[0]), payload[1])
        if key in CONTAINERS:
            return self.new(CONTAINERS[key](), payload)
        return getattr(self, "read_" + key)(payload) if hasattr(self, "read_" + key) else self.other(key, payload, self)

    def new(self, container, payload):
        number, *contents = payload
        self.shared.add(container, number)
        return self.fill(number, contents)

    def fill(self, number, contents):
        """Replaces the contents of a container."""
        container = self.shared.containers[number]
        if isinstance(container, dict):
            pairs = [(self(k), self(v)) for k, v in contents]
            container.clear()
            for key, value in pairs:
                container[key] = value
        else:
            values = [self(v) for v in contents]
            container.clear()
            (container.update if isinstance(container, set) else container.extend)(values)
        self.shared.note(number)
        return container

    def read_same(self, number):
        return self.shared.containers[number]

    def read_int(self, digits):
        return int(digits, 16)

    def read_tuple(self, values):
        return tuple([self(v) for v in values])

    def read_frozenset(self, values):
        return frozenset([self(v) for v in values])

    def read_bytes(self, digits):
        return bytes.fromhex(digits)

    def read_complex(self, parts):
        return complex(*map(float, parts))

    def read_range(self, ends):
        return range(*[self(v) for v in ends])

    def read_slice(self, ends):
        return slice(*[self(v) for v in ends])

    def read_type(self, name):
        return TYPES[name]

    def read_standard(self, payload):
        name, parts = payload
        return getattr(__import__(STANDARD[name][0]), name)(*[self(part) for part in parts])

    def read_array(self, payload):
        import numpy
        kind, shape, digits = payload
        if numpy.dtype(kind).kind not in ARRAYS:
            raise ValueError(f"an array of {kind}")
        return numpy.frombuffer(bytes.fromhex(digits), dtype=kind).reshape(shape).copy()

    def read_number(self, payload):
        return self.read_array([payload[0], [], payload[1]])[()]

    def read_named(self, payload):
        name, fields, values = payload
        return collections.namedtuple(name, fields, rename=True)(*[self(v) for v in values])
