#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# decoded PROGRAM LIST: every checkpoint of that list comes back as code * scale, to the bit, in every type that has these
# values; f16 ends at 65504.
decoded() {
	for variant in $(python3 "$CLI/$1.py" "$2"); do
		python3 "$CLI/$1.py" make "$variant" in
		for dtype in bf16 f16 f32; do
			if "$FP8CONV" dequantize in -o out --dtype $dtype 2>said; then
				python3 "$CLI/$1.py" check "$variant" out $dtype
			else
				grep -q " has no finite F16 value at .*: use --dtype bf16 or f32" said || cat said
				python3 "$CLI/$1.py" beyond "$variant" $dtype
				[ ! -e out ] || echo "$variant $dtype: out was made"
			fi
			rm -rf out
		done
		rm -rf in said
	done
}
# Nothing that spoke of FP8 is left.
decoded fp8 variants
# Low-bit weights have the name and the layout that the family has in BF16; scales and configuration are left out.
decoded low_bit packings

# The smallest number of f16 is 2^-24, and half of it rounds to even, to 0: of 0, 2^-26, 2^-25 and 1.5 * 2^-25 two vanish.
python3 - <<'END'
import checkpoint
checkpoint.write("small.safetensors", {"a.weight": ("F8_E4M3", [1, 4], bytes(range(4))), "a.weight_scale": ("F32", [1], checkpoint.pack("F32", [2**-17]))})
END
"$FP8CONV" dequantize small.safetensors -o f16.safetensors --dtype f16
"$FP8CONV" dequantize small.safetensors -o bf16.safetensors

mkdir next
cd next
# Weights without elements, of whatever sides, stay without.
python3 - <<'END'
import checkpoint
tensors = {}
for name, shape in (("a", [5, 0]), ("b", [0, 5]), ("c", [1 << 30, 1 << 30, 0]), ("d", [0, 1 << 40, 1 << 40]), ("e", [2, 1])):
    tensors[f"{name}.weight"] = "F8_E4M3", shape, bytes(2 if name == "e" else 0)
    tensors[f"{name}.weight_scale"] = "F32", [1], bytes([0, 0, 128, 63])
checkpoint.write("in.safetensors", tensors)
END
"$FP8CONV" dequantize in.safetensors -o out.safetensors
python3 "$CLI/checkpoint.py" list out.safetensors | cut -f 1-3 >found
printf '%s\tBF16\t%s\n' a.weight 5x0 b.weight 0x5 c.weight 1073741824x1073741824x0 \
	d.weight 0x1099511627776x1099511627776 e.weight 2x1 | diff - found

#2> fp8conv dequantize: note: 2 values are too small for F16 and become 0, first in 'a.weight': use --dtype bf16 or f32
