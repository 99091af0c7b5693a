#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every flavour comes back as code * scale_inv, to the bit, in every type; nothing that spoke of FP8 is left.
for flavour in $(python3 "$CLI/fp8.py" flavours); do
	python3 "$CLI/fp8.py" make "$flavour" in
	for dtype in bf16 f16 f32; do
		"$FP8CONV" dequantize in -o out --dtype $dtype
		python3 "$CLI/fp8.py" check "$flavour" out $dtype
		rm -rf out
	done
	rm -rf in
done
