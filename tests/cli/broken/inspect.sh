#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every broken sample is refused with its message, but for one that only lacks a file (dequantize/unfinished).
need "python3()"
python3 "$SAMPLES/broken.py" broken
for expected in broken/*.expected; do
	path=${expected%.expected}
	[ "$path" != broken/shard-missing ] || continue
	[ -e "$path" ] || path=$path.safetensors
	"$FP8CONV" inspect "$path" >out 2>err
	status=$?
	[ $status -eq 3 ] || echo "$path: exit status $status"
	[ -s out ] && echo "$path: wrote to stdout"
	printf 'fp8conv inspect: %s\n' "$(cat "$expected")" | diff - err
done
