#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What loaders stop at, seen by running them on such files: plan and verify refuse it for that engine, and write it for others.
need "python3()"
make() { # MODEL_TYPE TENSOR=TYPE:SHAPE...: the model "in"
	rm -rf in any out
	mkdir in
	echo "{\"model_type\": \"$1\", \"hidden_size\": 256, \"num_hidden_layers\": 1}" >in/config.json
	shift
	python3 "$CLI/checkpoint.py" make in/model.safetensors "$@"
}
named() { # ENGINE WORDS
	"$FP8CONV" verify any --target "$1" >told && echo "verify --target $1 accepts what stops"
	grep -q ": not-loaded: .*$2" told || cat told
}
at=model.layers.0

# SGLang 0.5.23's granitemoehybrid.py, gpt_j.py and nemotron_nas.py call get_cache_scale(), which compressed-tensors alone has.
for type in granitemoehybrid gptj nemotron-nas; do
	make $type $at.self_attn.o_proj.weight=BF16:256x256
	"$FP8CONV" quantize in -o out --target sglang
	grep -q '"quant_method": "compressed-tensors"' out/config.json || echo "$type for SGLang is not in compressed-tensors"
	"$FP8CONV" verify out --target sglang
	fails 2 " quantize: *SGLang loads FP8 of this model only in compressed-tensors*" quantize in -o x --target sglang --format hf
	fails 2 " quantize: *only in compressed-tensors*" quantize in -o x --target sglang --recipe mxfp8
	"$FP8CONV" quantize in -o any --format hf
	named sglang "only in compressed-tensors"
done

# SGLang's qwen3_next.py asserts that the scale of in_proj_qkvz has the four elements of its parameter.
make qwen3_next $at.linear_attn.in_proj_qkvz.weight=BF16:1024x256 $at.linear_attn.out_proj.weight=BF16:256x256
for format in hf compressed-tensors; do
	fails 2 " quantize: '$at.linear_attn.in_proj_qkvz.weight' as FP8 *each of its four parts*" \
		quantize in -o x --target sglang --recipe current --format $format
	rm -rf any
	"$FP8CONV" quantize in -o any --target vllm --recipe current --format $format
	named sglang "each of its four parts"
done
for recipe in blockwise channelwise "current --exclude in_proj_qkvz"; do
	rm -rf out
	# shellcheck disable=SC2086
	"$FP8CONV" quantize in -o out --target sglang --recipe $recipe
	"$FP8CONV" verify out --target sglang
done

# vLLM 0.32's mistral3.py renames weight_scale_inv to weight_scale, which its block layers do not have.
make mistral3 language_model.$at.self_attn.o_proj.weight=BF16:256x256
"$FP8CONV" quantize in -o any 2>note
grep -q "note: .* vLLM renames weight_scale_inv" note || cat note
named vllm "renames weight_scale_inv"
fails 2 " quantize: *renames weight_scale_inv*" quantize in -o x --target vllm --format hf
for recipe in blockwise current channelwise mxfp8; do
	rm -rf out
	"$FP8CONV" quantize in -o out --target vllm --recipe $recipe
	"$FP8CONV" verify out --target vllm
done

# transformers 5.23 multiplies the codes of experts by the grid of their scales as it is: the shapes must broadcast.
expert=$at.mlp.experts.0
make qwen3_moe $expert.gate_proj.weight=BF16:256x256 $expert.up_proj.weight=BF16:256x256 $expert.down_proj.weight=BF16:256x256
for recipe in blockwise mxfp8; do
	fails 2 " quantize: *$expert.*does not load in transformers: *multiplies experts by their scales*" \
		quantize in -o x --target transformers --recipe $recipe --format compressed-tensors
	rm -rf any out
	"$FP8CONV" quantize in -o any --recipe $recipe --format compressed-tensors
	named transformers "multiplies experts by their scales"
	"$FP8CONV" verify any --target vllm
	"$FP8CONV" quantize in -o out --target transformers --recipe $recipe
	"$FP8CONV" verify out --target transformers
done

# vLLM's mapper makes ".k_scale" of Jamba's ".self_attn.k_scale", and SGLang's falcon_h1.py looks for the name of a scale in its
# parameters: neither is there.
python3 "$CLI/tiny.py" ids 40 25 33 12 >ids.jsonl
for pair in jamba=vllm=sglang falcon_h1=sglang=vllm; do
	type=${pair%%=*} good=${pair##*=} bad=${pair#*=}
	bad=${bad%=*}
	rm -rf in any out
	python3 "$CLI/tiny.py" make $type in
	"$FP8CONV" calibrate in --data ids.jsonl --seq-len 40 --quiet -o $type.amax
	options="--recipe channelwise --format compressed-tensors --calibration $type.amax --kv-cache"
	# shellcheck disable=SC2086
	fails 2 " quantize: the KV cache scales of '*self_attn' do not load in $bad: *and stops *; omit --kv-cache, or --target" \
		quantize in -o x --target "$bad" $options
	# shellcheck disable=SC2086
	"$FP8CONV" quantize in --dry-run $options 2>&1 >plan | grep -q "note: the KV cache scales of '.*self_attn' do not load in $bad: .*; see --target $bad" ||
		echo "no note of what stops in $bad"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize in -o any --target "$good" --quiet $options
	"$FP8CONV" verify any --target "$good"
	named "$bad" "scale '.*self_attn.k_scale' of a KV cache does not load in $bad: .*, and stops"
	"$FP8CONV" quantize in -o out --target "$bad" --recipe channelwise --format compressed-tensors --quiet
	"$FP8CONV" verify out --target "$bad"
done
