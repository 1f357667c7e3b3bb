#!/usr/bin/env bash
# Makes what the runs of the claims share, unless it is there: the data, a start that never saw a question, and
# English training pairs without any text of the measured test sets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

benchmarks/mxtr/start.sh .bench/claims/start
[ -d .bench/claims/train ] || .venv/bin/python benchmarks/paper_claims/training_pairs.py \
  --data .bench/study/data --out .bench/claims/train
