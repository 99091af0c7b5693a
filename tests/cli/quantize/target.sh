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

mkdir next
cd next
# A pair that the engine does not load is refused, naming both; the others are written as that engine wants them.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/fused-transposed
for target in vllm sglang trtllm transformers; do
	for recipe in blockwise channelwise current mxfp8; do
		if "$FP8CONV" quantize "$model" --quiet --dry-run --json --target $target --recipe $recipe >j 2>err; then
			python3 -c 'import json, sys
j = json.load(open("j"))
t = next(t for t in j["tensors"] if t["recipe"])
print(*sys.argv[1:], j["format"], t["outputs"][1]["name"].rsplit(".")[-1])' $target $recipe
		else
			echo "$target $recipe $?"
			[ "$(wc -l <err)" -eq 1 ] && grep -q "$target\|TensorRT-LLM" err && grep -q "$recipe" err || cat err
		fi
	done
done
fails 2 " quantize: *modelopt*" quantize "$model" --dry-run --format modelopt --recipe current
fails 2 " quantize: *'hf'*" quantize "$model" --dry-run --format hf --recipe channelwise
fails 2 " quantize: *does not load in sglang: SGLang drops MXFP8 scales of this model*" \
	quantize "$model" --dry-run --format modelopt --recipe mxfp8 --target sglang

#1> vllm blockwise hf weight_scale_inv
#1> vllm channelwise compressed-tensors weight_scale
#1> vllm current compressed-tensors weight_scale
#1> vllm mxfp8 hf weight_scale
#1> sglang blockwise compressed-tensors weight_scale
#1> sglang channelwise compressed-tensors weight_scale
#1> sglang current compressed-tensors weight_scale
#1> sglang mxfp8 2
#1> fp8conv quantize: 'language_model.model.layers.0.feed_forward.down_proj.weight' as FP8 in format 'hf' does not load in sglang: SGLang drops MXFP8 scales of this model silently [sglang llama.py]; use --exclude to keep such weights, or omit --target
#1> trtllm blockwise hf weight_scale_inv
#1> trtllm channelwise compressed-tensors weight_scale
#1> trtllm current 2
#1> trtllm mxfp8 hf weight_scale_inv
#1> transformers blockwise hf weight_scale_inv
#1> transformers channelwise compressed-tensors weight_scale
#1> transformers current compressed-tensors weight_scale
#1> transformers mxfp8 hf weight_scale_inv
