#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# An FP8 source is refused, or read through its scales.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o fp8
fails 2 " quantize: *--requantize*" quantize fp8 -o out
fails 2 " quantize: *--requantize*" quantize fp8 --dry-run
[ ! -e out ] || echo "out was made"
"$FP8CONV" quantize fp8 -o out --recipe mxfp8 --requantize
"$FP8CONV" inspect out --json >j
json j 'j["recipe"] == "mxfp8"' 'sum(t["dtype"] == "F8_E4M3" for t in j["tensors"]) == 26' \
	'sum(t["name"].endswith("_scale_inv") for t in j["tensors"]) == 26' \
	'all(t["dtype"] == "U8" for t in j["tensors"] if t["name"].endswith("_scale_inv"))'

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
