#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every broken sample is refused with its message, but for one that only lacks a file (dequantize/unfinished).
need "$SAMPLES/broken"
cd "$SAMPLES/.." || exit
scratch=$OLDPWD
for expected in sample_checkpoints/broken/*.expected; do
	path=${expected%.expected}
	[ "$path" != sample_checkpoints/broken/shard-missing ] || continue
	[ -e "$path" ] || path=$path.safetensors
	"$FP8CONV" inspect "$path" >"$scratch/out" 2>"$scratch/err"
	status=$?
	[ $status -eq 3 ] || echo "$path: exit status $status"
	[ -s "$scratch/out" ] && echo "$path: wrote to stdout"
	printf 'fp8conv inspect: %s\n' "$(cat "$expected")" | diff - "$scratch/err"
done
