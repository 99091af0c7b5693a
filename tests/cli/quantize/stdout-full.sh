#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A message about a full standard output says why, also where the first of two writes is the one that fails: the second then
# has nothing left to say.
. "$CLI/lib.sh"
need /dev/full "$SAMPLES/tiny-moe/fused"

length() {
	"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o "$1" --dry-run | wc -c
}
name=o
length=$(length "$name")
block=4096 # bytes that are written at once; 8 more make two writes
while [ $(((length - 8) % block)) -ne 0 ]; do
	missing=$((block - (length - 8) % block))
	[ $missing -lt 200 ] || missing=200
	name=$name/$(head -c "$missing" /dev/zero | tr '\0' o | cut -c2-)
	longer=$(length "$name")
	[ "$longer" -eq $((length + missing)) ] || break
	length=$longer
done
[ $(((length - 8) % block)) -eq 0 ] || echo "the plan has $length bytes, and not 8 more than blocks"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o "$name" --dry-run >/dev/full 2>err
[ $? -eq 4 ] || echo "exit status"
grep -q 'cannot write standard output: No space left on device' err || cat err
