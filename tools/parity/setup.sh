#!/usr/bin/env bash
# Makes .parity: the machine's python3 with torch and transformers, for comparisons.
#
# Does nothing when it already matches tools/parity/requirements.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

ROOT=$PWD
VENV=$ROOT/.parity
REQUIREMENTS=$ROOT/tools/parity/requirements.txt

fail() {
  echo "parity-env: $1" >&2
  exit 1
}

want=$(sha256sum <"$REQUIREMENTS" | cut -d' ' -f1)
[ -x "$VENV/bin/python" ] && [ "$(cat "$VENV/.requirements-hash" 2>/dev/null)" = "$want" ] && exit 0

# Outside the checkout, where .python-version does not choose the Python.
cd /
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  fail "python3 (3.10 or newer) is missing; install it and run make again."
rm -rf "$VENV"
python3 -m venv "$VENV" ||
  fail "python3 cannot make a virtual environment; install its venv module (on Debian: python3-venv) and run make again."
echo "parity-env: installing torch and transformers into .parity" >&2
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$REQUIREMENTS" ||
  fail "the packages could not be installed (pip's reason stands above); check the network and run make again."
echo "$want" >"$VENV/.requirements-hash"
echo "parity-env: done" >&2
