#!/usr/bin/env bash
# Runs the numeric tests as if on other processors: other kernels of OpenBLAS and NumPy, other instruction sets
# of oneDNN or no oneDNN, one thread or two; then a few of them on an emulated processor.
#
#   tools/test_portable.sh            every combination; about a quarter of an hour on two cores
#   tools/test_portable.sh --short    one unusual combination and the fastest tests, about a minute
#   tools/test_portable.sh NAME...    some of haswell, skylake, zen, sse41 and emulated
#
# Must not know what the tests compare.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=.venv/bin/python
NUMERIC=(tests/model tests/evaluation tests/index tests/training/losses tests/retriever tests/scoring)
QUICK=(tests/model/test_encoder.py tests/model/test_numpy_reference.py tests/evaluation/test_exact_retriever.py
  tests/index/test_kmeans.py tests/training/losses/test_cross_entropy.py tests/training/losses/test_maxsim.py
  tests/training/losses/test_token_retrieval.py tests/retriever/test_search_signatures.py tests/index/searchers/test_core_searcher.py
  tests/index/searchers/test_exact_searcher.py tests/index/searchers/test_scann_searcher.py tests/index/searchers/test_sharded_searcher.py
  tests/scoring/test_scoring.py)
EMULATED=(
  tests/training/losses/test_token_retrieval.py::test_padding_never_counts_never_retrieves_never_blocks
  tests/training/losses/test_token_retrieval.py::test_with_everything_retrieved_it_is_sum_of_max
  tests/scoring/test_scoring.py::test_rescoring_ranks_candidates_by_f_colbert
  tests/scoring/test_scoring.py::test_ties_are_broken_by_document_order
  tests/index/searchers/test_scann_searcher.py::test_scores_are_those_of_the_decoded_vectors
  tests/index/searchers/test_scann_searcher.py::test_reordering_brings_scores_close_to_the_exact_ones
)
WITHOUT_AVX512="AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"

failed=()
declare -i ran=0 skipped=0

# combination NAME VARIABLE=VALUE... -- TEST...
combination() {
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1") && shift; done
  shift
  ran+=1
  echo "test-portable: $name (${variables[*]})"
  # TensorFlow asks the processor whether it has bfloat16, oneDNN asks its own limit. If they disagree, the process
  # dies of an illegal instruction. So tests of bfloat16 run without oneDNN if it has a limit.
  case " ${variables[*]} " in
    *" ONEDNN_MAX_CPU_ISA="*)
      numeric_tests "$name" "${variables[@]}" -- -k "not bfloat16" "$@"
      numeric_tests "$name, bfloat16" "${variables[@]}" TF_ENABLE_ONEDNN_OPTS=0 -- -k bfloat16 "$@"
      ;;
    *) numeric_tests "$name" "${variables[@]}" -- "$@" ;;
  esac
}

# numeric_tests NAME VARIABLE=VALUE... -- ARGUMENT...
numeric_tests() {
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1") && shift; done
  shift
  env "${variables[@]}" "$PYTHON" -m pytest -q -n "${WORKERS:-2}" --dist loadscope --no-loadscope-reorder "$@" || failed+=("$name")
}

haswell() {
  combination "Haswell, without AVX-512" OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES="$WITHOUT_AVX512" \
    ONEDNN_MAX_CPU_ISA=AVX2 TF_ENABLE_ONEDNN_OPTS=1 OMP_NUM_THREADS=2 -- "${NUMERIC[@]}"
}

skylake() {
  if ! grep -qw avx512f /proc/cpuinfo; then
    skip "this processor has no AVX-512, and OpenBLAS' kernels for it cannot run"
    return
  fi
  combination "Skylake with AVX-512, no oneDNN" OPENBLAS_CORETYPE=SkylakeX TF_ENABLE_ONEDNN_OPTS=0 \
    OMP_NUM_THREADS=1 -- "${NUMERIC[@]}"
}

zen() {
  combination "Zen, oneDNN with AVX" OPENBLAS_CORETYPE=Zen NPY_DISABLE_CPU_FEATURES="FMA3 AVX2 $WITHOUT_AVX512" \
    ONEDNN_MAX_CPU_ISA=AVX TF_ENABLE_ONEDNN_OPTS=1 OMP_NUM_THREADS=2 -- "${NUMERIC[@]}"
}

# sse41 [TEST...]
sse41() {
  [ $# -gt 0 ] || set -- "${NUMERIC[@]}"
  combination "a processor with SSE4.1 and one thread" OPENBLAS_CORETYPE=Prescott \
    NPY_DISABLE_CPU_FEATURES="AVX2 FMA3 $WITHOUT_AVX512" ONEDNN_MAX_CPU_ISA=SSE41 TF_ENABLE_ONEDNN_OPTS=1 \
    OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 -- "$@"
}

emulated() {
  local emulator
  if ! emulator=$(command -v qemu-x86_64); then
    skip "no emulated processor: the package qemu-user is not installed"
    return
  fi
  ran+=1
  echo "test-portable: an emulated processor without AVX-512"
  # `max` is everything that QEMU can emulate: AVX2 and FMA, but not AVX-512.
  "$emulator" -cpu max "$PYTHON" -m pytest -q -n 0 -p no:cacheprovider "${EMULATED[@]}" -o timeout=3600 ||
    failed+=("the emulated processor")
}

skip() {
  skipped+=1
  echo "test-portable: $1"
}

case "${1-}" in
  --short) sse41 "${QUICK[@]}" ;;
  *)
    [ $# -gt 0 ] || set -- haswell skylake zen sse41 emulated
    for name in "$@"; do
      case "$name" in
        haswell | skylake | zen | sse41 | emulated) ;;
        *)
          echo "test-portable: give --short, or some of haswell, skylake, zen, sse41, emulated. Received: $*" >&2
          exit 1
          ;;
      esac
    done
    for name in "$@"; do "$name"; done
    ;;
esac

[ ${#failed[@]} -eq 0 ] || printf 'test-portable: failed on %s\n' "${failed[@]}" >&2
echo "RESULT test-portable combinations=$ran skipped=$skipped failed=${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
