#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# No spelling of an output or of a folder for preserved values leads to the input, or both to one file.
need "$SAMPLES/tiny-moe"
cp -r "$SAMPLES/tiny-moe/fused" m
snapshot m >../before
fails 2 " quantize: input and output are the same file 'm/model.safetensors'" \
	quantize m/model.safetensors -o out --preserve-high-precision m
fails 2 " quantize: input and output are the same file 'm/model.safetensors'" \
	quantize m/model.safetensors -o x.safetensors --preserve-high-precision m
fails 2 " quantize: input and output are the same file 'm/model.safetensors'" \
	quantize - -o m/model.safetensors <m/model.safetensors
mkdir d
fails 2 " quantize: option '--preserve-high-precision' would write 'd/model.safetensors', which is the output" \
	quantize m -o d/model.safetensors --preserve-high-precision d
fails 2 " quantize: option '--preserve-high-precision' and the output name the same directory 'pp'" \
	quantize m -o pp --preserve-high-precision ./pp
snapshot m | diff ../before -
rm ../before
