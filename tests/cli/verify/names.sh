#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Names of scales: each engine looks for its own (fp8.py of vLLM 0.32 and SGLang 0.5.23, finegrained_fp8.py of transformers 5.24).
# SGLang's class of Llama renames transformers' names (llama.py), and so loads no scale of MXFP8: not-loaded.
need "$SAMPLES/tiny-llama"
source=$SAMPLES/tiny-llama
python3 "$CLI/amax.py" make "$source" a.amax

for recipe in current delayed mxfp8; do
	for made in any vllm transformers; do
		set -- --recipe $recipe --format hf
		[ $recipe != delayed ] || set -- "$@" --calibration a.amax
		[ $made = any ] || set -- "$@" --target $made
		"$FP8CONV" quantize "$source" -o out --restart -q "$@" 2>/dev/null || echo "quantize $*: $?"
		for target in vllm sglang transformers; do
			"$FP8CONV" verify out --target $target >said 2>&1
			echo "$recipe for $made in $target: $? $(grep -c scale-name said)"
			[ $made != any ] || grep scale-name said
		done
	done
done

mkdir next
cd next
# Engines merge more weights in some families: q, k, v, a, b and g in Jet-Nemotron.  Without the rows of the family the
# six are not one set, and verify tells that the output holds a part of it.
mkdir in
at=model.layers.0.linear_attn
python3 "$CLI/checkpoint.py" make in/model.safetensors $at.q_proj.weight=BF16:128x128 $at.k_proj.weight=BF16:128x128 \
	$at.v_proj.weight=BF16:128x128 $at.a_proj.weight=BF16:64x128 $at.b_proj.weight=BF16:64x128 \
	$at.g_proj.weight=BF16:128x128 model.layers.0.mlp.down_proj.weight=BF16:640x128
echo '{"model_type": "jet_nemotron"}' >in/config.json
"$FP8CONV" quantize in -o none --profile none -q
"$FP8CONV" verify none >told && echo "verify accepts a part of the set"
grep -q "^model.safetensors: group-partial: '$at.a_proj.weight' is BF16, but '.*' is F8_E4M3" told || cat told
"$FP8CONV" quantize in -o whole -q
"$FP8CONV" verify whole
python3 "$CLI/checkpoint.py" list whole | grep -c F8_E4M3 | grep -qx 1 || echo "more than down_proj is FP8"

#1> current for any in vllm: 0 0
#1> current for any in sglang: 0 0
#1> current for any in transformers: 1 1
#1> model.safetensors: scale-name: transformers reads 'model.layers.0.mlp.down_proj.weight_scale_inv', this file has 'model.layers.0.mlp.down_proj.weight_scale', and so 28 scales in all: use 'fp8conv repack --target transformers'
#1> current for vllm in vllm: 0 0
#1> current for vllm in sglang: 0 0
#1> current for vllm in transformers: 1 1
#1> current for transformers in vllm: 1 1
#1> current for transformers in sglang: 0 0
#1> current for transformers in transformers: 0 0
#1> delayed for any in vllm: 0 0
#1> delayed for any in sglang: 0 0
#1> delayed for any in transformers: 1 1
#1> model.safetensors: scale-name: transformers reads 'model.layers.0.mlp.down_proj.weight_scale_inv', this file has 'model.layers.0.mlp.down_proj.weight_scale', and so 56 scales in all: use 'fp8conv repack --target transformers'
#1> delayed for vllm in vllm: 0 0
#1> delayed for vllm in sglang: 0 0
#1> delayed for vllm in transformers: 1 1
#1> delayed for transformers in vllm: 1 1
#1> delayed for transformers in sglang: 0 0
#1> delayed for transformers in transformers: 0 0
#1> mxfp8 for any in vllm: 1 1
#1> model.safetensors: scale-name: vllm reads 'model.layers.0.mlp.down_proj.weight_scale', this file has 'model.layers.0.mlp.down_proj.weight_scale_inv', and so 28 scales in all: use 'fp8conv repack --target vllm'
#1> mxfp8 for any in sglang: 1 0
#1> mxfp8 for any in transformers: 0 0
#1> mxfp8 for vllm in vllm: 0 0
#1> mxfp8 for vllm in sglang: 1 0
#1> mxfp8 for vllm in transformers: 1 1
#1> mxfp8 for transformers in vllm: 1 1
#1> mxfp8 for transformers in sglang: 1 0
#1> mxfp8 for transformers in transformers: 0 0
