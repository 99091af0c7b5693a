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

mkdir next
cd next
# Six binades between the values of a block are not what counts: a block with 1 and 2^-18 is not exact.  S is 2^-8, the smallest
# power of two with 448 S >= 1, and FP8's smallest number times S is 2^-17.  With 2^-17 it is exact, and -0 keeps its sign.
block() {
	python3 - "$1" <<-'END'
		import sys, checkpoint
		low = int(sys.argv[1])                      # the exponent of the smallest value
		codes = bytearray(128 * 64)
		scales = bytearray([127 + low]) * (128 * 4)
		scales[0] = 127
		codes[0] = 0x2                              # 1 in the first group; -0 in its second element
		codes[0] |= 0x8 << 4
		codes[16 * 5] = 0x2                         # 2^low in another group
		checkpoint.write("in.safetensors", {"a.weight_packed": ("U8", [128, 64], codes), "a.weight_scale": ("U8", [128, 4], scales)})
	END
}
block -17
"$FP8CONV" quantize in.safetensors -o out.safetensors --requantize --exact --json >j
json j 'j["low_bit"] == {"kind": "mxfp4", "tensors": 1, "exact": 1, "values": 16384, "changed": 0, "first": None}' 'j["notes"] == []'
rm out.safetensors
block -18
sentence="1 of 16384 values of 1 of 1 tensors from MXFP4 are not exact in blockwise, first in 'a.weight': --recipe mxfp8 is"
fails 3 " quantize: $sentence; omit --exact to accept that" quantize in.safetensors -o out.safetensors --requantize --exact
[ -e out.safetensors ] && echo "out.safetensors was made"
"$FP8CONV" quantize in.safetensors -o out.safetensors --requantize --json >j --quiet
json j 'j["low_bit"] == {"kind": "mxfp4", "tensors": 1, "exact": 0, "values": 16384, "changed": 1, "first": "a.weight"}'
"$FP8CONV" quantize in.safetensors -o mx.safetensors --recipe mxfp8 --requantize --exact

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
