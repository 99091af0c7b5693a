#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Words of other converters are understood, or answered with the word that is meant here.
need "$SAMPLES/tiny-llama"
q=' quantize: '
for typed in FP8_DYNAMIC=channelwise fp8_block=blockwise per-channel=channelwise PER_TENSOR=current MXFP8=mxfp8 Blockwise=blockwise; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -nq --recipe "${typed%=*}" >plan || echo "$typed: $?"
	grep -q "^recipe  *${typed#*=}$" plan || head -n 1 plan
done
for target in vLLM SGLang tensorrt-llm TRTLLM hf; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -nq -j 2 --max-memory 1.5G --target $target >plan || echo "$target: $?"
done
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out -q --target vLLM --recipe FP8_DYNAMIC
"$FP8CONV" verify out -q --target SGLANG
grep -q '"target": "vllm"' out/fp8conv-manifest.json || grep target out/fp8conv-manifest.json
fails 2 "${q}option '--recipe': 'NVFP4' is not FP8, which is all that fp8conv writes: use llm-compressor or ModelOpt" \
	quantize in -o out --recipe NVFP4
fails 2 "${q}option '--recipe': 'Q4_K_M' is not FP8, which is all that fp8conv writes: use llama.cpp's llama-quantize" \
	quantize in -o out --recipe Q4_K_M
for word in scheme=recipe bits=recipe ignore=exclude output-dir=output tensor_parallel_size=tp overwrite=restart; do
	fails 2 "${q}unknown option '--${word%=*}' (did you mean '--${word#*=}'?)" quantize in -o out "--${word%=*}"
done
# Only options that the command has.
fails 2 " verify: unknown option '--ignore' (see 'fp8conv verify --help')" verify out --ignore
fails 2 ": unknown command 'convert' (did you mean 'quantize'?)" convert in out
fails 2 ": unknown command 'perplexity' (did you mean 'eval'?)" perplexity in
fails 2 "${q}unexpected argument 'fp8' (give the output as -o fp8)" quantize in fp8
