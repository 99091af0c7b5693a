#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The maximum of each pass, the sum of what was counted: the same bytes in any order and grouping.
need "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
for i in 1 2 3; do
	amax make "$SAMPLES/tiny-moe/fused" $i.amax seed=$i passes=4 histogram=1
done
amax merge ranks wanted.amax 1.amax 2.amax 3.amax
"$FP8CONV" merge --ranks 1.amax 2.amax 3.amax -o 123.amax
amax same 123.amax wanted.amax
for order in "1 3 2" "2 1 3" "2 3 1" "3 1 2" "3 2 1"; do
	# shellcheck disable=SC2086
	set -- $order
	"$FP8CONV" merge --ranks "$1.amax" "$2.amax" "$3.amax" -o other.amax
	cmp 123.amax other.amax
done
"$FP8CONV" merge --ranks 3.amax 2.amax -o 32.amax
"$FP8CONV" merge --ranks 32.amax 1.amax -o 32-1.amax
cmp 123.amax 32-1.amax
