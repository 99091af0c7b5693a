#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Tensors that are kept are the source's, byte for byte; the others have their codes under the old name and shape.
need "$SAMPLES/odd-shapes" "$SAMPLES/tiny-moe"
for model in odd-shapes tiny-moe/per-expert; do
	"$FP8CONV" quantize "$SAMPLES/$model" -o out --quiet
	python3 "$CLI/checkpoint.py" list "$SAMPLES/$model" >before
	python3 "$CLI/checkpoint.py" list out | grep -v '_scale_inv	' >after
	grep -v '	F8_E4M3	' after >kept
	grep -Fvxf kept before | cut -f 1,3 >quantized
	grep '	F8_E4M3	' after | cut -f 1,3 | diff quantized -
	[ "$(wc -l <kept)" -gt 10 ] && [ "$(wc -l <quantized)" -gt 10 ] || echo "$model: too few to tell"
	rm -rf out
done
