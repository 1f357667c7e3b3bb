#!/usr/bin/env bash
# Runs every part of the product once on another Python than make's own, in about a minute: imports a checkpoint,
# trains ten steps, encodes, indexes, exports, verifies, serves and queries. Then exports the same index with
# make's own Python and TensorFlow (those of the pipeline), and verifies and queries that model on the other one.
#
#   tools/try_python.sh 3.12 [TENSORFLOW]
#   tools/try_python.sh any                the first of 3.12, 3.13 and 3.11 that this machine has
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1-}
if [ "$version" = any ]; then
  uv=$(tools/setup.sh --uv)
  for version in 3.12 3.13 3.11 none; do
    PYENV_VERSION=$version "$uv" python find --no-python-downloads "$version" >/dev/null 2>&1 && break
  done
  if [ "$version" = none ]; then
    echo "RESULT try-python none: this machine has no Python 3.11 to 3.13, so nothing was tried on a current one"
    exit
  fi
  shift
  set -- "$version" "$@"
fi

venv=$(tools/other_python.sh "$@")
out=out/try_python
question="How deep is Lake Baikal?"
rm -rf "$out"
mkdir -p "$out"
SECONDS=0

current() { "$venv/bin/xtr-tf" "$@"; }

ask() { # a model's base directory; prints the best document of each question
  "$venv/bin/xtr-tf" serve --model-base "$1" --port 0 --rest-port -1 >"$out/server.txt" 2>"$out/server.log" &
  local server=$! address
  until address=$(grep -o 'gRPC [^ ,]*' "$out/server.txt"); do
    kill -0 "$server" || { cat "$out/server.log" >&2; exit 1; }
    sleep 0.1
  done
  current query "$question" --server "${address#gRPC }" --timeout 60 --top-k 1
  kill "$server"
  wait "$server"
}

current checkpoint import tests/golden/checkpoints/released_xtr --out "$out/imported"
current train examples/configs/atlas_tiny.yaml --set training.initial_encoder=models/mxtr_tiny \
  --set training.output="$out" --set training.steps=10 --set training.batch_size=8 \
  --set training.evaluate_every=10 --set training.checkpoint_every=10
current encode examples/atlas --model "$out/encoder" --out "$out/vectors"
current index "$out/vectors" --out "$out/index"
current export "$out/vectors" --model "$out/encoder" --index "$out/index" --out "$out/current"
current verify "$out/current/1"
ask "$out/current" | tee "$out/answer_current.txt"

.venv/bin/xtr-tf export "$out/vectors" --model "$out/encoder" --index "$out/index" --out "$out/pipeline"
current verify "$out/pipeline/1"
ask "$out/pipeline" | tee "$out/answer_pipeline.txt"

grep -q en-baikal "$out/answer_current.txt"
grep -q en-baikal "$out/answer_pipeline.txt"
versions() { # of the interpreter given and its packages
  "$1" -c 'import platform; from importlib.metadata import version as v
print("python-" + platform.python_version(), "tensorflow-" + v("tensorflow"), "scann-" + v("scann"), sep=",")'
}
echo "RESULT try-python current=$(versions "$venv/bin/python") pipeline=$(versions .venv/bin/python) seconds=$SECONDS"
