#!/usr/bin/env bash
# Trains a small multilingual model from scratch: vocabulary, start with f_ColBERT, then f_XTR.
#
#   benchmarks/mxtr/run.sh [STEPS]      # of f_XTR, 1000 if not given; more than before continues
#
# Everything is kept in .bench/mxtr. You can stop it at any time; the same command continues.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

STEPS=${1:-1000}
OUT=.bench/mxtr
SETS=.bench/study/data
DATA=${XTR_TF_DATA:-../shared/data}
export TF_CPP_MIN_LOG_LEVEL=3

mkdir -p "$OUT"
[ -d "$SETS/train" ] || "$DATA/unpack.sh" "$SETS"
# mT5's own pieces, so that languages without training pairs have pieces for their words, too.
[ -e "$OUT/vocabulary.model" ] ||
  .venv/bin/xtr-tf tokenizer trim "$SETS/vocab/mt5.spiece.model" --pieces 64000 --out "$OUT/vocabulary.model"
[ -d "$OUT/start/encoder" ] || .venv/bin/xtr-tf train benchmarks/mxtr/start.yaml
.venv/bin/xtr-tf train benchmarks/mxtr/mxtr.yaml --set "training.steps=$STEPS"
