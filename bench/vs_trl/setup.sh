#!/usr/bin/env bash
# Creates the virtual environment for TRL, .deps/trl in the repository root. Does nothing if it exists; remove the folder
# to recreate it with newer packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
env_dir=$root/.deps/trl
stamp=$env_dir/installed.txt

if [[ -f $stamp ]]; then
  exit 0
fi

echo "setting up $env_dir (torch, trl, transformers, accelerate, datasets, liger-kernel)" >&2
rm -rf "$env_dir" # without a stamp the installation is incomplete
"${PYTHON:-python3}" -m venv "$env_dir"
pip=("$env_dir/bin/python" -m pip --disable-pip-version-check --quiet)

# torch first and pinned to the release that Keel is built with, so that both sides use the same version.
"${pip[@]}" install "torch==2.13.0"
"${pip[@]}" install "torch==2.13.0" trl transformers accelerate datasets
# For bench/vs_head: its chunked losses are plain PyTorch and do not need Triton.
"${pip[@]}" install --no-deps liger-kernel

"$env_dir/bin/python" -c "import torch, trl, transformers"
"${pip[@]}" freeze >"$stamp.partial" # written last and renamed: a stamp means a complete installation
mv "$stamp.partial" "$stamp"
