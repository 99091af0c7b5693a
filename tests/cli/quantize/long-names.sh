#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
