#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every packing of low-bit weights comes back as code * scale, to the bit, in every type, under the name and in the layout that
# the family has in BF16; scales and configuration are left out.
for packing in $(python3 "$CLI/low_bit.py" packings); do
	python3 "$CLI/low_bit.py" make "$packing" in
	for dtype in bf16 f16 f32; do
		"$FP8CONV" dequantize in -o out --dtype $dtype
		python3 "$CLI/low_bit.py" check "$packing" out $dtype
		rm -rf out
	done
	rm -rf in
done
