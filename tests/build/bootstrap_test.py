"""scripts/bootstrap.sh on fake machines: installed packages, messages, and errors. A machine is a folder of programs, the only one on
PATH: harmless real programs, and replacements of apt-get, dpkg-query, sudo, python3 and pip that log their arguments. Nothing is
installed and no network is used."""

import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "parity"))
import packages  # noqa: E402
OPTIONAL = "ccache libyaml-cpp-dev libpcre2-dev libutf8proc-dev pkg-config libcpp-httplib-dev"
OPTIONAL_FOR_TESTS = "bubblewrap zsh fish chromium nodejs npm"
REQUIRED = "g++ cmake ninja-build nlohmann-json3-dev libcli11-dev libgtest-dev libgmock-dev python3 git"
HARMLESS = "bash sh env dirname sed cat cp mkdir rm touch chmod id cmake"
TORCH_VERSION = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 13\n#define TORCH_VERSION_PATCH 0\n"

APT_GET = """#!/usr/bin/env bash
echo "apt-get $*" >>"$MACHINE/log"
[[ -e $MACHINE/no-network ]] && exit 100
for word; do echo "$word" >>"$MACHINE/installed"; done
exit 0
"""
DPKG_QUERY = """#!/usr/bin/env bash
for word; do
  while read -r package; do [[ $word == "$package" ]] && echo "installed $word"; done <"$MACHINE/installed"
done
exit 0
"""
# Replaces the system's python3 and that of the venv.
PYTHON = """#!/usr/bin/env bash
case "$0 $*" in
  *" -m venv "*)
    echo "venv" >>"$MACHINE/log"
    mkdir -p "$3/bin" && cp "$MACHINE/bin/python3" "$3/bin/python" && touch "$3/has-pip" ;;
  *" -m pip --version") [[ -e ${0%/bin/python}/has-pip ]] ;;
  *" -m pip install "*)
    echo "pip ${*:4}" >>"$MACHINE/log"
    torch=${0%/bin/python}/lib/python3.11/site-packages/torch
    mkdir -p "$torch"
    cp -r "$MACHINE/torch/." "$torch"
    [[ ! -e $MACHINE/no-network ]] ;;
  *" -c import ensurepip"*) true ;;
  *" -c import importlib"*) [[ -e $MACHINE/python3-torch ]] && cat "$MACHINE/python3-torch" ;;
  *" tests/parity/packages.py") [[ -e $MACHINE/peers ]] || { echo peers >>"$MACHINE/log"; touch "$MACHINE/peers"; } ;;
  *" - "*) [[ -e $MACHINE/python3-torch ]] ;;
  *) true ;;
esac
"""


class Machine:
    """A fake machine with a copy of the scripts; everything is installed by default."""

    def __init__(self, folder, without=()):
        self.folder = pathlib.Path(folder)
        self.project = self.folder / "project"
        self.venv = self.project / ".deps/venv"
        (self.folder / "bin").mkdir()
        for part in ("scripts/bootstrap.sh", "scripts/python.sh", "cmake/TorchFolder.cmake"):
            (self.project / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, self.project / part)
        self.make_torch(self.folder / "torch")
        for name in HARMLESS.split():
            if name not in without:
                (self.folder / "bin" / name).symlink_to(shutil.which(name))
        for name, text in (("apt-get", APT_GET), ("dpkg-query", DPKG_QUERY), ("python3", PYTHON)):
            if name not in without:
                (self.folder / "bin" / name).write_text(text)
                (self.folder / "bin" / name).chmod(0o755)
        packages = f"{REQUIRED} python3-venv {OPTIONAL} {OPTIONAL_FOR_TESTS}".split()
        self.file("installed", "".join(f"{name}\n" for name in packages if name not in without))
        self.file("log", "")

    def file(self, name, text=""):
        (self.folder / name).write_text(text)

    def make_torch(self, folder):
        (folder / "include/torch/headeronly").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "include/torch/headeronly/version.h").write_text(TORCH_VERSION)
        (folder / "lib/libtorch_cpu.so").write_text("")
        return folder

    def bootstrap(self, *options, user=None, **environment):
        """Runs it; returns (exit code, output, calls, CPU seconds)."""
        self.file("log")
        for path in [self.folder, *self.folder.rglob("*")] if user else []:
            os.chown(path, user, -1, follow_symlinks=False)
        start = cpu_seconds()
        done = subprocess.run(["bash", self.project / "scripts/bootstrap.sh", *options], text=True, user=user,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={"PATH": str(self.folder / "bin"), "MACHINE": str(self.folder), **environment})
        return done.returncode, done.stdout, (self.folder / "log").read_text().splitlines(), cpu_seconds() - start


