#!/usr/bin/env bash
# Installs what a build needs: Debian packages and LibTorch 2.11 or newer. Prints nothing if nothing is missing.
#
#   scripts/bootstrap.sh            for `make build`
#   scripts/bootstrap.sh --tests    also the packages that parity tests compare with: .deps/venv, and the peers of
#                                   tests/parity/packages.py; tests of missing peers are skipped
#   scripts/bootstrap.sh --format   also clang-format
#
# An interrupted step is repeated by the next call: finished steps have a stamp in .deps/venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONDONTWRITEBYTECODE  # as in scripts/python.sh

readonly required=(g++ cmake ninja-build nlohmann-json3-dev libcli11-dev libgtest-dev libgmock-dev python3 git)
readonly optional=(ccache libyaml-cpp-dev libpcre2-dev libutf8proc-dev pkg-config libcpp-httplib-dev)
readonly optional_for_tests=(bubblewrap zsh fish chromium nodejs npm)
readonly torch_packages=(torch==2.13.0 pyarrow)
# Versions are pinned because expected values come from these packages: a new release must not fail an old commit.
readonly test_packages=(numpy transformers==5.23.0 tokenizers==0.23.3 safetensors jinja2 peft==0.21.2)
readonly venv=.deps/venv
readonly venv_python=$venv/bin/python

say() { echo "bootstrap: $*" >&2; }
stop() { say "$@"; exit 1; }

# Packages ------------------------------------------------------------------------------------------------------------

has_command() { command -v "$1" >/dev/null 2>&1; }

has_header() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | g++ -E -x c++ - >/dev/null 2>&1
}

has_library() { echo 'int main() {}' | g++ -x c++ - -x none "-l$1" -o /dev/null 2>/dev/null; }

# works PACKAGE: succeeds if the command, header or library of a package exists, from any source.
works() {
  case $1 in
    g++ | cmake | ccache | python3 | git | pkg-config | clang-format | zsh | fish | chromium | npm) has_command "$1" ;;
    nodejs) has_command node ;;
    ninja-build) has_command ninja ;;
    bubblewrap) has_command bwrap ;;
    nlohmann-json3-dev) has_header nlohmann/json.hpp ;;
    libcli11-dev) has_header CLI/CLI.hpp ;;
    libyaml-cpp-dev) has_header yaml-cpp/yaml.h && has_library yaml-cpp ;;
    libpcre2-dev) has_header pcre2.h && has_library pcre2-8 ;;
    libutf8proc-dev) has_header utf8proc.h && has_library utf8proc ;;
    libcpp-httplib-dev) has_command pkg-config && pkg-config --exists cpp-httplib ;;
    libgtest-dev) has_header gtest/gtest.h && has_library gtest ;;
    libgmock-dev) has_header gmock/gmock.h && has_library gmock ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    *) false ;;
  esac
}

# Prints the packages that are neither installed by dpkg nor available in another way.
missing_packages() {
  local package installed=""
  if has_command dpkg-query; then
    installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  fi
  for package in "$@"; do
    [[ $'\n'$installed$'\n' == *$'\n'"installed $package"$'\n'* ]] || works "$package" || echo "$package"
  done
}

# Installs packages with apt-get. Fails without apt-get, without root rights, or if no archive can be reached.
package_lists_are_fresh=no
install_packages() {
  local as_root=() apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::http::Timeout=30)
  has_command apt-get || return 1
  if ((EUID != 0)); then
    has_command sudo || return 1
    # A password cannot be typed without a terminal.
    [[ -t 0 ]] || sudo -n true 2>/dev/null || return 1
    as_root=(sudo)
  fi
  say "installing $*"
  if [[ $package_lists_are_fresh == no ]]; then
    "${as_root[@]}" "${apt[@]}" update >&2 || say "apt-get update failed; trying with the existing package lists"
    package_lists_are_fresh=yes
  fi
  "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "$@" >&2 || return 1
  rm -f build/build.ninja  # configured without them: configure again
}

require_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return
  install_packages "${missing[@]}" && return
  say "these packages are missing and could not be installed: ${missing[*]}"
  say "On Debian or Ubuntu this installs them:  sudo apt-get update && sudo apt-get install -y ${missing[*]}"
  stop "On other systems install the packages of these names; any that the compiler and the shell find are used."
}

