#!/usr/bin/env bash
# Unpacks the measurement data and writes an encoder that knows words, unless they are there:
#
#   benchmarks/mxtr/start.sh OUT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

OUT=$1
SETS=.bench/study/data
DATA=${XTR_TF_DATA:-../shared/data}
SHIPPED=models/mxtr_tiny
export TF_CPP_MIN_LOG_LEVEL=3

mkdir -p "$(dirname "$OUT")"
[ -d "$SETS/train" ] || "$DATA/unpack.sh" "$SETS"
[ -d "$OUT" ] || .venv/bin/python benchmarks/mxtr/lexical_start.py --data "$SETS" \
  --vocabulary "$SHIPPED/tokenizer.model" --background "$SHIPPED/background.npy" --out "$OUT"
