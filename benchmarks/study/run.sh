#!/usr/bin/env bash
# Starts or continues the study: data, vocabulary, the shared start, then both arms side by side.
#
#   benchmarks/study/run.sh [STEPS]     # of each arm, 3000 if not given; more than before continues them
#
# Runs in the background at the lowest priority (STUDY_NICE=0 gives it an equal share), one core per arm. Logs
# and checkpoints are under .bench/study. Stop it with `kill -TERM -- -GROUP`: checkpoints are written, and the
# same command continues.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

STEPS=${1:-3000}
STUDY=.bench/study
DATA=${XTR_TF_DATA:-../shared/data}
TRAIN=(.venv/bin/xtr-tf train)
export TF_CPP_MIN_LOG_LEVEL=3

study() {
  mkdir -p "$STUDY"
  [ -d "$STUDY/data/train" ] || "$DATA/unpack.sh" "$STUDY/data"
  if [ ! -e "$STUDY/vocabulary.model" ]; then
    # A sixth of the texts is enough for 16,000 pieces.
    awk 'FNR % 6 == 0' "$STUDY"/data/train/*_en.jsonl >"$STUDY/vocabulary_texts.jsonl"
    .venv/bin/xtr-tf tokenizer train "$STUDY/vocabulary_texts.jsonl" \
      --vocabulary-size 16000 --out "$STUDY/vocabulary.model"
  fi
  [ -d "$STUDY/warm/encoder" ] || "${TRAIN[@]}" benchmarks/study/warm.yaml >>"$STUDY/warm.log" 2>&1
  for arm in xtr:0 colbert:1; do
    taskset -c "${arm#*:}" "${TRAIN[@]}" "benchmarks/study/${arm%:*}.yaml" --set "training.steps=$STEPS" \
      >>"$STUDY/${arm%:*}.log" 2>&1 &
  done
  wait
}

if [ "${STUDY_INSIDE:-}" = 1 ]; then
  priority=${STUDY_NICE:-19}
  # If the kernel groups processes by session, the priority of the group counts.
  [ ! -e /proc/self/autogroup ] || echo "$priority" >/proc/self/autogroup
  renice -n "$priority" $$ >/dev/null
  study
else
  STUDY_INSIDE=1 setsid "${BASH_SOURCE[0]}" "$STEPS" </dev/null >/dev/null 2>&1 &
  echo "started; process group $!"
fi
