#!/usr/bin/env bash
# Makes the virtual environment that the TRL half of this benchmark runs in: .deps/trl in the repository root.
# Silent when it is already there; remove that folder to build it again with newer packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
env_dir=$root/.deps/trl
stamp=$env_dir/installed.txt

if [[ -f $stamp ]]; then
  exit 0
fi

echo "setting up $env_dir (torch, trl, transformers, accelerate, datasets, liger-kernel)" >&2
rm -rf "$env_dir" # no stamp: whatever is there is half an installation
"${PYTHON:-python3}" -m venv "$env_dir"
pip=("$env_dir/bin/python" -m pip --disable-pip-version-check --quiet)

# torch first and pinned: it must be the release Keel is built on, or the benchmark would compare two torch versions.
"${pip[@]}" install "torch==2.13.0"
"${pip[@]}" install "torch==2.13.0" trl transformers accelerate datasets
# For bench/vs_head: its losses in chunks are plain PyTorch and need nothing of the Triton that the package asks for.
"${pip[@]}" install --no-deps liger-kernel

"$env_dir/bin/python" -c "import torch, trl, transformers"
"${pip[@]}" freeze >"$stamp.partial" # written last and renamed: a stamp means a complete installation
mv "$stamp.partial" "$stamp"
