#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# 256 columns split in two blocks of 128 for row-parallel layers, 512 rows in four for column-parallel ones.
python3 "$CLI/checkpoint.py" make in.safetensors \
	model.layers.0.self_attn.o_proj.weight=BF16:128x256 model.layers.0.mlp.gate_proj.weight=BF16:512x128 \
	model.layers.0.mlp.up_proj.weight=BF16:512x128 model.layers.0.mlp.down_proj.weight=BF16:128x512
"$FP8CONV" quantize in.safetensors --dry-run --json >j
json j 'j["tp"] == [1, 2]'
"$FP8CONV" quantize in.safetensors --dry-run --json --tp 2 >j
fails 2 " quantize: *'model.layers.0.self_attn.o_proj.weight'*" quantize in.safetensors --dry-run --tp 4
fails 2 " quantize: *'model.layers.0.self_attn.o_proj.weight'*" quantize in.safetensors -o out.safetensors --tp 8
[ ! -e out.safetensors ] || echo "out.safetensors was made"
