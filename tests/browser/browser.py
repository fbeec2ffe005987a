"""Helpers of the page tests: node runs a script of this folder, which drives a real browser. A test creates its page (or starts a
server), then calls run_script("NAME.mjs", argument, ...). The script imports browser.mjs."""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "cli"))
sys.path.append(str(ROOT / "tests" / "parity"))
import packages  # noqa: E402
import support  # noqa: E402

CHROMIUM = "/usr/bin/chromium"


def require_browser():
    """Skips the test without a browser or its driver."""
    driver = packages.folder_of("browser") / "node_modules" / "playwright-core"
    if not shutil.which("node") or not pathlib.Path(CHROMIUM).exists():
        packages.skip("node or chromium is not there; scripts/bootstrap.sh --tests installs them where they can be had")
    return driver


def run_script(name, *arguments):
    """Runs tests/browser/NAME and prints its output. If it fails, this test exits with 1."""
    driver = require_browser()
    command = ["node", str(ROOT / "tests" / "browser" / name), *map(str, arguments)]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "KEEL_BROWSER": CHROMIUM,
                   "KEEL_BROWSER_DRIVER": str(driver)}
    sys.stdout.flush()
    if subprocess.run(command, env=environment, timeout=support.HANG).returncode:
        sys.exit(1)
