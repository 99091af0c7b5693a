#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Older ModelOpt keeps its configuration in hf_quant_config.json alone: --requantize reads it, and refuses what is packed.
need "$SAMPLES/tiny-llama"
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
import json
data = open("old/model.safetensors", "rb").read()
n = int.from_bytes(data[:8], "little")
header = json.loads(data[8:8 + n])
end = max(t["data_offsets"][1] for name, t in header.items() if name != "__metadata__")
header["model.layers.0.mlp.packed_proj.weight"] = {"dtype": "U8", "shape": [2, 4], "data_offsets": [end, end + 8]}
text = json.dumps(header).encode()
open("old/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + data[8 + n:] + bytes(8))
END
fails 3 " quantize: tensor 'model.layers.0.mlp.packed_proj.weight' is U8 in a source that is already quantized (quant_method 'modelopt'): only FP8 sources can be requantized" \
	quantize old -o c --requantize
