#!/usr/bin/env bash
# Resolves pyproject.toml into the three lock files, with hashes and no index addresses:
#   requirements.lock          everything, for TFX's Python; make uses it
#   requirements-current.lock  everything except TFX, for a current Python and TensorFlow
#   requirements-serving.lock  the part of requirements-current.lock that a serving host installs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=$(tools/setup.sh --uv)

compile() { # OUTPUT, the Python's version, then uv's options
  local output=$1 python=$2
  shift 2
  "$uv" pip compile pyproject.toml --quiet --generate-hashes --no-annotate --no-header \
    --python-version "$python" --python-platform x86_64-manylinux_2_28 --output-file "$output" "$@" || {
    echo "lock: $output could not be resolved (see uv's message above); the old one is unchanged." >&2
    exit 1
  }
}

compile requirements.lock 3.10 --all-extras --group dev
compile requirements-current.lock 3.12 --extra train --extra eval --extra serving --group dev
# The same versions, so that servers run what was tested.
compile requirements-serving.lock 3.12 --extra serving --constraint requirements-current.lock
