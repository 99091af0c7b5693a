#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A job that is finished does nothing when it is run again, and says so in numbers.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --json >first
snapshot out >before
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --json >second
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --threads 1 --backend reference --max-memory 64M
snapshot out | diff before -
json first '28 < j["worst"]["sqnr_db"] < 35'
json second 'j["worst"] == {"tensor": None, "sqnr_db": None} and j["tensors"] == {"quantized": 26, "kept": 12}'
