#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The same bytes with any number of threads, any backend, and the least memory, which cuts rows into pieces.
backends=$("$FP8CONV" version | sed -n 's/^backend	\([a-z0-9]*\): usable.*/\1/p')
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" make "$variant" in
	"$FP8CONV" dequantize in -o wanted --backend reference --threads 1 --dtype f32
	for way in "--threads 2" "--threads 3" "--threads 1 --max-memory 24832K" "--threads 2 --max-memory 25088K" \
		"--threads 3 --max-memory 25344K" $(printf -- "--backend=%s " $backends); do
		# shellcheck disable=SC2086
		"$FP8CONV" dequantize in -o out $way --dtype f32
		same wanted out
		rm -rf out
	done
	rm -rf in wanted
done
fails 2 " dequantize: option '--max-memory' leaves * bytes for each thread, but a thread needs *" \
	dequantize "$SAMPLES/tiny-llama" --dry-run --threads 3 --max-memory 25343K
