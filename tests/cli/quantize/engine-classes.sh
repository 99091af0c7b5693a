#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
