#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A stream that cannot be written is an error; a closed one that is not needed is none.
need /dev/full "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/fused/model.safetensors
"$FP8CONV" quantize "$in" -o - >/dev/full 2>err
[ $? -eq 4 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: .*: No space left on device$' err || cat err
"$FP8CONV" quantize "$in" -o - 2>err >&-
[ $? -eq 4 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: .*: Bad file descriptor$' err || cat err
(
	"$FP8CONV" quantize "$in" -o - 2>err
	echo $? >status
) | head -c 1 >/dev/null
[ "$(cat status)" -eq 4 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: .*: Broken pipe$' err || cat status err
"$FP8CONV" quantize "$in" --dry-run >/dev/full 2>err
[ $? -eq 4 ] && [ "$(cat err)" = 'fp8conv quantize: cannot write standard output: No space left on device' ] || cat err
# Descriptors that the caller closed are not given to files.
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o wanted
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o closed <&- >&- 2>&- || echo "with everything closed: $?"
same wanted closed

# A message about a full standard output says why, also where the first of two writes is the one that fails: the second then
# has nothing left to say.

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
