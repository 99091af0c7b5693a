#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Scales and codes by which a weight has no value are refused by each command that reads them, with the place; nothing is made.

# change TENSOR INDEX BYTES: puts the bytes, as hexadecimal digits, into an element of in/model.safetensors.
change() {
	python3 - "$@" <<-'END'
		import sys
		import checkpoint
		name, index, data = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
		tensors = checkpoint.read("in")
		dtype, shape, old = tensors[name]
		tensors[name] = dtype, shape, old[:index * len(data)] + data + old[(index + 1) * len(data):]
		checkpoint.write("in/model.safetensors", tensors)
	END
}
# refused MESSAGE COMMAND...: it ends with 3, and makes nothing.
refused() {
	message=$1
	shift
	fails 3 " $1: $message" "$@"
	[ ! -e out ] || ls out
	rm -rf out
}
scale="scale 'a.weight_scale_inv' in 'in/model.safetensors' is"
for row in "0000c07f nan" "0000807f inf" "000000bf -0.5" "00000000 0" "00000080 -0"; do
	python3 "$CLI/fp8.py" finite hf-block in
	change a.weight_scale_inv 1 "${row% *}"
	refused "$scale ${row#* } at 1, but no code has a value unless its scale is finite and above 0: *" dequantize in -o out
	refused "$scale ${row#* } at 1, but *" repack in -o out --format compressed-tensors
	refused "$scale ${row#* } at 1, but *" quantize in -o out --requantize --recipe channelwise --include a.weight
	rm -rf in
done
python3 "$CLI/fp8.py" finite mxfp8 in
change a.weight_scale_inv 1 ff
refused "$scale nan at 1, but *" dequantize in -o out
refused "$scale nan at 1, but *" repack in -o out --format modelopt
rm -rf in
python3 "$CLI/fp8.py" finite hf-block in
change a.weight 5 7f
refused "tensor 'a.weight' in 'in/model.safetensors' has no finite BF16 value at \[0, 5]: its code is NaN or infinite, or *" dequantize in -o out
rm -rf in
# Scales that divide, where no configuration says so.
python3 - <<'END'
import struct
import checkpoint
tensors = {}
for i in range(3):
    tensors[f"model.layers.{i}.mlp.up_proj.weight"] = "F8_E4M3", [128, 128], bytes([0x7E]) * 128 * 128
    tensors[f"model.layers.{i}.mlp.up_proj.weight_scale_inv"] = "F32", [1, 1], struct.pack("<f", 2240.0)
checkpoint.write("in.safetensors", tensors)
END
divide="scale '*.weight_scale_inv' in 'in.safetensors' is 2240, and the scales of 3 of 3 weights are as large: they look like divisors, *"
refused "$divide" dequantize in.safetensors -o out
refused "$divide" repack in.safetensors -o out --format hf
refused "$divide" quantize in.safetensors -o out --requantize
rm in.safetensors
ls
