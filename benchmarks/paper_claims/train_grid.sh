#!/usr/bin/env bash
# Trains the grid of batch sizes and k_train that `make claims` measures, two runs at a time, one core each:
#
#   benchmarks/paper_claims/train_grid.sh [STEPS]     # of each run, 300 if not given
#
# Each run is an f_XTR arm of `train_arms.sh` with another batch size and k_train. If it was stopped, the same
# command continues.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

STEPS=${1:-300}
GRID=.bench/claims/grid
export TF_CPP_MIN_LOG_LEVEL=3
mkdir -p "$GRID"

train_on_core() {
  local core=$1 batch k_train run
  shift
  for pair in "$@"; do
    batch=${pair%-*} k_train=${pair#*-} run=$GRID/$pair
    [ -d "$run/encoder" ] || taskset -c "$core" .venv/bin/xtr-tf train benchmarks/paper_claims/arms.yaml \
      --set "training.steps=$STEPS" --set "training.decay_steps=$((STEPS * 9 / 10))" \
      --set "training.batch_size=$batch" --set "loss.k_train=$k_train" --set "training.output=$run" \
      >>"$run.log" 2>&1
  done
}

benchmarks/paper_claims/prepare.sh
train_on_core 0 64-32 64-512 &
train_on_core 1 64-128 16-32 16-128 16-512 &
wait
