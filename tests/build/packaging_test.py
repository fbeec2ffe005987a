"""Packaging: one version everywhere, a valid Dockerfile, `pip install .`, which reports a missing torch at once, and
`cmake --install`. `make test-full` also installs with pip and runs the program and the module."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import venv

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from effort import count  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["KEEL_BINARY"]).parent
OF_TORCH = r"lib(torch|torch_cpu|torch_cuda|c10|c10_cuda)\.so"
OF_THE_COMPILER = r"lib(c|m|pthread|stdc\+\+|gcc_s|gomp|asan|ubsan)\.so\.\d+|ld-linux-.*"
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "ENTRYPOINT"}


SHARED = tempfile.TemporaryDirectory()


def text_of(name):
    return (ROOT / name).read_text()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def needs_of(library):
    """The dynamic section entries of a library: (kind, name)."""
    return re.findall(r"\((NEEDED|RUNPATH|RPATH)\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", library).stdout)


def cuda_run_time_of(torch):
    """The version of the CUDA run-time library in torch; None without CUDA."""
    return {name for library in (torch / "lib").glob("lib*_cuda.so") for _, name in needs_of(library) if name.startswith("libcudart.")}


class Packaging(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def python_with(self, *folders, place=None):
        """A venv whose Python also finds packages in these folders: a new one, or the one that all tests share."""
        place = place or pathlib.Path(SHARED.name) / "venv"
        if not place.exists():
            venv.create(place, with_pip=True)
        site = next(place.glob("lib/python3*/site-packages"))
        (site / "others.pth").write_text("".join(f"{folder}\n" for folder in folders))
        return place / "bin"

    def test_the_version_is_one(self):
        version = re.search(r"^version = \"(.+)\"", text_of("pyproject.toml"), re.M)[1]
        self.assertIn(f"project(keel VERSION {version} ", text_of("CMakeLists.txt"))
        self.assertRegex(text_of("CHANGELOG.md"), rf"^## {re.escape(version)}$|\n## {re.escape(version)}\n")
        result = run(os.environ["KEEL_BINARY"], "--version")
        self.assertTrue(result.stdout.startswith(f"keel {version} "), result.stdout)

    def test_the_dockerfile_can_be_read(self):
        lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text_of("Dockerfile"), flags=re.M)).splitlines()
        words = [line.split() for line in lines if line.strip()]
        self.assertEqual(words[0][0], "FROM")
        self.assertLessEqual({line[0] for line in words}, INSTRUCTIONS)
        self.assertEqual(words[-1][0], "ENTRYPOINT")
        stages = {line[3] for line in words if line[0] == "FROM" and len(line) > 3}
        for line in words:
            if line[0] == "COPY" and line[1].startswith("--from="):
                self.assertIn(line[1].removeprefix("--from="), stages)

    def test_without_torch_an_installation_says_so_at_once(self):
        programs = self.python_with()
        result = run(programs / "pip", "install", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", ROOT)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"has no torch\. Install one first \(pip install 'torch>=2\.11'\)")

    def test_without_wheel_too(self):
        programs = self.python_with(self.folder / "others")
        run(programs / "pip", "uninstall", "--yes", "wheel")
        (self.folder / "others" / "torch").mkdir(parents=True)
        (self.folder / "others" / "torch" / "__init__.py").touch()
        if run(programs / "python", "-c", "import setuptools.command.bdist_wheel").returncode == 0:
            self.skipTest("this Python's setuptools brings it")
        result = run(programs / "pip", "install", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", ROOT)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("has no wheel. Install it first (pip install wheel)", result.stdout)

    def test_a_word_that_is_no_choice_of_what_is_built_is_refused_at_once(self):
        programs = self.python_with(pathlib.Path(os.environ["KEEL_TORCH"]).parent)
        result = run(programs / "pip", "install", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", ROOT,
                     env={**os.environ, "KEEL_PROGRAM": "no"})
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stdout, "KEEL_PROGRAM is 'no'; expected ON, or OFF")

    def test_the_module_has_all_sources_that_it_stands_on(self):
        """keel_base, the only library of the project that CMake links to the module, has the source of every header that its sources
        include, directly or indirectly."""
        chosen = dict(re.findall(r'list\(FILTER base_sources (INCLUDE|EXCLUDE) REGEX "(.+)"\)', text_of("CMakeLists.txt")))
        todo, seen = [str(file.relative_to(ROOT)) for file in (ROOT / "python").glob("*.cpp")], set()
        while todo:
            file = todo.pop()
            if file in seen or not (ROOT / file).exists():
                continue
            seen.add(file)
            if file.startswith("keel/") and file.endswith(".cpp"):
                self.assertRegex(file, chosen["INCLUDE"])
                self.assertNotRegex(file, chosen["EXCLUDE"])
            for included in re.findall(r'#include "((?:keel|python)/[^"]+)\.h"', text_of(file)):
                todo += [f"{included}.h", f"{included}.cpp"]
        self.assertGreater(len(seen), 60)

    def assert_needs_torch_alone(self, library):
        """A wheel works on other machines if its library only needs torch's and system libraries, searched next to torch."""
        entries = needs_of(library)
        needed = {name for kind, name in entries if kind == "NEEDED"} - cuda_run_time_of(pathlib.Path(os.environ["KEEL_TORCH"]))
        self.assertIn("libtorch_cpu.so", needed)
        self.assertEqual({name for name in needed if not re.fullmatch(f"{OF_TORCH}|{OF_THE_COMPILER}", name)}, set())
        folders = [folder for kind, names in entries if kind != "NEEDED" for folder in names.split(":")]
        self.assertEqual(folders[0], "$ORIGIN/../torch/lib")
        self.assertNotIn("", folders)  # the loader would treat an empty entry as the working directory
        self.assertNotRegex(" ".join(folders), "pyarrow")

    def test_the_module_needs_torch_alone(self):
        self.assert_needs_torch_alone(BUILD / "python" / "keel" / "libkeel_ops.so")

    @unittest.skipUnless(count(False, True), "it recompiles the module: make test-full")
    def test_pip_installs_the_module_alone_where_it_is_told_to(self):
        programs = self.python_with(pathlib.Path(os.environ["KEEL_TORCH"]).parent, place=self.folder / "venv")
        run(programs / "pip", "install", "--upgrade", "--disable-pip-version-check", "setuptools", "wheel")
        result = run(programs / "pip", "install", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", ROOT,
                     env={**os.environ, "KEEL_PROGRAM": "OFF"})
        self.assertEqual(result.returncode, 0, result.stdout)
        result = run(programs / "python", "-c", "import keel; print(len(keel.methods()))", cwd=self.folder)
        self.assertGreater(int(result.stdout.split()[-1]), 50, result.stdout)
        self.assert_needs_torch_alone(next(programs.parent.glob("lib/python3*/site-packages/keel/libkeel_ops.so")))
        result = run(programs / "keel", "methods", cwd=self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("installed without the program (KEEL_PROGRAM=OFF)", result.stdout)

    @unittest.skipUnless(count(False, True), "it recompiles everything: make test-full")
    def test_pip_installs_the_program_and_the_module(self):
        torch = pathlib.Path(os.environ["KEEL_TORCH"])
        programs = self.python_with(torch.parent, place=self.folder / "venv")
        run(programs / "pip", "install", "--upgrade", "--disable-pip-version-check", "setuptools", "wheel")
        result = run(programs / "pip", "install", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", ROOT)
        self.assertEqual(result.returncode, 0, result.stdout)
        result = run(programs / "keel", "methods", "dppo_tv", cwd=self.folder)
        self.assertIn("blocked", result.stdout)
        result = run(programs / "python", "-c", "import keel; print(len(keel.methods()))", cwd=self.folder)
        self.assertGreater(int(result.stdout.split()[-1]), 50, result.stdout)
        self.assert_needs_torch_alone(next(programs.parent.glob("lib/python3*/site-packages/keel/libkeel_ops.so")))

    def test_cmake_installs_them_too(self):
        result = run("cmake", "--install", BUILD, "--prefix", self.folder / "there")
        self.assertEqual(result.returncode, 0, result.stdout)
        result = run(self.folder / "there" / "bin" / "keel", "methods", "drpo")
        self.assertIn("delta", result.stdout)
        for file in ("bash-completion/completions/keel", "zsh/site-functions/_keel", "fish/vendor_completions.d/keel.fish"):
            self.assertIn("run.precision=", (self.folder / "there" / "share" / file).read_text())
        if "KEEL_SANITIZE:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text():
            return  # a Python without the sanitizers cannot load the module
        result = run(os.environ["KEEL_PYTHON"], "-c", "import keel; print(keel.__file__)",
                     env={**os.environ, "PYTHONPATH": str(self.folder / "there" / "lib" / "keel" / "python")})
        self.assertIn(str(self.folder), result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
