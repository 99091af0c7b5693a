#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The same bytes with any number of threads, any backend, any memory.
need "$SAMPLES/odd-shapes" "$SAMPLES/tiny-moe"
backends=$("$FP8CONV" version | sed -n 's/^backend	\([a-z0-9]*\): usable.*/\1/p')
for model in odd-shapes tiny-moe/fused-transposed; do
	for recipe in blockwise channelwise current mxfp8; do
		"$FP8CONV" quantize "$SAMPLES/$model" -o wanted --recipe $recipe --quiet --backend reference --threads 1
		for threads in 1 2 3 16; do
			"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --threads $threads
			same wanted out
			rm -rf out
		done
		for backend in $backends auto cpu; do
			"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --backend "$backend"
			same wanted out
			rm -rf out
		done
		"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --max-memory 64M
		same wanted out
		"$FP8CONV" quantize "$SAMPLES/$model" -o out2 --recipe $recipe --quiet --max-memory 4G
		same wanted out2
		rm -rf wanted out out2
	done
done
