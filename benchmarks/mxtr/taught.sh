#!/usr/bin/env bash
# Teaches an encoder what words mean, and to rank by it. First MiniLM's token states become targets of its token
# vectors, in English and by parallel sentences. Then it gets a vocabulary of longer pieces, and a multilingual
# encoder's directions of words become targets, with their spelling. After each of the two it also learns from
# the questions of `training_sets.py`.
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

# rank STORE ENCODER RUN SEED
rank() {
  .venv/bin/xtr-tf train "$OUT/sets/mxtr.yaml" \
    --set "data.teacher_vectors=[$1]" --set loss.teacher_vector_weight=5 \
    --set training.initial_encoder="$2" --set training.output="$3" --set training.seed="$4" \
    --set training.steps=400 --set training.warmup_steps=30 --set training.decay_steps=370 \
    --set training.learning_rate=2e-4 --set training.dtype=mixed_bfloat16
}

[ -e "$OUT/debian/apertium_es.jsonl" ] || $PYTHON $SCRIPTS/debian_texts.py --data "$SETS" --out "$OUT/debian"
[ -e "$OUT/debian/lexicon_vi.jsonl" ] || $PYTHON $SCRIPTS/debian_messages.py --out "$OUT/debian"
[ -e "$OUT/sets/mxtr.yaml" ] || $PYTHON $SCRIPTS/training_sets.py --data "$SETS" --out "$OUT/sets"

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
rank "$OUT/taught" "$OUT/taught-run/encoder" "$OUT/ranked-run" 3

[ -e "$OUT/word_texts.jsonl" ] ||
  $PYTHON $SCRIPTS/word_texts.py --data "$SETS" --debian "$OUT/debian" --out "$OUT/word_texts.jsonl"
if [ ! -e "$OUT/words/texts.jsonl" ] || [ ! -e "$OUT/frequent_words.jsonl" ]; then
  TEACHER=$($PYTHON benchmarks/environments.py words)
  "$TEACHER" $SCRIPTS/frequent_words.py "$OUT/frequent_words.jsonl"
  "$TEACHER" $SCRIPTS/word_states.py "$OUT/word_texts.jsonl" "$OUT/words"
fi
[ -e "$OUT/vocabulary/background.npy" ] || $PYTHON $SCRIPTS/vocabulary.py --data "$SETS" \
  --debian "$OUT/debian" --words "$OUT/frequent_words.jsonl" --out "$OUT/vocabulary"
[ -e "$OUT/words-taught/pieces.npy" ] || $PYTHON $SCRIPTS/word_store.py --encoder "$OUT/ranked-run/encoder" \
  --words "$OUT/words" --lists "$OUT/frequent_words.jsonl" --vocabulary "$OUT/vocabulary" \
  --parallel "$SETS/parallel" "$OUT/debian" --out "$OUT/words-taught"
[ -d "$OUT/words-start" ] || $PYTHON $SCRIPTS/word_start.py "$OUT/ranked-run/encoder" \
  --vocabulary "$OUT/vocabulary" --store "$OUT/words-taught" --out "$OUT/words-start"
.venv/bin/xtr-tf train $SCRIPTS/words.yaml
rank "$OUT/words-taught" "$OUT/words-run/encoder" "$OUT/words-ranked" 5
