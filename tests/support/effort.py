"""How much the tests do: what finds faults within minutes (`make test`), or all of it (`make test-full`)."""

import os

FULL = os.environ.get("KEEL_TEST_FULL", "") not in ("", "0")


def count(short, full):
    """How many of something a test does; never another kind of thing."""
    return full if FULL else short
