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
