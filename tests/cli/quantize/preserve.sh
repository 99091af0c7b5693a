#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The source values of what was quantized, and of nothing else.
need "$SAMPLES/tiny-moe"
for model in per-expert fused; do
	"$FP8CONV" quantize "$SAMPLES/tiny-moe/$model" -o out --preserve-high-precision kept
	"$FP8CONV" quantize "$SAMPLES/tiny-moe/$model" -o plain
	same plain out
	python3 "$CLI/checkpoint.py" list out >all
	python3 "$CLI/checkpoint.py" list "$SAMPLES/tiny-moe/$model" | grep -Fvxf all >wanted
	python3 "$CLI/checkpoint.py" list kept | diff wanted -
	[ "$(wc -l <wanted)" -ge 10 ] || cat wanted
	rm -rf out plain kept
done
fails 2 " quantize: *--preserve-high-precision*" quantize "$SAMPLES/tiny-moe/fused" -o out --preserve-high-precision out
fails 2 " quantize: *--preserve-high-precision*" quantize "$SAMPLES/tiny-moe/fused" -o - --preserve-high-precision kept
