#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A disk that takes no more, played by a limit on the size of files: status 4, one line, nothing left.
need "$SAMPLES/tiny-moe"
(
	ulimit -f 100
	fails 4 " quantize: *" quantize "$SAMPLES/tiny-moe/fused" -o out
	fails 4 " quantize: *" quantize "$SAMPLES/tiny-moe/fused/model.safetensors" -o out.safetensors
	fails 4 " quantize: *" quantize "$SAMPLES/tiny-moe/fused/model.safetensors" -o -
)
find . -name '*.safetensors*' -o -name config.json -o -name '.*.partial'
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o out
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o wanted
same wanted out
