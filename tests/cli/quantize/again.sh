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

mkdir next
cd next
# A finished job does nothing when it is run again.  What it did not measure it does not claim: figures of rounding are
# null unless one run wrote all files.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out --json >first
snapshot out >before
"$FP8CONV" quantize "$model" -o out --json >second
"$FP8CONV" quantize "$model" -o out --threads 1 --backend reference --max-memory 64M
snapshot out | diff before -
json first '28 < j["worst"]["sqnr_db"] < 35'
json second 'j["tensors"] == {"quantized": 26, "kept": 12}'
json first 'j["saturated"] == 0 and j["nonfinite"] == 0'
unknown='j["saturated"] is None and j["nonfinite"] is None and j["worst"] == {"tensor": None, "sqnr_db": None}'
json second "$unknown"
# Nor does a job that makes one of its files again, or a part.
rm out/model-00001-of-00002.safetensors
"$FP8CONV" quantize "$model" -o out --json >again
json again "$unknown"
"$FP8CONV" quantize "$model" -o parts --part 1/2 --json >part
json part "$unknown"
"$FP8CONV" quantize "$model" -o out --verbose 2>&1 | grep -E 'saturated|SQNR' || :
