"""Size of the tests: short (`make test`, minutes) or full (`make test-full`)."""

import os

FULL = os.environ.get("KEEL_TEST_FULL", "") not in ("", "0")


def count(short, full):
    """Returns the value for short or for full tests."""
    return full if FULL else short
