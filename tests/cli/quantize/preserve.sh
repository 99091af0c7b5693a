#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The source values of what was quantized, and of nothing else.
need "$SAMPLES/tiny-moe"
for model in per-expert fused; do
	"$FP8CONV" quantize "$SAMPLES/tiny-moe/$model" -o out --preserve-high-precision kept
	"$FP8CONV" quantize "$SAMPLES/tiny-moe/$model" -o plain
	same plain out
	python3 "$CLI/checkpoint.py" list out >all
	python3 "$CLI/checkpoint.py" list "$SAMPLES/tiny-moe/$model" | grep -Fvxf all >wanted
	python3 "$CLI/checkpoint.py" list kept | diff wanted -
	[ "$(wc -l <wanted)" -ge 10 ] || cat wanted
	rm -rf out plain kept
done
fails 2 " quantize: *--preserve-high-precision*" quantize "$SAMPLES/tiny-moe/fused" -o out --preserve-high-precision out
fails 2 " quantize: *--preserve-high-precision*" quantize "$SAMPLES/tiny-moe/fused" -o - --preserve-high-precision kept

# Preserved files belong to the job: what is missing of them is written again, and nobody else's are replaced.
m=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$m" -o out --preserve-high-precision kept
cp -r kept first
rm kept/model-00001-of-00002.safetensors
"$FP8CONV" quantize "$m" -o out --preserve-high-precision kept
same first kept
grep -c '"name": "model-00001-of-00002.safetensors"' out/fp8conv-manifest.json | grep -vx 2
fails 2 " quantize: 'kept' contains 'model-00001-of-00002.safetensors', which fp8conv did not write: choose another directory, or --restart to overwrite" \
	quantize "$m" -o other --preserve-high-precision kept
same first kept

mkdir next
cd next
# An output below the model is no auxiliary file of it, and a note says where it lies.
need "$SAMPLES/tiny-moe" "$SAMPLES/tiny-llama"
cp -r "$SAMPLES/tiny-moe/fused" m
inside() { printf "fp8conv %s: note: output '%s' lies inside the model '%s': an upload or a copy of the model takes both\n" "$@"; }
note_is() { [ "$(cat err)" = "$1" ] || { echo "said: $(cat err)" && echo "not:  $1"; }; }
"$FP8CONV" quantize m -o m/fp8 2>err
note_is "$(inside quantize m/fp8 m)"
"$FP8CONV" quantize "$PWD/m" -o m/a/../mx --recipe mxfp8 --target vllm --json >j 2>err
note_is "$(inside quantize m/a/../mx "$PWD/m")"
json j 'len(j["notes"]) == 1' '"lies inside" in j["notes"][0]["message"]'
"$FP8CONV" dequantize m/fp8 -o m/fp8/back 2>err
note_is "$(inside dequantize m/fp8/back m/fp8)"
mkdir around
mv m around
"$FP8CONV" quantize around/m -o around 2>err
grep -qx "fp8conv quantize: note: the model 'around/m' lies inside output 'around': .*" err || cat err
mv around/m .
"$FP8CONV" quantize m -o beside
"$FP8CONV" quantize m -o m/quiet --quiet
rm -r m/fp8/back m/quiet
find m/fp8 m/mx -mindepth 1 -type d

# A stream into a directory becomes a model; it lies inside nothing.
cat m/model.safetensors | "$FP8CONV" quantize - -o streamed --quiet
cmp streamed/model.safetensors m/fp8/model.safetensors
fails 2 " quantize: option '--manifest' requires files as input, not '-'" quantize - -o other --manifest <m/model.safetensors

# Weights of something else beside a model without an index: the first of them is named.
mkdir both
cp "$SAMPLES/tiny-llama/model.safetensors" both/lora.safetensors
cp both/lora.safetensors both/second.safetensors
"$FP8CONV" quantize m -o both --dry-run --json >j 2>err
note_is "fp8conv quantize: note: 'both' also contains 'lora.safetensors', which this job did not write: some engines load every .safetensors file there"
json j 'len(j["notes"]) == 1' '"lora.safetensors" in j["notes"][0]["message"]'
"$FP8CONV" quantize m -o both --force --json >j 2>err
note_is "fp8conv quantize: note: 'both' also contains 'lora.safetensors', which this job did not write: some engines load every .safetensors file there"
json j 'len(j["notes"]) == 1'
rm both/lora.safetensors both/second.safetensors
"$FP8CONV" quantize m -o both

mkdir then
cd then
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
