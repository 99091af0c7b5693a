#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every variant comes back as code * scale_inv, to the bit, in every type; nothing that spoke of FP8 is left.
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" make "$variant" in
	for dtype in bf16 f16 f32; do
		"$FP8CONV" dequantize in -o out --dtype $dtype
		python3 "$CLI/fp8.py" check "$variant" out $dtype
		rm -rf out
	done
	rm -rf in
done
