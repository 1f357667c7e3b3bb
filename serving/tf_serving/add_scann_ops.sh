#!/usr/bin/env bash
# Makes ScaNN's ops part of TensorFlow Serving's build.
#
#   add_scann_ops.sh SCANN SERVING
#
# SCANN is ScaNN's source (the directory with `scann/scann_ops`), SERVING TensorFlow Serving's.
# Every edit is checked, and so is every external repository that ScaNN's BUILD files name: an unexpected source
# stops the build here and not hours later.
set -euo pipefail

scann=$1
serving=$2
ops=$scann/scann/scann_ops/cc/BUILD.bazel
wrappers=$scann/scann/oss_wrappers/BUILD.bazel
servers=$serving/tensorflow_serving/model_servers/BUILD
workspace=$serving/WORKSPACE
target=@com_google_scann//scann/scann_ops/cc:scann_ops_static

# Repositories in TensorFlow Serving's workspace, its own or TensorFlow's.
provided="bazel_skylib bazel_tools com_google_absl com_google_googletest com_google_protobuf org_tensorflow platforms
  rules_cc rules_proto rules_python"
# Repositories that are added below. A git commit is a hash of its content, so Bazel gets exactly that.
added="cnpy"
cnpy_commit=57184ee0db37cac383fc29175950747a46a8b512 # the one that ScaNN's own workspace names

fail() {
  echo "add_scann_ops: $1" >&2
  exit 1
}

expect() { # FILE PATTERN
  [[ -f $1 ]] || fail "$1 is missing."
  grep --quiet --extended-regexp "$2" "$1" || fail "$1 does not contain: $2"
}

# The external repositories that BUILD files and what they load name: `@name//package` or `@name`, in quotes.
named_repositories() {
  find "$scann/scann" \( -name BUILD.bazel -o -name '*.bzl' \) -exec cat {} + | grep --invert-match '^ *#' |
    grep --only-matching --extended-regexp '"@[A-Za-z0-9_.-]+' | cut --characters=3- | sort --unique
}

if grep --quiet --fixed-strings "$target" "$servers"; then
  fail "$servers has ScaNN's ops already."
fi
expect "$ops" '^pybind_library\('
expect "$ops" 'name = "scann_ops_kernels"'
expect "$wrappers" '@local_config_tf//'
expect "$servers" '^ *"@org_tensorflow_text//tensorflow_text:ops_lib",'
expect "$workspace" '^workspace\('

# Leaves out Python's bindings: those of the ops, and packages that contain nothing else.
while IFS= read -r file; do
  rm -- "$file"
done < <(grep --recursive --files-with-matches --include BUILD.bazel '^pybind_extension(' "$scann/scann" || true)

# ScaNN is built against the TensorFlow that the server is linked with, not against a wheel.
find "$scann/scann" -name BUILD.bazel -exec sed --in-place \
  --expression '/@local_config_tf\/\/:tf_header_lib/d' \
  --expression 's|@local_config_tf//:libtensorflow_framework|@org_tensorflow//tensorflow/core:tensorflow_opensource|' \
  {} +

# The two halves of the ops are joined in one library.
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

for name in $(named_repositories); do
  [[ " ${provided//$'\n'/ } $added " == *" $name "* ]] ||
    fail "ScaNN's BUILD files name @$name, which is in no workspace; declare it here, by a commit or a checksum."
done

cat >>"$workspace" <<EOF

load("@bazel_tools//tools/build_defs/repo:git.bzl", "git_repository")

local_repository(
    name = "com_google_scann",
    path = "$scann",
)

git_repository(
    name = "cnpy",
    commit = "$cnpy_commit",
    remote = "https://github.com/sammymax/cnpy.git",
)
EOF
sed --in-place "s|^\( *\)\"@org_tensorflow_text//tensorflow_text:ops_lib\",|&\n\1\"$target\",|" "$servers"

expect "$servers" "$target"
