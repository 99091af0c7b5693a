#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
