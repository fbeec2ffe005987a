"""Brings verl 0.9.1 in for the tests that compare with it; ends the test with 77 where it cannot be had.

Verl comes from the Python that runs this or, once, from PyPI into .deps/verl (23 MB): without its requirements, those
of a training cluster and of another torch, and with the little that importing its losses needs. The losses do not use
ray (240 MB); where it is missing an empty module stands in for it.
"""

import importlib
import importlib.metadata
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".deps" / "verl"
VERSION = "0.9.1"
PACKAGES = (f"verl=={VERSION}", "tensordict==0.10.0", "omegaconf==2.3.1", "antlr4-python3-runtime==4.9.3",
            "codetiming==1.4.0", "cloudpickle==3.1.2", "orjson==3.13.0", "pyvers==0.1.0")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import torch  # noqa: F401  verl imports both
    import transformers  # noqa: F401
except ImportError as missing:
    skip(missing)


# Bringing verl in ----------------------------------------------------------------------------------------------------


def has_verl():
    try:
        return importlib.metadata.version("verl") == VERSION
    except importlib.metadata.PackageNotFoundError:
        return False


def install():
    """Makes .deps/verl unless it is there; its stamp is written last."""
    stamp, wanted = FOLDER / "installed.txt", f"{sys.version_info[:2]} {' '.join(PACKAGES)}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {PACKAGES[0]} into .deps/verl", flush=True)
    partial = FOLDER.with_suffix(".partial")
    for folder in (partial, FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--retries", "1", "--target", str(partial), *PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        skip("verl could not be installed within 300 s")
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        skip(f"verl could not be installed: {(done.stderr.strip() or 'pip failed').splitlines()[-1]}")
    (partial / stamp.name).write_text(wanted)
    partial.rename(FOLDER)


def import_verl():
    if not has_verl():
        install()
        sys.path.insert(0, str(FOLDER))
    if importlib.util.find_spec("ray") is None:
        ray = types.ModuleType("ray")
        ray.ObjectRef = object  # named in an annotation of verl/protocol.py
        sys.modules["ray"] = ray
    names = ("trainer.ppo.core_algos", "trainer.ppo.rollout_corr_helper", "trainer.config", "workers.config")
    return tuple(importlib.import_module(f"verl.{name}") for name in names)


algos, correction, trainer_config, worker_config = import_verl()
