"""mkdocs builds the site of docs/ without a warning: every page is in the navigation, every link and anchor has its target."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "parity"))
from packages import folder_of  # noqa: E402

environment = {**os.environ, "PYTHONPATH": str(folder_of("mkdocs")), "NO_MKDOCS_2_WARNING": "1"}
with tempfile.TemporaryDirectory() as site:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site]
    sys.exit(subprocess.run(command, cwd=ROOT, env=environment).returncode)
