#!/usr/bin/env bash
# Creates .venvs/VERSION, an environment for another Python than make's own, with this checkout and everything
# except TFX. Prints the folder.
#
#   tools/other_python.sh 3.12        the packages of requirements-current.lock
#   tools/other_python.sh 3.13        the newest packages that pyproject.toml allows
#   tools/other_python.sh 3.11 2.18   the same with TensorFlow 2.18, in .venvs/3.11-tf2.18
#
# Does nothing when the environment already matches. Must not know what it is used for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LOCKED=3.12
LOCK=requirements-current.lock

fail() {
  echo "other_python: $1" >&2
  exit 1
}

version=${1-}
tensorflow=${2-}
[[ $version =~ ^3\.[0-9]+$ && $tensorflow =~ ^(2\.[0-9]+)?$ && $# -le 2 ]] ||
  fail "give a Python like 3.12 and, if you like, a TensorFlow like 2.18. Received: $*"
venv=.venvs/$version${tensorflow:+-tf$tensorflow}
want=$(cat "$LOCK" pyproject.toml "${BASH_SOURCE[0]}" | sha256sum | cut -d' ' -f1)
mkdir -p .venvs
if command -v flock >/dev/null 2>&1; then
  exec 9>.venvs/.lock
  flock 9
fi
if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.lock-hash" 2>/dev/null)" = "$want" ]; then
  echo "$venv"
  exit
fi

uv=$(tools/setup.sh --uv)
rm -rf "$venv"
# .python-version makes pyenv choose make's own Python; PYENV_VERSION overrides it.
PYENV_VERSION=$version "$uv" venv --quiet --python "$version" "$venv" ||
  fail "Python $version was not found and could not be fetched; install it (pyenv install $version, or your system's package) and try again."
echo "other_python: installing into $venv" >&2
# Otherwise, if Python may not write bytecode, every process would compile TensorFlow again.
export VIRTUAL_ENV=$PWD/$venv UV_COMPILE_BYTECODE=1
if [ "$version" = "$LOCKED" ] && [ -z "$tensorflow" ]; then
  "$uv" pip sync --quiet --require-hashes "$LOCK" || fail "the packages of $LOCK could not be installed (see uv's message above)."
  "$uv" pip install --quiet --no-deps --editable . || fail "this checkout could not be installed into $venv (see uv's message above)."
else
  "$uv" pip install --quiet --editable '.[train,eval,serving]' --group dev "tensorflow==${tensorflow:-2}.*" ||
    fail "no set of packages could be installed for Python $version${tensorflow:+ with TensorFlow $tensorflow} (see uv's message above)."
fi
echo "$want" >"$venv/.lock-hash"
echo "$venv"
