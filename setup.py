"""`pip install .` builds the program and the module `keel` with CMake for the torch of the installing Python.
`KEEL_PROGRAM=OFF pip install .` builds only the module, much faster."""

import importlib.util
import os
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(ROOT, "build-pip")


def torch_folder():
    """The folder of this Python's torch, found in a subprocess because pip hides installed packages from builds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    script = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    folder = subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True,
                            check=True, cwd=os.path.sep).stdout.strip()
    if not folder:
        sys.exit(f"{sys.executable} has no torch. Install one first (pip install 'torch>=2.11'): keel is compiled against it.")
    return folder


def require_wheel():
    """Requires bdist_wheel: in setuptools from 70.1, else in the package wheel. pip installs it unless --no-build-isolation is set."""
    if not any(importlib.util.find_spec(name) for name in ("wheel", "setuptools.command.bdist_wheel")):
        sys.exit(f"{sys.executable} has no wheel. Install it first (pip install wheel), or remove --no-build-isolation.")


def with_program():
    setting = os.environ.get("KEEL_PROGRAM", "ON")
    if setting not in ("ON", "OFF"):
        sys.exit(f"KEEL_PROGRAM is {setting!r}; expected ON, or OFF for only the Python module.")
    return setting == "ON"


class BuildWithCMake(build_py):
    def run(self):
        super().run()
        for tool in ("cmake", "ninja"):
            if not shutil.which(tool):
                sys.exit(f"{tool} was not found; scripts/bootstrap.sh installs what a build needs.")
        subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DKEEL_TESTS=OFF",
                        "-DKEEL_BENCH=OFF", f"-DKEEL_PROGRAM={'ON' if with_program() else 'OFF'}", f"-DKEEL_TORCH={torch_folder()}"], check=True)
        targets = ["keel_python", "keel_cli"] if with_program() else ["keel_python"]
        subprocess.run(["cmake", "--build", BUILD, "--parallel", os.environ.get("JOBS", "2"), "--target", *targets], check=True)
        for name in ("libkeel_ops.so", "_built_with.py"):
            self.copy_file(os.path.join(BUILD, "python", "keel", name), os.path.join(self.build_lib, "keel", name))
        programs = os.path.join(self.build_lib, "keel", "bin")
        shutil.rmtree(programs, ignore_errors=True)  # of an earlier build
        if with_program():
            os.makedirs(programs)
            self.copy_file(os.path.join(BUILD, "keel"), os.path.join(programs, "keel"))


class CompiledDistribution(Distribution):
    def has_ext_modules(self):  # the wheel is platform-specific
        return True


if not {"sdist", "egg_info"} & set(sys.argv):
    torch_folder()  # report missing packages before the compilation
    with_program()
    require_wheel()
os.makedirs(BUILD, exist_ok=True)
setup(cmdclass={"build_py": BuildWithCMake}, distclass=CompiledDistribution,
      options={"build": {"build_base": os.path.join(BUILD, "setuptools")}, "egg_info": {"egg_base": BUILD}})
