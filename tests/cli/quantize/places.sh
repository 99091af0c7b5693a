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

mkdir next
cd next
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

mkdir next
cd next
# A name of 255 bytes, the longest that there is, leaves no room for what we put around it while the file is written.
name=$(head -c 243 /dev/zero | tr '\0' a).safetensors
other=$(head -c 242 /dev/zero | tr '\0' a)b.safetensors
mkdir in
for shard in "$name" "$other"; do
	python3 "$CLI/checkpoint.py" make "in/$shard" "model.layers.${#made}.mlp.up_proj.weight=F32:128x128"
	made=$made+
done
echo '{"model_type": "llama"}' >in/config.json
echo '{"weight_map": {"model.layers.0.mlp.up_proj.weight": "'"$name"'", "model.layers.1.mlp.up_proj.weight": "'"$other"'"}}' \
	>in/model.safetensors.index.json
head -c 255 /dev/zero | tr '\0' n >longest
cp longest "in/$(cat longest)"
"$FP8CONV" quantize in -o out
"$FP8CONV" verify out
cmp longest "out/$(cat longest)"
[ -f "out/$name" ] && [ -f "out/$other" ] || ls out
find out -name '.*'
"$FP8CONV" quantize "in/$name" -o "$name"
cmp "$name" "out/$name"
find . -name '.a*'
