#!/usr/bin/env bash
# The product's main job on the embedded example: the pipeline from data to a pushed version, queries to that
# version over gRPC, and its quality on queries that no part of the pipeline has seen. The next run takes unchanged
# steps from the cache; remove out/atlas to start from scratch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH
out=out/atlas

show() {
  local word words=()
  for word in "$@"; do
    [[ $word =~ ^[a-zA-Z0-9_./:=-]+$ ]] || word="\"$word\""
    words+=("$word")
  done
  printf '\n\033[1m$ %s\033[0m\n' "${words[*]}"
}

step() {
  show "$@"
  "$@"
}

mkdir -p "$out"
step xtr-tf pipeline run --config examples/configs/atlas_pipeline.yaml

show xtr-tf serve --model-base "$out/models" --port 0 --rest-port -1
: >"$out/server.txt"
xtr-tf serve --model-base "$out/models" --port 0 --rest-port -1 >"$out/server.txt" 2>"$out/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
until address=$(grep -o 'gRPC [^ ,]*' "$out/server.txt"); do
  kill -0 "$server" || { cat "$out/server.log" >&2; exit 1; }
  sleep 0.1
done
address=${address#gRPC }
cat "$out/server.txt"
step xtr-tf query "How deep is Lake Baikal?" --server "$address" --top-k 3 --timeout 60
step xtr-tf query "光合作用释放的氧气是来自水还是来自二氧化碳？" --server "$address" --top-k 3 --timeout 60

version=$(find "$out/models" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort -n | tail -1)
quality=$out/test/$version
evaluate=(xtr-tf evaluate "$out/models/$version" --dataset examples/atlas --split test --out "$quality"
  --fusion --analysis-queries 0 --exact-queries 0 --examples 0)
show "${evaluate[@]}"
if [ ! -f "$quality.txt" ]; then
  mkdir -p "$out/test"
  "${evaluate[@]}" >"$quality.partial"
  mv "$quality.partial" "$quality.txt"
fi
cat "$quality.txt"
