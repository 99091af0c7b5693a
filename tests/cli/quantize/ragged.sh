#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/odd-shapes"
"$FP8CONV" quantize "$SAMPLES/odd-shapes" --dry-run --json >a
"$FP8CONV" quantize "$SAMPLES/odd-shapes" --dry-run --json --ragged >b
json a '[t["reason"] for t in j["tensors"] if t["name"] == "model.layers.0.self_attn.q_proj.weight"] ==
	["K 300 is not a multiple of 128"]'
json b '[t["outputs"][1]["shape"] for t in j["tensors"] if t["name"] == "model.layers.0.self_attn.q_proj.weight"] == [[3, 3]]'
"$FP8CONV" quantize "$SAMPLES/odd-shapes" -o out --ragged
python3 "$CLI/checkpoint.py" list out | grep -c F8_E4M3 | while read -r n; do
	json b "j['totals']['quantized'] == $n"
done
