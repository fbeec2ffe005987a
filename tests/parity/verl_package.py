"""The parts of verl 0.9.1 that are compared with; ends the test with 77 where verl is not there.

Importing its losses takes neither its requirements, those of a training cluster, nor ray (240 MB), for which an empty
module stands in.
"""

import importlib
import importlib.util
import sys
import types

from packages import ROOT, skip, use  # noqa: F401  ROOT for who imports this

use("verl")
try:
    import torch  # noqa: F401  verl imports both
    import transformers  # noqa: F401
except ImportError as missing:
    skip(missing)


def import_verl():
    if importlib.util.find_spec("ray") is None:
        ray = types.ModuleType("ray")
        ray.ObjectRef = object  # named in an annotation of verl/protocol.py
        sys.modules["ray"] = ray
    names = ("trainer.ppo.core_algos", "trainer.ppo.rollout_corr_helper", "trainer.config", "workers.config")
    return tuple(importlib.import_module(f"verl.{name}") for name in names)


algos, correction, trainer_config, worker_config = import_verl()
