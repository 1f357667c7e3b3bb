#!/usr/bin/env bash
# Copies the newest complete versions of a model from an object store to a directory that a server reads.
#
#   fetch_versions.sh SOURCE TARGET [SECONDS]
#
# SOURCE is gs://bucket/model, or a directory; TARGET gets one subdirectory per version. With SECONDS, it runs
# forever and looks that often; without, it waits for the first version and ends. A version is copied once it has the
# marker `_SUCCESS`, which the pipeline writes last, and appears in TARGET only after every file matches the marker.
# KEEP is the number of versions to keep, 2 by default: the current one and the one before.
set -euo pipefail

source=${1%/}
target=${2%/}
seconds=${3:-0}
keep=${KEEP:-2}

say() {
  echo "fetch_versions: $1" >&2
}

names() { # lists SOURCE
  if [[ $source == gs://* ]]; then
    gcloud storage ls "$source/" | sed 's|/$||; s|.*/||'
  else
    ls "$source"
  fi
}

copy_all() { # VERSION DIRECTORY
  if [[ $source == gs://* ]]; then
    gcloud storage cp --recursive --no-user-output-enabled "$source/$1/*" "$2/"
  else
    cp --recursive "$source/$1/." "$2/"
  fi
}

is_marked() { # VERSION
  if [[ $source == gs://* ]]; then
    gcloud storage ls "$source/$1/_SUCCESS" >/dev/null 2>&1
  else
    [[ -f $source/$1/_SUCCESS ]]
  fi
}

fetch() { # VERSION
  local staging=$target/.$1.partial
  rm -rf -- "$staging"
  mkdir -- "$staging"
  if copy_all "$1" "$staging" && (cd "$staging" && sha256sum --check --quiet --strict _SUCCESS >&2); then
    mv -- "$staging" "$target/$1"
    say "version $1 is there"
  else
    rm -rf -- "$staging"
    say "version $1 is not what its marker says; it is tried again"
    return 1
  fi
}

newest() { # the KEEP highest of the numbers in standard input
  grep --extended-regexp '^[0-9]+$' | sort --numeric-sort | tail --lines="$keep"
}

look() {
  local version
  for version in $(names | newest); do
    if [[ ! -d $target/$version ]] && is_marked "$version"; then
      fetch "$version" || true
    fi
  done
  # Older versions are removed once as many newer ones are here.
  local kept
  kept=$(find "$target" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | newest || true)
  for version in $(find "$target" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | grep -E '^[0-9]+$' || true); do
    grep --quiet --line-regexp "$version" <<<"$kept" || rm -rf -- "${target:?}/$version"
  done
}

has_version() {
  find "$target" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | grep --quiet --extended-regexp '^[0-9]+$'
}

mkdir -p -- "$target"
while :; do
  look || say "cannot look at $source; trying again"
  if [[ $seconds == 0 ]] && has_version; then
    exit 0
  fi
  sleep "$([[ $seconds == 0 ]] && echo 5 || echo "$seconds")"
done
