"""Limits on the size of the code, counted as in scripts/size.sh, and of the documents; checks that names in documents exist."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 500  # per file
MAX_WORDS = 32000  # in README.md, CONTRIBUTING.md and the hand-written pages of docs/ without methods.md
LIMITS = {"keel/compat": 2300, "libs/hftext + libs/mathverify": 22850}
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

    def test_documents_stay_below_their_limits(self):
        written = [path for path in tracked("docs/**.md", "README.md", "CONTRIBUTING.md") if path.name not in ("methods.md", "configuration.md")]
        self.assertLessEqual(sum(len((ROOT / path).read_text().split()) for path in written), MAX_WORDS)
        self.assertLessEqual(lines_of("README.md"), 150)
        self.assertLessEqual(lines_of("CONTRIBUTING.md"), 200)
        readme = (ROOT / "README.md").read_text().splitlines()
        self.assertEqual([line for line in readme if len(line) > 100 and line[0] not in "|!"], [])

    def test_links_of_documents_lead_to_files_and_headings(self):
        for path in tracked("*.md"):
            prose = re.sub(r"(?ms)^```.*?^```|`[^`\n]*`", "", (ROOT / path).read_text())
            for link, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", prose):
                target = (ROOT / path).parent / link if link else ROOT / path
                with self.subTest(path=str(path), link=link, anchor=anchor):
                    self.assertTrue(target.exists())
                    headings = re.findall(r"(?m)^#+ (.*)$", target.read_text()) if anchor else []
                    self.assertIn(anchor, ["", *(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)])

    def test_the_path_of_a_token_names_functions_that_exist(self):
        steps = re.findall(r"(?m)^\d+\. `([\w:]+)` \(([\w/.]+)\)", (ROOT / "CONTRIBUTING.md").read_text())
        self.assertEqual([step for step in steps if not re.search(rf"\b{step[0]}\b", (ROOT / "keel" / step[1]).read_text())], [])
        self.assertGreater(len(steps), 15)

    def test_no_file_is_too_long(self):
        too_long = {str(path): lines_of(path) for path in tracked() if path.suffix in CODE and lines_of(path) > MAX_LINES}
        self.assertEqual(too_long, {})


if __name__ == "__main__":
    if not (ROOT / ".git").exists():
        print("skipped: this is not a git checkout")
        sys.exit(77)
    unittest.main(verbosity=2)
