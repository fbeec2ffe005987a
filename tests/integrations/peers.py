"""What the tests of Keel inside other trainers share. They need the peer that they name (tests/parity/packages.py), and are
skipped without it; `make test-integrations` brings it in and runs them at full length."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("parity", "python", "support"):
    sys.path.append(str(ROOT / "tests" / folder))
from packages import count, skip, use  # noqa: E402, F401
from support import close, run  # noqa: E402, F401
