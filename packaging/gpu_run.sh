#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs tests/gpu.sh from the bundle of `make gpu-bundle`: nothing is installed, nothing fetched.
#
#	run.sh parity files bench	less than 9 minutes
#	run.sh sanitize			less than 9 minutes
#
# The last lines are the table.  A step that cannot run here says SKIPPED, with FP8CONV_EXPECT_GPU=1 it
# has failed.  OUT: where logs go.  Python is wanted for bench and for half of files, no packages.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$here/tree
[ $# -gt 0 ] || set -- parity files bench

if [ ! -e "$here/unpacked" ]; then
	mkdir -p "$tree"
	if command -v xz >/dev/null; then
		xz -dc "$here/tree.tar.xz"
	else
		LD_LIBRARY_PATH=$here "$here/xz" -dc "$here/tree.tar.xz"
	fi | tar -C "$tree" -xf -
	touch "$here/unpacked"
fi
cd "$tree"
# Of the libraries, those that are not on this machine.
used=$tree/used
mkdir -p "$used"
LD_LIBRARY_PATH=$used${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

take() {
	ln -sf "../lib/$1" "$used/$1"
	echo "library: $1, of the bundle"
}

# unresolved: libraries that something needs and that are not there, or too old.
unresolved() {
	for file in programs/fp8conv programs/bench/* programs/tests/unit/* used/libdnnl.so.*; do
		[ ! -f "$file" ] || "$(cat loader)" --list "./$file" 2>&1 || true
	done | sed -n 's/^[[:space:]]*\([^ ]*\) => not found$/\1/p
		s/.*error while loading shared libraries: \([^ :]*\): cannot open.*/\1/p
		s/^[^:]*: \([^ :]*\/\)\{0,1\}\([^ :/]*\): version .* not found .*/\2/p' | sort -u
}

for library in lib/libdnnl.so.*; do
	[ -e "$used/${library#lib/}" ] || take "${library#lib/}"
done
while missing=$(unresolved) && [ -n "$missing" ]; do
	for library in $missing; do
		if [ ! -e "lib/$library" ] || [ -e "$used/$library" ]; then
			echo "FAILED: the programs cannot be loaded here: $library is not there, or too old"
			exit 1
		fi
		take "$library"
	done
done

echo "all programs load"

# cuBLASLt: of the machine's loader, of the toolkit, or of Python's packages of NVIDIA.
cublaslt() {
	python=$(command -v python3 >/dev/null &&
		python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null) || python=
	for folder in "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda*/lib64 \
		/usr/local/cuda*/targets/*/lib ${python:+"$python"/nvidia/*/lib}; do
		for library in "$folder"/libcublasLt.so.13 "$folder"/libcublasLt.so.12; do
			if [ -e "$library" ] && [ ! -e "$used/${library##*/}" ]; then
				ln -s "$library" "$used"
			fi
		done
	done
}
ls "$used"/libcublasLt.so.* >/dev/null 2>&1 || cublaslt

echo "fp8conv $(cat revision)"
programs/fp8conv version
PROGRAMS=programs PARITY=$(cat parity) OUT=${OUT:-$here/logs} sh tests/gpu.sh "$@"
