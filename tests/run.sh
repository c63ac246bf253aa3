#!/usr/bin/env bash
# Install trueput with its development tools and run the tests: bash tests/run.sh [pytest options]
# The environment is made in .venv, or where $VENV says. Needs Python 3.11 or newer.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
# a module stays with one worker, and its stores are made once, until one has nothing left to do
exec "$venv/bin/python" -m pytest -q -n auto --dist worksteal "$@"
