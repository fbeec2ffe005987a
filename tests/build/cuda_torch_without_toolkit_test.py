"""A CUDA build of torch on a machine without the CUDA toolkit must configure, build and run on the CPU, for any path of the checkout. If
the installed torch is a CPU build, the test creates a package folder that looks like a CUDA build. It has the real headers and
libraries, and a libtorch_cuda.so and a libc10_cuda.so with an undefined symbol; they need a library that only their own run path finds,
as the real ones need cuBLAS. nvcc is hidden."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(small LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
include(CMakeDependentOption)
include(${KEEL}/cmake/Torch.cmake)
include(${KEEL}/cmake/Cuda.cmake)
message(STATUS "torch has CUDA: ${KEEL_TORCH_HAS_CUDA}, kernels linked: ${KEEL_CUDA}")
add_executable(small small.cpp)
target_link_libraries(small PRIVATE keel::torch)
"""

# A small header: <ATen/ATen.h> would take most of the test's time.
PROGRAM = """
#include <ATen/ops/full.h>
#include <iostream>
int main() { std::cout << at::full({3, 4}, 2.0).sum().item<float>() << std::endl; }
"""


def run(*command, **options):
    """Runs a command and returns its output; fails the test with the output on an error."""
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=os.environ | options.pop("env", {}), **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stdout}\nended with {done.returncode}")
    return done.stdout


def real_torch():
    """The torch package this repository builds with."""
    folder = run("cmake", "-P", ROOT / "cmake/TorchFolder.cmake").strip()
    if not folder:
        sys.exit("no LibTorch was found; run scripts/bootstrap.sh")
    return pathlib.Path(folder)


def shared_library(path, source, *flags):
    path.parent.mkdir(parents=True, exist_ok=True)
    run("g++", "-x", "c++", "-", "-x", "none", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-o", path, *flags,
        input=source)


def with_cuda(torch, folder):
    """A package folder like `torch`, but of a CUDA build, in pip's layout."""
    package = folder / "site-packages/torch"
    blas = folder / "site-packages/nvidia/lib/libfake_cublas.so.13"
    (package / "lib").mkdir(parents=True)
    (package / "include").symlink_to(torch / "include")
    for library in (torch / "lib").iterdir():
        (package / "lib" / library.name).symlink_to(library)
    shared_library(blas, 'extern "C" int fake_gemm() { return 7; }')
    for name in ("libc10_cuda.so", "libtorch_cuda.so"):
        # Bound lazily, so that only the linker, not the loader, could reject the undefined function.
        source = """
            extern "C" int fake_gemm();
            extern "C" int fake_driver_call();
            extern "C" int %s() { return fake_gemm() + fake_driver_call(); }
        """ % name.replace(".", "_")
        shared_library(package / "lib" / name, source, blas, "-Wl,-z,lazy", "-Wl,-rpath,$ORIGIN/../../nvidia/lib")
    return package


def check(condition, what, output):
    if not condition:
        sys.exit(f"{what}\n{output}")


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        torch = real_torch()
        if not (torch / "lib/libtorch_cuda.so").exists():
            torch = with_cuda(torch, folder)
        options = ["-G", "Ninja", f"-DKEEL_TORCH={torch}", "-DKEEL_NVCC=OFF"]
        no_toolkit = {"env": {"KEEL_TORCH": "", "CUDA_HOME": "", "CUDA_PATH": "", "LD_LIBRARY_PATH": ""}}

        small = folder / "small"
        small.mkdir()
        (small / "CMakeLists.txt").write_text(PROJECT)
        (small / "small.cpp").write_text(PROGRAM)
        output = run("cmake", "-S", small, "-B", small / "build", f"-DKEEL={ROOT}", *options, **no_toolkit)
        check("torch has CUDA: ON, kernels linked: OFF" in output, "not recognised as a CUDA build without kernels", output)
        run("cmake", "--build", small / "build", **no_toolkit)
        needed = run("readelf", "-d", small / "build/small")
        check("libtorch_cuda.so" in needed, "the program does not load libtorch_cuda: it would never see a GPU", needed)
        output = run(small / "build/small", **no_toolkit)
        check(output.strip() == "24", "the sum of twelve twos came out wrong", output)

        # In a checkout below folders with names of modules: the set of library sources must not depend on the checkout path.
        checkout = folder / "keel/core/data/keel"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".deps", "build*", "runs", "__pycache__", "docs"))
        shutil.copytree(ROOT / "tests/build", checkout / "tests/build")
        output = run("cmake", "-S", checkout, "-B", folder / "whole", "-DKEEL_UNITY=ON", *options, **no_toolkit)
        check("Generating done" in output and "(CUDA build: ON)" in output, "the whole project does not configure", output)
        for library, has, has_not in (("keel_base_plain", "keel/core/", "keel/objective/"), ("keel_base", "keel/objective/", "keel/model/")):
            included = "".join(file.read_text() for file in (folder / "whole/batches" / library).iterdir())
            check(f"{checkout}/{has}" in included and f"{checkout}/{has_not}" not in included, f"{library} has other sources", included)
    print("a CUDA build of torch works without the toolkit, on the CPU")


if __name__ == "__main__":
    main()
