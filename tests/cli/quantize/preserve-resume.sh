#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Preserved files belong to the job: what is missing of them is written again, and nobody else's are replaced.
need "$SAMPLES/tiny-moe"
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
