#!/usr/bin/env bash
# Resolves pyproject.toml into requirements.lock (all extras and the development tools) and
# requirements-serving.lock (what a serving host installs). Hashes, and no index addresses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=$(tools/setup.sh --uv)

compile() { # OUTPUT, then uv's options
  local output=$1
  shift
  "$uv" pip compile pyproject.toml --quiet --generate-hashes --no-annotate --no-header \
    --python-version 3.10 --python-platform x86_64-manylinux_2_28 --output-file "$output" "$@" || {
    echo "lock: $output could not be resolved (uv's reason stands above); the old one is unchanged." >&2
    exit 1
  }
}

compile requirements.lock --all-extras --group dev
# The same versions as the full lock, so that what was tested is what serves.
compile requirements-serving.lock --extra serving --constraint requirements.lock