# Tries each package once: failures are recorded, so that later builds do not try again.
suggest_packages() {
  local package missing=() refused=.deps/packages-not-to-be-had known=""
  [[ -f $refused ]] && known=$(<"$refused")
  for package in $(missing_packages "$@"); do
    [[ $'\n'$known$'\n' == *$'\n'"$package"$'\n'* ]] || missing+=("$package")
  done
  ((${#missing[@]} == 0)) && return
  install_packages "${missing[@]}" && return
  mkdir -p .deps
  printf '%s\n' "${missing[@]}" >>$refused
  say "continuing without ${missing[*]}, which could not be installed (ccache: builds again faster; yaml-cpp: YAML configurations; pcre2 and utf8proc: tokenizers of real models; pkg-config and cpp-httplib: keel watch; bubblewrap: tests of the sandbox on machines that need it; zsh and fish: tests of what they complete; chromium, nodejs and npm: tests of pages in a browser)."
}

# LibTorch and Python packages ----------------------------------------------------------------------------------------

# Prints the folder of the LibTorch that a build would use, or nothing.
torch_folder() {
  local in_use=""
  [[ -f build/CMakeCache.txt ]] && in_use=$(sed -n 's/^KEEL_TORCH_FOLDER:INTERNAL=//p' build/CMakeCache.txt)
  cmake -DKEEL_TORCH_FOLDER="$in_use" -P cmake/TorchFolder.cmake
}

# venv_has NAME PACKAGE...: succeeds if exactly this list of packages was completely installed.
venv_has() {
  local stamp=$venv/keel-$1.stamp
  shift
  [[ -x $venv_python && -f $stamp && $(<"$stamp") == "$*" ]]
}

# --no-compile: a build reads none of torch's Python files, and a program that imports one compiles it.
pip_install() {
  "$venv_python" -m pip install --disable-pip-version-check --no-compile "$@" >&2 || stop "pip could not install $* into $venv." \
    "Without a network: for a build set KEEL_TORCH to a torch package folder, for the tests use a python3 that has" \
    "torch ${test_packages[*]%%==*}, or leave the Python tests out: ctest --test-dir build -LE 'gpu|python'."
}

# venv_install NAME PACKAGE...: installs the packages, imports them, and writes the stamp.
venv_install() {
  local name=$1 modules
  shift
  modules="${*%%==*}"
  say "installing $* into $venv"
  pip_install "$@"
  # An interrupted installation can leave a broken package that pip considers complete.
  "$venv_python" -W ignore -c "import ${modules// /, }" 2>/dev/null || pip_install --force-reinstall "$@"
  "$venv_python" -W ignore -c "import ${modules// /, }" || stop "$venv is broken; remove that folder and try again"
  echo "$*" >"$venv/keel-$name.stamp"
}

# Creates or repairs the virtual environment with torch.
make_venv() {
  venv_has torch "${torch_packages[@]}" && return
  require_packages python3-venv
  if [[ -e $venv ]] && ! "$venv_python" -m pip --version >/dev/null 2>&1; then
    say "$venv is broken; recreating it"
    rm -rf "$venv"
  fi
  [[ -e $venv ]] || python3 -m venv "$venv" || stop "python3 -m venv $venv failed"
  venv_install torch "${torch_packages[@]}"
}

# add_to_venv NAME PACKAGE...: installs packages next to torch, which is named again to keep its version.
add_to_venv() {
  local name=$1
  shift
  make_venv
  venv_has "$name" "${torch_packages[@]}" "$@" || venv_install "$name" "${torch_packages[@]}" "$@"
}

# python3_serves MODULE...: succeeds if python3 has the torch of the build and the modules; then no virtual environment
# is needed, which a machine without network could not install.
python3_serves() {
  python3 - "$torch" "$@" <<'PY' 2>/dev/null
import importlib.util, os, sys
torch = importlib.util.find_spec("torch").submodule_search_locations[0]
sys.exit(not os.path.samefile(torch, sys.argv[1]) or None in map(importlib.util.find_spec, sys.argv[2:]))
PY
}

# ---------------------------------------------------------------------------------------------------------------------

for option in "$@"; do
  case $option in
    --tests | --format) ;;
    *) stop "'$option' is not an option; there are --tests and --format" ;;
  esac
done

require_packages "${required[@]}"
suggest_packages "${optional[@]}"
torch=$(torch_folder) || exit 1
# The folder can exist after an interrupted installation, hence the second check.
if [[ -z $torch || $torch -ef $(echo $venv/lib/python3*/site-packages/torch) ]]; then make_venv; fi

for option in "$@"; do
  case $option in
    --tests)
      suggest_packages "${optional_for_tests[@]}"
      venv_has tests "${torch_packages[@]}" "${test_packages[@]}" || python3_serves "${test_packages[@]%%==*}" ||
        add_to_venv tests "${test_packages[@]}"
      scripts/python.sh tests/parity/packages.py
      ;;
    --format) require_packages clang-format ;;
  esac
done
