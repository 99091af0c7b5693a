#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the kernels cost by their machine code, against limits.txt; then that sass.py refuses the kernels of refused.cu.
# BUILD: the build whose objects are read (`make sass`); NVCC.
set -u
cd "$(dirname "$0")/../.." || exit 2

# tool NAME: prints the path of a program of the CUDA toolkit, or of the same one from PyPI.
tool() {
	command -v "$1" && return
	if [ -x "$(dirname "$NVCC")/$1" ]; then
		echo "$(dirname "$NVCC")/$1"
		return
	fi
	venv=$(sh tests/conformance/venv.sh tests/sass/requirements.txt) || return
	find "$venv/lib" -path '*/nvidia/*' -name "$1" -type f | grep .
}

cuobjdump=$(tool cuobjdump) && nvdisasm=$(tool nvdisasm) || exit 1
sass() {
	python3 tests/sass/sass.py --cuobjdump "$cuobjdump" --nvdisasm "$nvdisasm" --build "$BUILD" "$1"
}

sass tests/sass/limits.txt || exit 1
refused=$BUILD/tests/sass/refused.err
if sass tests/sass/refused.txt >/dev/null 2>"$refused"; then
	echo "sass: refused.txt was accepted" >&2
	exit 1
fi
for refusal in 'branch-per-element .* branches a thread, at most' 'branch-per-element .* 1 loads before the first use, at least' \
	'branch-in-call .* branches a thread, at most'; do
	grep -q "^sass: $refusal" "$refused" ||
		{ cat "$refused"; echo "sass: not refused: $refusal" >&2; exit 1; }
done
