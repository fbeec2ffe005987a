# To be sourced, from bash or zsh, from any folder:  source scripts/env.sh
#
# Adds build/ (the program keel) to PATH, build/python (the module keel) to PYTHONPATH, and the python3 with the torch
# that build/ was compiled against to the front of PATH.

# _keel_prepend DIRECTORY LIST: moves or adds the directory to the front of a colon-separated list.
_keel_prepend() {
  _keel_rest=$(printf '%s' "$2" | tr ':' '\n' | grep -vxF -e "$1" | paste -sd : -) || true
  printf '%s' "$1${_keel_rest:+:$_keel_rest}"
}

# _keel_torch_of PYTHON: the folder of its torch.
_keel_torch_of() {
  "$1" -c "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.realpath(s.submodule_search_locations[0]))" 2>/dev/null || true
}

if [ -n "${ZSH_VERSION:-}" ]; then
  eval '_keel_file=${(%):-%x}'  # zsh syntax that bash cannot parse
else
  _keel_file=${BASH_SOURCE[0]}
fi
_keel_root=$(cd "$(dirname "$_keel_file")/.." && pwd -P)
PATH=$(_keel_prepend "$_keel_root/build" "$PATH")
PYTHONPATH=$(_keel_prepend "$_keel_root/build/python" "${PYTHONPATH:-}")

_keel_torch=$(sed -n 's/^KEEL_TORCH_FOLDER:INTERNAL=//p' "$_keel_root/build/CMakeCache.txt" 2>/dev/null || true)
_keel_bin=
if [ -z "$_keel_torch" ]; then
  if [ -x "$_keel_root/.deps/venv/bin/python3" ]; then _keel_bin=$_keel_root/.deps/venv/bin; fi
else
  for _keel_python in "${_keel_torch%/lib*/python3*/*}/bin/python3" "$_keel_root/.deps/venv/bin/python3" "$(command -v python3)"; do
    if [ -z "$_keel_bin" ] && [ "$(_keel_torch_of "$_keel_python")" = "$_keel_torch" ]; then
      _keel_bin=$(dirname "$_keel_python")
    fi
  done
  if [ -z "$_keel_bin" ]; then
    echo "scripts/env.sh: found no python3 that has the torch build/ was compiled against ($_keel_torch)" >&2
  fi
fi
if [ -n "$_keel_bin" ]; then PATH=$(_keel_prepend "$_keel_bin" "$PATH"); fi
export PATH PYTHONPATH

unset -f _keel_prepend _keel_torch_of
unset _keel_file _keel_root _keel_torch _keel_bin _keel_python
