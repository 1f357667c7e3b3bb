#!/usr/bin/env bash
# Teaches an encoder what words mean, and to rank by it: MiniLM's token states and parallel sentences become
# targets of its token vectors, then it also learns from the questions of `training_sets.py`.
#
#   benchmarks/mxtr/taught.sh ENCODER
#
# Everything is kept in .bench/mxtr. You can stop it at any time; the same command continues.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

ENCODER=$1
OUT=.bench/mxtr
SETS=.bench/study/data
SCRIPTS=benchmarks/mxtr
PYTHON=.venv/bin/python
export TF_CPP_MIN_LOG_LEVEL=3

[ -e "$OUT/debian/apertium_es.jsonl" ] || $PYTHON $SCRIPTS/debian_texts.py --data "$SETS" --out "$OUT/debian"
[ -e "$OUT/texts.jsonl" ] ||
  $PYTHON $SCRIPTS/taught_texts.py --data "$SETS" --debian "$OUT/debian" --out "$OUT/texts.jsonl"
if [ ! -e "$OUT/teacher/texts.jsonl" ]; then
  TEACHER=$($PYTHON benchmarks/environments.py minilm)
  "$TEACHER" $SCRIPTS/teacher_states.py "$OUT/texts.jsonl" "$OUT/teacher"
fi
[ -e "$OUT/taught/texts.jsonl" ] || $PYTHON $SCRIPTS/taught_store.py --encoder "$ENCODER" \
  --teacher "$OUT/teacher" --parallel "$SETS/parallel" "$OUT/debian" --out "$OUT/taught"
[ -d "$OUT/grown" ] || $PYTHON $SCRIPTS/grown_start.py "$ENCODER" --blocks 4 --feed-forward 1024 --out "$OUT/grown"
.venv/bin/xtr-tf train $SCRIPTS/taught.yaml

[ -e "$OUT/sets/mxtr.yaml" ] || $PYTHON $SCRIPTS/training_sets.py --data "$SETS" --out "$OUT/sets"
.venv/bin/xtr-tf train "$OUT/sets/mxtr.yaml" \
  --set "data.teacher_vectors=[$OUT/taught]" --set loss.teacher_vector_weight=5 \
  --set training.initial_encoder="$OUT/taught-run/encoder" --set training.output="$OUT/ranked-run" \
  --set training.steps=400 --set training.warmup_steps=30 --set training.decay_steps=370 \
  --set training.learning_rate=2e-4 --set training.dtype=mixed_bfloat16 --set training.seed=3
