#!/usr/bin/env bash
# Makes what the runs of the claims share, unless it is there: the data, a start that never saw a question, and
# English training pairs without any text of the measured test sets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

OUT=.bench/claims
SETS=.bench/study/data
DATA=${XTR_TF_DATA:-../shared/data}
SHIPPED=models/mxtr_tiny
export TF_CPP_MIN_LOG_LEVEL=3

mkdir -p "$OUT"
[ -d "$SETS/train" ] || "$DATA/unpack.sh" "$SETS"
[ -d "$OUT/start" ] || .venv/bin/python benchmarks/mxtr/lexical_start.py --data "$SETS" \
  --vocabulary "$SHIPPED/tokenizer.model" --background "$SHIPPED/background.npy" --out "$OUT/start"
[ -d "$OUT/train" ] || .venv/bin/python benchmarks/paper_claims/training_pairs.py --data "$SETS" --out "$OUT/train"
