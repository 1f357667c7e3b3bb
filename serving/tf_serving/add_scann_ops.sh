#!/usr/bin/env bash
# Makes ScaNN's ops part of TensorFlow Serving's build.
#
#   add_scann_ops.sh SCANN SERVING
#
# SCANN is ScaNN's source (the directory with `scann/scann_ops`), SERVING TensorFlow Serving's.
# Every edit is checked: a source that looks different from what is expected stops the build here
# and not hours later.
set -euo pipefail

scann=$1
serving=$2
ops=$scann/scann/scann_ops/cc/BUILD.bazel
wrappers=$scann/scann/oss_wrappers/BUILD.bazel
servers=$serving/tensorflow_serving/model_servers/BUILD
workspace=$serving/WORKSPACE
target=@com_google_scann//scann/scann_ops/cc:scann_ops_static

fail() {
  echo "add_scann_ops: $1" >&2
  exit 1
}

expect() { # FILE PATTERN
  [[ -f $1 ]] || fail "$1 is missing."
  grep --quiet --extended-regexp "$2" "$1" || fail "$1 does not contain: $2"
}

if grep --quiet --fixed-strings "$target" "$servers"; then
  fail "$servers has ScaNN's ops already."
fi
expect "$ops" '^pybind_library\('
expect "$ops" 'name = "scann_ops_kernels"'
expect "$wrappers" '@local_config_tf//'
expect "$servers" '^ *"@org_tensorflow_text//tensorflow_text:ops_lib",'
expect "$workspace" '^workspace\('

# ScaNN is built against the TensorFlow that the server is linked with, not against a wheel.
find "$scann/scann" -name BUILD.bazel -exec sed --in-place \
  --expression '/@local_config_tf\/\/:tf_header_lib/d' \
  --expression 's|@local_config_tf//:libtensorflow_framework|@org_tensorflow//tensorflow/core:tensorflow_opensource|' \
  {} +

# Python's bindings are left out, and both halves of the ops joined in one library.
sed --in-place \
  --expression '/^load("@pybind11_bazel/d' \
  --expression '/^pybind_library(/,/^)/d' \
  --expression '/^cc_binary(/,/^)/d' \
  "$ops"
cat >>"$ops" <<'EOF'

cc_library(
    name = "scann_ops_static",
    deps = [
        ":scann_ops",
        ":scann_ops_kernels",
    ],
    alwayslink = 1,
)
EOF

cat >>"$workspace" <<EOF

local_repository(
    name = "com_google_scann",
    path = "$scann",
)
EOF
sed --in-place "s|^\( *\)\"@org_tensorflow_text//tensorflow_text:ops_lib\",|&\n\1\"$target\",|" "$servers"

expect "$servers" "$target"
if grep --recursive --quiet '@local_config_tf' "$scann/scann" --include BUILD.bazel; then
  fail "ScaNN still refers to a TensorFlow wheel."
fi
