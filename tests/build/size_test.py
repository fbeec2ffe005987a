"""Limits on the size of the code, counted as scripts/size.sh counts it."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 500  # of a file
LIMITS = {"keel/compat": 2300, "libs/hftext + libs/mathverify": 22700}
CODE = {".h", ".cpp", ".cu", ".cuh", ".py", ".js", ".mjs", ".css", ".html", ".sh"}


def tracked(*folders):
    """The files that git tracks below the folders, relative to the repository root."""
    output = subprocess.run(["git", "ls-files", "-z", "--", *folders], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    return [pathlib.PurePosixPath(name) for name in output.split("\0") if name and (ROOT / name).is_file()]


def lines_of(path):
    return (ROOT / path).read_bytes().count(b"\n")


class Size(unittest.TestCase):
    def test_size_sh_counts_what_python_counts(self):
        output = subprocess.run([ROOT / "scripts/size.sh"], stdout=subprocess.PIPE, check=True, text=True).stdout
        printed = {name: int(lines) for lines, name in re.findall(r"^ *(\d+)  (.+)$", output, re.MULTILINE)}
        code = [path for path in tracked() if path.suffix in CODE]
        library_tests = [path for path in code if path.parts[0] == "libs" and path.parts[2] == "tests"]
        tests = [path for path in code if path.parts[0] == "tests"] + library_tests
        product = [path for path in code if path.parts[0] in ("keel", "libs", "cli", "python", "sandbox") and path not in library_tests]
        self.assertEqual(printed["tests"], sum(map(lines_of, tests)))
        self.assertEqual(printed["keel + libs + cli + python + sandbox"], sum(map(lines_of, product)))
        self.assertEqual(printed["total"], sum(map(lines_of, code)))

    def test_modules_stay_below_their_limits(self):
        for modules, limit in LIMITS.items():
            files = [path for path in tracked(*modules.split(" + ")) if path.suffix != ".md" and "tests" not in path.parts]
            with self.subTest(modules):
                self.assertLessEqual(sum(map(lines_of, files)), limit)

    def test_the_fuzz_targets_are_built_from_files_that_exist(self):
        paths = re.findall(r"(?:keel|libs|cli|fuzz)/[\w/.*!\[\]]+\.cpp", (ROOT / "fuzz/build.sh").read_text())
        self.assertEqual([path for path in paths if not any(ROOT.glob(path))], [])
        self.assertGreater(len(paths), 30)

    def test_no_file_is_too_long(self):
        too_long = {str(path): lines_of(path) for path in tracked() if path.suffix in CODE and lines_of(path) > MAX_LINES}
        self.assertEqual(too_long, {})


if __name__ == "__main__":
    if not (ROOT / ".git").exists():
        print("skipped: this is not a git checkout")
        sys.exit(77)
    unittest.main(verbosity=2)
