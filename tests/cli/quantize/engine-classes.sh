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
