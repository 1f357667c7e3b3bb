#!/usr/bin/env bash
# Makes what `levers.py` trains on, then tries every lever and prints the table:
#
#   benchmarks/mxtr/levers.sh [ARM ...]
#
# Everything is kept in .bench/mxtr. You can stop it at any time; the same command continues.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

OUT=.bench/mxtr
DATA=.bench/study/data
SCRIPTS=benchmarks/mxtr
PYTHON=.venv/bin/python
export TF_CPP_MIN_LOG_LEVEL=3

[ -d "$DATA/train" ] || "${XTR_TF_DATA:-../shared/data}/unpack.sh" "$DATA"
[ -e "$OUT/sets/mxtr.yaml" ] || $PYTHON $SCRIPTS/training_sets.py --data "$DATA" --out "$OUT/sets"
[ -e "$OUT/debian/apertium_es.jsonl" ] || $PYTHON $SCRIPTS/debian_texts.py --data "$DATA" --out "$OUT/debian"
[ -e "$OUT/mixed/mixed-zh.jsonl" ] || $PYTHON $SCRIPTS/mixed_sets.py --data "$DATA" \
  --debian "$OUT/debian" --sets "$OUT/sets" --out "$OUT/mixed"
$PYTHON $SCRIPTS/refreshed_sets.py --sets "$OUT/sets" --out "$OUT/refreshed"
if [ ! -e "$OUT/scored/squad_nqg_test_en.jsonl" ]; then
  TEACHER=$($PYTHON benchmarks/environments.py minilm)
  "$TEACHER" $SCRIPTS/teacher_scores.py "$OUT/sets/train" "$OUT/scored"
fi
$PYTHON $SCRIPTS/levers.py "$@"
