#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Scales of a low-bit source in a shard of their own: nothing remains in that shard of the output, and `verify` takes it.
python3 "$CLI/low_bit.py" finite ct-mxfp4 whole
mkdir split
cp whole/config.json split
PYTHONPATH=$CLI PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import json
import checkpoint
weight_map = {}
for i, is_scale in enumerate((False, True)):
    file, header, data = f"model-{i + 1:05}-of-00002.safetensors", {}, b""
    for name, dtype, shape, block in checkpoint.read("whole"):
        if name.endswith("_scale") == is_scale:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(block)]}
            data += block
            weight_map[name] = file
    text = json.dumps(header).encode()
    open("split/" + file, "wb").write(len(text).to_bytes(8, "little") + text + data)
json.dump({"weight_map": weight_map}, open("split/model.safetensors.index.json", "w"))
END
"$FP8CONV" quantize whole -o out --requantize --quiet
"$FP8CONV" quantize split -o out-split --requantize --quiet
python3 "$CLI/low_bit.py" same out out-split
"$FP8CONV" verify out-split --source split

# A weight with the scales of two packings: neither is preferred.
python3 "$CLI/low_bit.py" finite deepseek-v4 twice
PYTHONPATH=$CLI PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import json
import checkpoint
header, data = {}, b""
for name, dtype, shape, block in checkpoint.read("twice"):
    for key in (name, name.replace(".scale", ".weight_scale_inv")) if name.endswith("0.w1.scale") else (name,):
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(block)]}
        data += block
text = json.dumps(header).encode()
open("twice/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + data)
END
w1=model.layers.0.mlp.experts.0.w1
fails 3 " quantize: low-bit tensor '$w1.weight' has two scales: '$w1.scale' and '$w1.weight_scale_inv'" \
	quantize twice -o out-twice --requantize --recipe current
[ -e out-twice ] && ls out-twice
exit 0
