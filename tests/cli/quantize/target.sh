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

mkdir then
cd then
# SGLang's LlamaForCausalLM renames weight_scale_inv to weight_scale, which its block layers do not have: with that target
# blocks become compressed-tensors, and hf and MXFP8 are refused.  verify and repack say the same.
need "$SAMPLES/tiny-llama" "python3()"
model=$SAMPLES/tiny-llama
method() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/config.json"))["quantization_config"]["quant_method"])' "$1"
}
"$FP8CONV" quantize "$model" -o s --target sglang
[ "$(method s)" = compressed-tensors ] || echo "blocks for SGLang are in $(method s)"
"$FP8CONV" verify s --source "$model" --target sglang --quiet
fails 2 " quantize: *SGLang*only in compressed-tensors*" quantize "$model" -o x --target sglang --format hf
fails 2 " quantize: *SGLang drops MXFP8*" quantize "$model" -o x --target sglang --recipe mxfp8
"$FP8CONV" quantize "$model" -o h
[ "$(method h)" = fp8 ] || echo "blocks for any engine are in $(method h)"
"$FP8CONV" verify h --target vllm --quiet
"$FP8CONV" verify h --target sglang >out
[ $? -eq 1 ] || echo "hf passes for SGLang"
grep -q "not-loaded.*SGLang reads block scales" out || cat out
"$FP8CONV" repack h -o r --target sglang
[ "$(method r)" = compressed-tensors ] || echo "repack for SGLang gives $(method r)"
fails 2 " repack: *SGLang*only in compressed-tensors*" repack s -o x --target sglang --format hf

mkdir next
cd next
# Experts that an engine loads in BF16 only: a note, but with --target a refusal, and verify --target names them.
mkdir in
at=model.layers.0
python3 "$CLI/checkpoint.py" make in/model.safetensors $at.block_sparse_moe.input_linear.weight=BF16:2x256x128 \
	$at.block_sparse_moe.output_linear.weight=BF16:2x128x128 $at.self_attn.o_proj.weight=BF16:128x128
echo '{"model_type": "granitemoe", "hidden_size": 128}' >in/config.json
"$FP8CONV" quantize in -o any 2>note
grep -qx "fp8conv quantize: note: '$at.block_sparse_moe.input_linear.weight' as FP8 in format 'hf' does not load in transformers: .*; see --target transformers" note || cat note
[ "$(wc -l <note)" -eq 1 ] || cat note
fails 2 " quantize: '$at.block_sparse_moe.input_linear.weight' as FP8 in format 'hf' does not load in transformers: *[[]transformers *; use --exclude to keep such weights, or omit --target" \
	quantize in -o no --target transformers
[ ! -e no ] || echo "a refused job made a directory"
"$FP8CONV" verify any
"$FP8CONV" verify any --target vllm
"$FP8CONV" verify any --target transformers >told && echo "verify --target transformers accepts experts in FP8"
grep -q "^model.safetensors: not-loaded: weight '$at.block_sparse_moe.experts.0.w1.weight' is FP8, which transformers does not load: " told || cat told
[ "$(wc -l <told)" -eq 1 ] || cat told
"$FP8CONV" quantize in -o kept --target transformers --exclude block_sparse_moe
"$FP8CONV" verify kept --target transformers

# No engine has them: a note already without --target.
sed -i s/granitemoe/gpt_oss/ in/config.json
python3 "$CLI/checkpoint.py" make in/model.safetensors $at.mlp.experts.gate_up_proj=BF16:2x128x256 \
	$at.mlp.experts.down_proj=BF16:2x128x128 $at.mlp.experts.gate_up_proj_bias=BF16:2x256 \
	$at.mlp.experts.down_proj_bias=BF16:2x128
"$FP8CONV" quantize in -o oss 2>note
grep -qx "fp8conv quantize: note: '$at.mlp.experts.gate_up_proj' as FP8 in format 'hf' does not load in vllm: no engine loads FP8 experts of gpt_oss .*; nor in sglang, transformers; see --target vllm" note || cat note
fails 2 " quantize: '$at.mlp.experts.gate_up_proj' as FP8 in format 'hf' does not load in vllm: *" quantize in -o no --target vllm
"$FP8CONV" verify oss --target sglang >told && echo "verify --target sglang accepts FP8 experts of GPT-OSS"
grep -q ": not-loaded: " told || cat told
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
