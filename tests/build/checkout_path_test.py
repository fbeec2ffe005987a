"""Which rooms a library has does not go by where the checkout lies: folders above it may be named as rooms are."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    with tempfile.TemporaryDirectory() as temporary:
        checkout = pathlib.Path(temporary).resolve() / "keel/core/data/keel"
        for part in ("cmake", "keel", "python"):
            shutil.copytree(ROOT / part, checkout / part)
        shutil.copy(ROOT / "CMakeLists.txt", checkout)
        torch = subprocess.run(["cmake", "-P", ROOT / "cmake/TorchFolder.cmake"], text=True, capture_output=True, check=True)
        done = subprocess.run(["cmake", "-S", checkout, "-B", checkout / "build", "-G", "Ninja", f"-DKEEL_TORCH={torch.stdout.strip()}",
                               "-DKEEL_PROGRAM=OFF", "-DKEEL_UNITY=ON"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\ncmake ended with {done.returncode}")
        for library, has, has_not in (("keel_base_plain", "keel/core/", "keel/objective/"), ("keel_base", "keel/objective/", "keel/model/")):
            included = "".join(file.read_text() for file in (checkout / "build/rooms" / library).iterdir())
            if f"{checkout}/{has}" not in included or f"{checkout}/{has_not}" in included:
                sys.exit(f"{library} in a checkout below keel/core: wanted {has} and not {has_not} in it")
    print("a checkout below folders named as rooms are has the same libraries")


if __name__ == "__main__":
    main()
