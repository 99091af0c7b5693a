#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Scales of a low-bit source in a shard of their own: nothing remains in that shard of the output, and `verify` takes it.
python3 "$CLI/low_bit.py" finite ct-mxfp4 whole
mkdir split
cp whole/config.json split
python3 - <<'END'
import pathlib
import checkpoint
shards = {}, {}
for name, tensor in checkpoint.read("whole").items():
    shards[name.endswith("_scale")][name] = tensor
checkpoint.write_shards(pathlib.Path("split"), shards)
END
"$FP8CONV" quantize whole -o out --requantize --quiet
"$FP8CONV" quantize split -o out-split --requantize --quiet
python3 "$CLI/low_bit.py" same out out-split
"$FP8CONV" verify out-split --source split

# A weight with the scales of two packings: neither is preferred.
python3 "$CLI/low_bit.py" finite deepseek-v4 twice
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("twice")
w1 = "model.layers.0.mlp.experts.0.w1."
checkpoint.write("twice/model.safetensors", tensors | {w1 + "weight_scale_inv": tensors[w1 + "scale"]})
END
w1=model.layers.0.mlp.experts.0.w1
fails 3 " quantize: low-bit tensor '$w1.weight' has two scales: '$w1.scale' and '$w1.weight_scale_inv'" \
	quantize twice -o out-twice --requantize --recipe current
[ -e out-twice ] && ls out-twice
exit 0
