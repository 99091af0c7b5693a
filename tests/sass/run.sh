#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the kernels cost by their machine code, against limits.txt; then that sass.py refuses the kernels of refused.cu.
# CUBINS: the directory with the .cubin and .log of each source (`make sass`); NVCC.
set -u
cd "$(dirname "$0")/../.." || exit 2
nvdisasm=$(command -v nvdisasm) || nvdisasm=$(dirname "$NVCC")/nvdisasm
if [ ! -x "$nvdisasm" ]; then
	venv=$(sh tests/conformance/venv.sh tests/sass/requirements.txt) || exit 1
	nvdisasm=$(find "$venv/lib" -path '*/nvidia/*' -name nvdisasm -type f | head -n 1)
fi
python3 tests/sass/sass.py --nvdisasm "$nvdisasm" --cubins "$CUBINS" tests/sass/limits.txt || exit 1
if python3 tests/sass/sass.py --nvdisasm "$nvdisasm" --cubins "$CUBINS" tests/sass/refused.txt >/dev/null 2>"$CUBINS/refused.err"; then
	echo "sass: refused.txt was accepted" >&2
	exit 1
fi
for refusal in 'branch-per-element .* branches a thread, at most' 'branch-per-element .* 1 loads before the first use, at least' \
	'branch-in-call .* branches a thread, at most'; do
	grep -q "^sass: $refusal" "$CUBINS/refused.err" ||
		{ cat "$CUBINS/refused.err"; echo "sass: not refused: $refusal" >&2; exit 1; }
done
