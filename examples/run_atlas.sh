#!/usr/bin/env bash
# The life of a model on the embedded example, one command a step: vocabulary, training, encoding, indexing,
# export, and questions to the exported model. Every run starts anew in out/atlas.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH
out=out/atlas
rm -rf "$out"

step() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  "$@"
}

step xtr-tf tokenizer train examples/atlas --vocabulary-size 6000 --out "$out/vocabulary.model"
step xtr-tf train examples/configs/atlas_tiny.yaml --set "tokenizer.model=$out/vocabulary.model" \
  --set "training.output=$out/training"
step xtr-tf encode examples/atlas --model "$out/training/encoder" --out "$out/vectors"
step xtr-tf index "$out/vectors" --out "$out/index"
step xtr-tf export "$out/vectors" --model "$out/training/encoder" --index "$out/index" --out "$out/models"
step xtr-tf verify "$out/models/1"
step xtr-tf search "$out/models/1" "How deep is Lake Baikal?"
step xtr-tf search "$out/models/1" "珠穆朗玛峰有多高？"
