#!/bin/sh
# The Python of the tests: that of .deps/venv where scripts/bootstrap.sh --tests made it, else python3.
unset PYTHONDONTWRITEBYTECODE  # many containers set it, and each test would then compile torch and transformers for ten seconds
venv="$(dirname "$0")/../.deps/venv"
if [ -f "$venv/keel-tests.stamp" ]; then exec "$venv/bin/python" "$@"; fi
exec python3 "$@"
