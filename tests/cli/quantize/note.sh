#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Where most bytes had to be kept (3 * 96 * 96 of them and of 128 * 128 more: 62.8 %), a note says so: on standard error, once, and not with --quiet.
python3 "$CLI/checkpoint.py" make in.safetensors \
	model.layers.0.self_attn.o_proj.weight=BF16:96x96 model.layers.0.mlp.down_proj.weight=BF16:96x96 \
	model.layers.1.self_attn.o_proj.weight=BF16:96x96 model.layers.1.mlp.down_proj.weight=BF16:128x128
"$FP8CONV" quantize in.safetensors -o a.safetensors 2>err
[ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: note: blockwise keeps 63 %' err || cat err
"$FP8CONV" quantize in.safetensors -o b.safetensors --quiet
"$FP8CONV" quantize in.safetensors -o c.safetensors --dry-run --json >j 2>err
[ "$(wc -l <err)" -eq 1 ] || cat err
json j 'j["totals"]["quantized"] == 1'
# It is the first line of a plan, too.
"$FP8CONV" quantize in.safetensors -o c.safetensors --dry-run --quiet | head -n 1 |
	grep -qx "note      blockwise keeps 63 % of the weight bytes in high precision, as .*; --recipe channelwise takes 100 %" ||
	echo "the plan begins with something else"
"$FP8CONV" quantize in.safetensors -o c.safetensors --dry-run --quiet --recipe channelwise | head -n 1 | grep -qx "recipe    channelwise" ||
	echo "a plan without the note begins with it"
# Where nothing is left to quantize it is an error.
fails 2 " quantize: nothing to quantize*" quantize in.safetensors -o d.safetensors --exclude 1.mlp
# The example is one that was asked for, if any.
python3 "$CLI/checkpoint.py" make fused.safetensors \
	model.layers.0.self_attn.q_proj.weight=BF16:128x128 model.layers.0.self_attn.k_proj.weight=BF16:128x128 \
	model.layers.0.self_attn.v_proj.weight=BF16:128x128 model.layers.0.mlp.down_proj.weight=BF16:128x128
why=" quantize: nothing to quantize: all 4 tensors are kept, 4 of them linear weights, for example"
fails 2 "$why 'model.layers.0.self_attn.q_proj.weight': fused with 'model.layers.0.self_attn.k_proj.weight', which is kept" \
	quantize fused.safetensors -o d.safetensors --include q_proj
fails 2 "$why 'model.layers.0.self_attn.q_proj.weight': not included; no --include matches a linear weight" \
	quantize fused.safetensors -o d.safetensors --include o_proj

mkdir next
cd next
# A source that lacks a tensor is converted, and a note names it; a dry run says the same.
python3 "$CLI/tiny.py" make llama m
python3 -c '
import checkpoint
tensors = checkpoint.read("m")
del tensors["model.layers.1.self_attn.o_proj.weight"]
checkpoint.write("m/model.safetensors", tensors)'
"$FP8CONV" quantize m -o out --recipe channelwise --dry-run >plan
"$FP8CONV" quantize m -o out --recipe channelwise

mkdir next
cd next
# Every recipe in every format that can say it, on the trained model: quality, configuration, tokenizer.
need "$SAMPLES/tiny-llama/config.json"
model=$SAMPLES/tiny-llama
python3 "$CLI/amax.py" make "$model" s.amax
"$FP8CONV" formats | while read -r format recipe engines; do
	calibration=
	[ "$recipe" = delayed ] && calibration="--calibration s.amax"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize "$model" -o out --recipe "$recipe" --format "$format" $calibration --json >j || continue
	json j '30 < j["worst"]["sqnr_db"] < 34' 'j["tensors"]["quantized"] == 28' 'j["saturated"] == j["nonfinite"] == 0'
	for file in "$model"/tokenizer*.json "$model"/generation_config.json; do
		[ ! -e "$file" ] || cmp "$file" "out/${file##*/}"
	done
	python3 - out "$format" <<'END'
import json, sys
config = json.load(open(sys.argv[1] + "/config.json"))["quantization_config"]
method = config["quant_method"]
if method not in {"hf": ("fp8", "mxfp8"), "compressed-tensors": ("compressed-tensors",), "modelopt": ("modelopt",)}[sys.argv[2]]:
    print(sys.argv[2], method)
END
	rm -rf out
done

#2> fp8conv quantize: note: the source is incomplete: 'model.layers.1.self_attn.o_proj.weight' is missing, but 2 layers else like it, as 0, have it
#2> fp8conv quantize: note: the source is incomplete: 'model.layers.1.self_attn.o_proj.weight' is missing, but 2 layers else like it, as 0, have it
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
