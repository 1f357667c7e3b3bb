#!/usr/bin/env bash
# Runs a pytest command and prints its time in a RESULT line, as benchmarks do.
#
#   tools/test_time.sh .venv/bin/python -m pytest ...
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
start=$(date +%s)
TIMEFORMAT='%U %S'
{ processor=$( { time "$@" 2>&1 | tee "$log" >&3; exit "${PIPESTATUS[0]}"; } 2>&1); } 3>&1
code=$?
seconds=$(($(date +%s) - start))
# The last line is pytest's own count: "1 failed, 1837 passed, 4 skipped in 512.34s".
count() { tail -n 1 "$log" | grep -oE "[0-9]+ $1" | grep -oE "[0-9]+" || echo 0; }
passed=$(count passed) skipped=$(count skipped) failures=$(($(count failed) + $(count error)))
processor=$(awk '{printf "%d", $1 + $2}' <<<"$processor")
echo "RESULT test-time seconds=$seconds processor_seconds=$processor tests=$((passed + failures + skipped)) skipped=$skipped failed=$failures"
exit "$code"
