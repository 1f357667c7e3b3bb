#!/usr/bin/env bash
# Trains an encoder that matches words, which taught.sh then teaches what they mean: a start that knows words,
# sets with hard negatives, then f_ColBERT.
#
#   benchmarks/mxtr/run.sh
#
# Everything is kept in .bench/mxtr. You can stop it at any time; the same command continues.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

OUT=.bench/mxtr
SETS=.bench/study/data
export TF_CPP_MIN_LOG_LEVEL=3

benchmarks/mxtr/start.sh "$OUT/start"
[ -e "$OUT/sets/mxtr.yaml" ] || .venv/bin/python benchmarks/mxtr/training_sets.py --data "$SETS" --out "$OUT/sets"
.venv/bin/xtr-tf train "$OUT/sets/mxtr.yaml"
