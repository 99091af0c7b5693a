#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# --manifest: the SHA-256 of every file, as sha256sum has it.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --manifest
for file in "$SAMPLES"/tiny-moe/per-expert/*.safetensors out/*.safetensors out/config.json; do
	grep -q "$(sha256sum "$file" | cut -d ' ' -f 1)" out/fp8conv-manifest.json || echo "not the hash of $file"
done
snapshot out >before
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --manifest
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out
snapshot out | diff before -
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o plain
same plain out
fails 2 " quantize: *--manifest*" quantize "$SAMPLES/tiny-moe/fused" -o x.safetensors --manifest
