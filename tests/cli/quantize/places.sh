#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Where output may not go; a refusal leaves everything as it was.
need "$SAMPLES/tiny-moe"
cp -r "$SAMPLES/tiny-moe/fused" in
ln -s in link
mkdir empty
: >file
snapshot . >../before
for out in in in/ ./in link link/../in "$PWD/in"; do
	fails 2 " quantize: input and output are the same directory '*'" quantize in -o "$out"
done
fails 2 " quantize: *same*" quantize in/model.safetensors -o in/model.safetensors
fails 2 " quantize: *same*" quantize in/model.safetensors -o link/model.safetensors
fails 2 " quantize: *" quantize in/model.safetensors -o in
fails 3 " quantize: *'file'*" quantize in -o file
fails 3 " quantize: *'in/config.json/deep'*" quantize in -o in/config.json/deep
fails 2 " quantize: *" quantize in -o empty --target trtllm --recipe current
fails 2 " quantize: *" quantize in -o empty --tp 64
fails 2 " quantize: *" quantize in -o new --tp 64
snapshot . | diff ../before -
rm ../before
