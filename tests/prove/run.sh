#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the proofs against $BUILD/libfp8conv.a and runs them; the arguments are prove's.  NVIDIA's header joins in
# where CUDA_HOME or nvcc leads to it.
set -eu
build=${BUILD:-build} cc=${CC:-cc} out=${BUILD:-build}/tests/prove
mkdir -p "$out"

cuda=${CUDA_HOME:-}
[ -n "$cuda" ] || ! command -v nvcc >/dev/null || cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
header=
for folder in "$cuda/include" "$cuda"/targets/*/include; do
	[ ! -f "$folder/cuda_fp8.h" ] || header=$folder
done
cuda_object=
if [ -n "$header" ] && command -v "${CXX:-c++}" >/dev/null; then
	cuda_object=$out/cuda_fp8.o
	"${CXX:-c++}" -std=c++17 -O2 -isystem "$header" -c -o "$cuda_object" tests/prove/cuda_fp8.cc
fi
# shellcheck disable=SC2086
$cc -std=gnu11 -O2 -ffp-contract=off -Wall -Wextra -Werror -Isrc -pthread -o "$out/prove" tests/prove/*.c \
	$cuda_object "$build/libfp8conv.a" -lm
exec "$out/prove" "$@"
