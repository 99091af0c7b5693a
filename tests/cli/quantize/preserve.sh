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

# Preserved files belong to the job: what is missing of them is written again, and nobody else's are replaced.
m=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$m" -o out --preserve-high-precision kept
cp -r kept first
rm kept/model-00001-of-00002.safetensors
"$FP8CONV" quantize "$m" -o out --preserve-high-precision kept
same first kept
grep -c '"name": "model-00001-of-00002.safetensors"' out/fp8conv-manifest.json | grep -vx 2
fails 2 " quantize: 'kept' contains 'model-00001-of-00002.safetensors', which fp8conv did not write: choose another directory, or --restart to overwrite" \
	quantize "$m" -o other --preserve-high-precision kept
same first kept
