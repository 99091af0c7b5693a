#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the Makefile asks of an nvcc: the architectures that it knows, with CUDA 12.0, which has no
# Blackwell, and with 13.0.  Nothing is compiled.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
mkdir -p "$BUILD"
scratch=$(mktemp -d "$BUILD/build-XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
status=0

# fake_nvcc ARCHITECTURE...: an nvcc that knows these.
fake_nvcc() {
	mkdir -p "$scratch/bin"
	{
		echo '#!/bin/sh'
		printf 'echo compute_%s\n' "$@"
	} >"$scratch/bin/nvcc"
	chmod +x "$scratch/bin/nvcc"
}

# dry_make ARGUMENT...
dry_make() {
	make -n V=1 SANITIZE= CUDA=1 NVCC="$scratch/bin/nvcc" BUILD="$scratch/out" "$@" 2>&1
}

# flags [ARGUMENT]...: what a kernel is compiled for, without "-gencode arch=compute_".
flags() {
	dry_make "$@" "$scratch/out/$kernel.o" | tr ' ' '\n' | sed -n 's/^arch=compute_//p' | tr '\n' ' '
}

# expect NAME EXPECTED ACTUAL
expect() {
	[ "$2" = "$3" ] && return
	printf '%s: %s\n  expected %s\n' "$1" "$3" "$2"
	status=1
}

kernel=$(sh tests/files.sh 'kernels/*/cast.cu' | head -n 1)
ptx="80,code=compute_80 90,code=compute_90 "
fake_nvcc 50 52 53 60 61 62 70 72 75 80 86 87 89 90
expect "CUDA 12.0" "80,code=sm_80 89,code=sm_89 90a,code=sm_90a $ptx" "$(flags)"
expect "an SM that it does not know" "$ptx" "$(flags SM=120)"
fake_nvcc 75 80 86 87 88 89 90 100 110 103 120 121
sm="80,code=sm_80 89,code=sm_89 90a,code=sm_90a 100,code=sm_100 120,code=sm_120"
expect "CUDA 13.0" "$sm $ptx" "$(flags)"
expect "SM=103" "103,code=sm_103 $ptx" "$(flags SM=103)"
fake_nvcc 20 30
case $(dry_make) in
*"lists none of the GPU architectures"*) ;;
*) expect "an nvcc of long ago" "an error" "none" ;;
esac
exit $status
