#!/bin/sh
# The Python of the tests: .deps/venv if scripts/bootstrap.sh --tests installed it, else python3.
unset PYTHONDONTWRITEBYTECODE  # some containers set it, which would recompile torch and transformers in every test (10 s)
venv="$(dirname "$0")/../.deps/venv"
if [ -f "$venv/keel-tests.stamp" ]; then exec "$venv/bin/python" "$@"; fi
exec python3 "$@"
