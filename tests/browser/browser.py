"""What the tests of pages share on the side of Python: a script of this folder is run by node, with a real browser.

A test makes its page (or starts a server), then calls run_script("NAME.mjs", argument, ...). The script imports browser.mjs.
"""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "cli"))
sys.path.append(str(ROOT / "tests" / "parity"))
import packages  # noqa: E402

CHROMIUM = "/usr/bin/chromium"


def require_browser():
    """Without a browser and what drives it the test is over."""
    driver = packages.folder_of("browser") / "node_modules" / "playwright-core"
    if not shutil.which("node") or not pathlib.Path(CHROMIUM).exists():
        packages.skip("node or chromium is not there; scripts/bootstrap.sh --tests installs them where they can be had")
    return driver


def run_script(name, *arguments, seconds=120):
    """Runs tests/browser/NAME; what it prints is printed. Its exit code other than 0 ends the test with 1."""
    driver = require_browser()
    command = ["node", str(ROOT / "tests" / "browser" / name), *map(str, arguments)]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "KEEL_BROWSER": CHROMIUM,
                   "KEEL_BROWSER_DRIVER": str(driver)}
    sys.stdout.flush()
    if subprocess.run(command, env=environment, timeout=seconds).returncode:
        sys.exit(1)
