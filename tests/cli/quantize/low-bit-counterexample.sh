#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
