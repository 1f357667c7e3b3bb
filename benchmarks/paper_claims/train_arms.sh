#!/usr/bin/env bash
# Trains the arms that `make claims` compares, one run after the other:
#
#   benchmarks/paper_claims/train_arms.sh [STEPS]     # of each run, 300 if not given
#   SEEDS="1 2 3 4 5" benchmarks/paper_claims/train_arms.sh
#
# The arms differ only in the loss: f_XTR, f_ColBERT, and f_XTR', by which search ranks. Runs are kept in
# .bench/claims/ARM-SEED. If it was stopped, the same command continues; a finished run is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

STEPS=${1:-300}
OUT=.bench/claims
export TF_CPP_MIN_LOG_LEVEL=3
declare -A LOSS=(
  [xtr]="loss.score=xtr"
  [colbert]="loss.score=colbert"
  [imputed]="loss.imputation=threshold"
)

benchmarks/paper_claims/prepare.sh
for seed in ${SEEDS:-1 2 3}; do
  for arm in xtr colbert imputed; do
    run=$OUT/$arm-$seed
    [ -d "$run/encoder" ] && continue
    .venv/bin/xtr-tf train benchmarks/paper_claims/arms.yaml --set "${LOSS[$arm]}" --set "training.seed=$seed" \
      --set "training.steps=$STEPS" --set "training.decay_steps=$((STEPS * 9 / 10))" --set "training.output=$run" \
      >>"$run.log" 2>&1
    echo "$run"
  done
done
