#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# An FP8 source is refused, or read through its scales.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o fp8
fails 2 " quantize: *--requantize*" quantize fp8 -o out
fails 2 " quantize: *--requantize*" quantize fp8 --dry-run
[ ! -e out ] || echo "out was made"
"$FP8CONV" quantize fp8 -o out --recipe mxfp8 --requantize
"$FP8CONV" inspect out --json >j
json j 'j["recipe"] == "mxfp8"' 'sum(t["dtype"] == "F8_E4M3" for t in j["tensors"]) == 26' \
	'sum(t["name"].endswith("_scale_inv") for t in j["tensors"]) == 26' \
	'all(t["dtype"] == "U8" for t in j["tensors"] if t["name"].endswith("_scale_inv"))'

# Older ModelOpt keeps its configuration in hf_quant_config.json alone: --requantize reads it, and refuses what is packed.
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o in --recipe mxfp8 --format modelopt
cp -r in old
rm old/fp8conv-manifest.json
python3 -c '
import json
config = json.load(open("old/config.json"))
del config["quantization_config"]
json.dump(config, open("old/config.json", "w"))'
"$FP8CONV" quantize in -o a --requantize --recipe channelwise
"$FP8CONV" quantize old -o b --requantize --recipe channelwise
cmp a/model.safetensors b/model.safetensors
"$FP8CONV" verify b
[ ! -e b/hf_quant_config.json ] || echo "the old configuration is still there"

python3 - <<'END'
import checkpoint
packed = {"model.layers.0.mlp.packed_proj.weight": ("U8", [2, 4], bytes(8))}
checkpoint.write("old/model.safetensors", checkpoint.read("old") | packed)
END
fails 3 " quantize: tensor 'model.layers.0.mlp.packed_proj.weight' is U8 in a source that is already quantized (quant_method 'modelopt'): only FP8 sources can be requantized" \
	quantize old -o c --requantize

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
