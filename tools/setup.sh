#!/usr/bin/env bash
# Creates .venv: Python 3.10, exactly the packages in requirements.lock, and this checkout in editable mode.
#
#   tools/setup.sh            creates or updates .venv
#   tools/setup.sh --uv       prints the path of uv; installs it into .uv if the machine has none
#
# Does nothing if .venv is up to date, so every make target can call it.
# Must not know what the packages are for, nor which index they come from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ROOT=$PWD
LOCK=requirements.lock
VENV=.venv
UV_VERSION=0.13.7
NEEDED_MB=5000
export UV_NO_PROGRESS=${UV_NO_PROGRESS-${CI:+1}}
[ -n "$UV_NO_PROGRESS" ] || unset UV_NO_PROGRESS
# If Python cannot write bytecode later, every process compiles TensorFlow again: 10 s instead of 4.
export UV_COMPILE_BYTECODE=1

fail() {
  echo "setup: $1" >&2
  exit 1
}

# Runs outside the checkout, because .python-version makes pyenv look for 3.10, which may not be installed.
host_python() { (cd / && python3 "$@"); }

find_uv() {
  if command -v uv >/dev/null 2>&1; then
    command -v uv
    return
  fi
  local private=$ROOT/.uv/bin/uv
  if [ ! -x "$private" ]; then
    host_python -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null ||
      fail "python3 (3.8 or newer) is missing; install it (on Debian: python3, python3-venv) and run make again."
    echo "setup: installing uv $UV_VERSION into .uv" >&2
    rm -rf "$ROOT/.uv" "$ROOT/.uv.tmp"
    host_python -m venv "$ROOT/.uv.tmp" >/dev/null ||
      fail "python3 cannot create a virtual environment; install its venv module (on Debian: python3-venv) and run make again."
    "$ROOT/.uv.tmp/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION" 2>"$ROOT/.uv.tmp/pip.log" ||
      fail "uv $UV_VERSION could not be installed with pip ($(tail -n 1 "$ROOT/.uv.tmp/pip.log")); check the network or pip's index configuration and run make again."
    mkdir -p "$ROOT/.uv/bin"
    mv "$ROOT/.uv.tmp/bin/uv" "$private"
    rm -rf "$ROOT/.uv.tmp"
  fi
  echo "$private"
}

if [ "${1-}" = --uv ]; then
  find_uv
  exit
fi
[ $# -eq 0 ] || fail "unknown option; the only one is --uv. Received: $*"
[ -f "$LOCK" ] || fail "$LOCK is missing; restore it with git checkout $LOCK."

# Includes the path: the scripts and the editable install in a copied .venv still point to the original checkout.
want=$({ cat "$LOCK" pyproject.toml .python-version tools/setup.sh; echo "$ROOT"; } | sha256sum | cut -d' ' -f1)
is_current() { [ -x "$VENV/bin/python" ] && [ "$(cat "$VENV/.lock-hash" 2>/dev/null)" = "$want" ]; }
is_current && exit 0

# If two makes run at once, the second waits and then finds the environment ready.
if command -v flock >/dev/null 2>&1; then
  exec 9>.setup.lock
  flock 9
  is_current && exit 0
fi

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) ;;
  *) fail "TensorFlow 2.16 with ScaNN 1.3.2 is published for Linux on x86_64 only. Received: $(uname -s) on $(uname -m)." ;;
esac
free_mb=$(df -Pm . | awk 'NR==2 {print $4}')
if [ ! -d "$VENV" ] && [ "$free_mb" -lt "$NEEDED_MB" ]; then
  fail "the environment needs about $NEEDED_MB MB on this disk; free some space and run make again. Received: $free_mb MB free."
fi

uv=$(find_uv)
if [ -f "$VENV/bin/activate" ] && [[ $(<"$VENV/bin/activate") != *"$ROOT/$VENV"* ]]; then
  echo "setup: $VENV was copied from another checkout; creating it again" >&2
  rm -rf "$VENV"
fi
if [ ! -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null; then
  rm -rf "$VENV"
  "$uv" venv --quiet --python 3.10 "$VENV" ||
    fail "Python 3.10 was not found and could not be fetched; install it (pyenv install 3.10, or your system's package) and run make again."
fi
rm -f "$VENV/.lock-hash"
echo "setup: installing the packages of $LOCK into $VENV" >&2
VIRTUAL_ENV=$ROOT/$VENV "$uv" pip sync --quiet --require-hashes "$LOCK" ||
  fail "the packages of $LOCK could not be installed (see uv's message above); check the network and the free space, then run make again."
VIRTUAL_ENV=$ROOT/$VENV "$uv" pip install --quiet --no-deps --no-build-isolation --editable . ||
  fail "this checkout could not be installed into $VENV (see uv's message above)."
echo "$want" >"$VENV/.lock-hash"
echo "setup: done" >&2
