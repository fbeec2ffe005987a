"""Helpers of the tests of Keel inside other trainers. A test is skipped without its peer (tests/parity/packages.py);
`make test-integrations` installs the peers and runs the tests at full length."""

import importlib
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("parity", "python", "support"):
    sys.path.append(str(ROOT / "tests" / folder))
from packages import count, folder_of, skip, use  # noqa: E402, F401
from support import close, refused, run  # noqa: E402, F401


class StandIn(types.ModuleType):
    """A package that others import and that these tests do not use; every attribute of it is a class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}", object)


def stand_in(*names):
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = StandIn(name)
