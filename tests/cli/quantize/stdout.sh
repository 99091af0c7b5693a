#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A stream that cannot be written is an error; a closed one that is not needed is none.
need "$SAMPLES/tiny-moe"
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