def cpu_seconds():
    """CPU time of the ended child processes, which other programs of the machine do not change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def expect(condition, *what):
    if not condition:
        raise AssertionError("\n".join(str(part) for part in what))


def a_first_call_creates_the_venv_and_a_second_is_silent_and_fast(folder):
    machine = Machine(folder)
    code, output, calls, _ = machine.bootstrap()
    expect(code == 0 and calls == ["venv", "pip --disable-pip-version-check --no-compile torch==2.13.0 pyarrow"], code, output, calls)
    machine.file("no-network")
    later = [machine.bootstrap() for _ in range(3)]
    expect(all(call[:3] == (0, "", []) for call in later), later)
    expect(min(call[3] for call in later) < 1, "a later call takes a second of CPU time or more", later)


def test_packages_are_installed_once_with_the_same_torch(folder):
    machine = Machine(folder)
    code, output, calls, _ = machine.bootstrap("--tests")
    packages = "torch==2.13.0 pyarrow numpy transformers==5.23.0 tokenizers==0.23.3 safetensors jinja2 peft==0.21.2"
    expect(code == 0 and calls[-2:] == [f"pip --disable-pip-version-check --no-compile {packages}", "peers"], code, output, calls)
    expect(machine.bootstrap("--tests")[:3] == (0, "", []), "the second call was not silent")
    expect(machine.bootstrap()[:3] == (0, "", []), "a call without --tests was not silent")


def an_interrupted_installation_is_repaired(folder):
    machine = Machine(folder)
    machine.file("no-network")
    code, output, calls, _ = machine.bootstrap()  # pip stops after it unpacked torch
    expect(code == 1 and "KEEL_TORCH" in output, code, output)
    (machine.folder / "no-network").unlink()
    code, output, calls, _ = machine.bootstrap()
    expect(code == 0 and calls == ["pip --disable-pip-version-check --no-compile torch==2.13.0 pyarrow"], code, output, calls)

    shutil.rmtree(machine.venv)
    (machine.venv / "bin").mkdir(parents=True)  # python3 -m venv was interrupted
    code, output, calls, _ = machine.bootstrap()
    expect(code == 0 and calls[0] == "venv" and "broken" in output, code, output, calls)
    expect(machine.bootstrap()[:3] == (0, "", []), "the call after the repair was not silent")


def without_apt_the_missing_packages_are_listed_and_it_stops(folder):
    machine = Machine(folder, without=("apt-get", "dpkg-query", "cmake", "python3"))
    code, output, calls, _ = machine.bootstrap()
    expect(code == 1 and f"sudo apt-get update && sudo apt-get install -y {REQUIRED}\n" in output, code, output)


def without_root_the_missing_packages_are_listed_and_it_stops(folder):
    machine = Machine(folder, without=("ninja-build", "git"))
    code, output, calls, _ = machine.bootstrap(user=65534 if os.geteuid() == 0 else None)
    expect(code == 1 and "sudo apt-get install -y ninja-build git\n" in output, code, output)
    expect(calls == [], "apt-get was called without the right to", calls)


def missing_packages_are_installed_by_root(folder):
    if os.geteuid() != 0:
        return
    machine = Machine(folder, without=("ninja-build", "git"))
    code, output, calls, _ = machine.bootstrap()
    expect(code == 0 and calls[0].endswith(" update"), code, output, calls)
    expect(calls[1].endswith(" install -y --no-install-recommends ninja-build git"), calls)
    expect(machine.bootstrap()[:3] == (0, "", []), "the second call was not silent")


def available_commands_need_no_package(folder):
    machine = Machine(folder, without=("ninja-build", "git", "dpkg-query"))
    for name in ("ninja", "git", "ccache", "g++", "pkg-config"):  # the last two find every header and library
        (machine.folder / "bin" / name).write_text("#!/bin/sh\ncat >/dev/null\n")
        (machine.folder / "bin" / name).chmod(0o755)
    code, output, calls, _ = machine.bootstrap()
    expect(code == 0 and calls[0] == "venv", code, output, calls)


def unavailable_optional_packages_are_reported_once(folder):
    machine = Machine(folder, without=[*OPTIONAL.split(), *OPTIONAL_FOR_TESTS.split()])
    torch = str(machine.make_torch(machine.folder / "system/torch"))
    machine.file("python3-torch", torch)
    machine.file("no-network")
    for options, packages in ((), OPTIONAL), (("--tests",), OPTIONAL_FOR_TESTS):
        code, output, calls, _ = machine.bootstrap(*options, KEEL_TORCH=torch)
        expect(code == 0 and output.count(f"continuing without {packages},") == 1, code, output)
    for options in (), ("--tests",):
        expect(machine.bootstrap(*options, KEEL_TORCH=torch)[:3] == (0, "", []), "it was mentioned again")


def a_python3_with_all_packages_needs_no_venv(folder):
    machine = Machine(folder)
    machine.file("python3-torch", str(machine.make_torch(machine.folder / "system/torch")))
    expect(machine.bootstrap()[:3] == (0, "", []), "something was installed in addition to the system's torch")
    expect(machine.bootstrap("--tests")[:3] == (0, "", ["peers"]), "something was installed in addition to the system's packages")
    expect(not machine.venv.exists(), "an environment was made")


def a_wrong_keel_torch_stops_with_an_error(folder):
    code, output, calls, _ = Machine(folder).bootstrap(KEEL_TORCH="/nowhere")
    expect(code == 1 and "KEEL_TORCH is '/nowhere'" in output and calls == [], code, output, calls)


def a_prepared_repository_installs_nothing(folder):
    stamps = [".deps/venv/keel-tests.stamp", *(f".deps/peers/{peer}/keel.stamp" for peer in packages.peers())]
    if not all((ROOT / stamp).exists() for stamp in stamps):
        return
    machine = Machine(folder)  # for replacements of real programs
    for name in ("apt-get", "sudo", "pip"):
        (machine.folder / "bin" / name).write_text("#!/bin/sh\necho $0 was called\nexit 1\n")
        (machine.folder / "bin" / name).chmod(0o755)
    for name in ("dpkg-query", "python3"):
        (machine.folder / "bin" / name).unlink()
    start = cpu_seconds()
    done = subprocess.run([ROOT / "scripts/bootstrap.sh", "--tests"], capture_output=True, text=True,
                          env=os.environ | {"PATH": f"{machine.folder}/bin:{os.environ['PATH']}", "PIP_NO_INDEX": "1"})
    expect((done.returncode, done.stdout + done.stderr) == (0, ""), done)
    expect(cpu_seconds() - start < 5, "it took longer than 5 s of CPU time")  # ten times what it needs


TESTS = [
    a_first_call_creates_the_venv_and_a_second_is_silent_and_fast,
    test_packages_are_installed_once_with_the_same_torch,
    an_interrupted_installation_is_repaired,
    without_apt_the_missing_packages_are_listed_and_it_stops,
    without_root_the_missing_packages_are_listed_and_it_stops,
    missing_packages_are_installed_by_root,
    available_commands_need_no_package,
    unavailable_optional_packages_are_reported_once,
    a_python3_with_all_packages_needs_no_venv,
    a_wrong_keel_torch_stops_with_an_error,
    a_prepared_repository_installs_nothing,
]


def main():
    failed = 0
    for test in TESTS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(folder)
                print(f"ok      {test.__name__}")
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {test.__name__}\n{error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
