#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Experts come out one by one, however they went in.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o a
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o b
python3 "$CLI/checkpoint.py" list a >a.list
python3 "$CLI/checkpoint.py" list b | diff a.list -
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused-transposed" -o c
python3 "$CLI/checkpoint.py" list c | grep 'experts.*weight	' | cut -f 1-3

mkdir next
cd next
# An output head in FP8: vLLM 0.32 and SGLang 0.5.23 load one that a target of compressed-tensors names, or that the list
# of modelopt lacks (compressed_tensors.py, modelopt.py); no loader of hf does.
need "python3()"
mkdir m
echo '{"model_type": "llama", "num_attention_heads": 1}' >m/config.json
python3 "$CLI/checkpoint.py" make m/model.safetensors model.layers.0.self_attn.o_proj.weight=BF16:128x128 lm_head.weight=BF16:256x128
for f in compressed-tensors modelopt; do
	"$FP8CONV" quantize m -o $f --format $f --tensor lm_head=blockwise >/dev/null
	"$FP8CONV" verify $f --source m >said || cat said
	"$FP8CONV" verify $f --target vllm >said || cat said
done
json compressed-tensors/config.json 'j["quantization_config"]["config_groups"]["group_0"]["targets"] == ["Linear", "re:.*lm_head"]'
python3 - <<'P'
import json
j = json.load(open("compressed-tensors/config.json"))
for g in j["quantization_config"]["config_groups"].values():
    g["targets"] = ["Linear"]
json.dump(j, open("compressed-tensors/config.json", "w"))
P
"$FP8CONV" verify compressed-tensors | grep -q "'lm_head.weight' is F8_E4M3, but no engine quantizes its module" || echo 'an FP8 head that no target names passes'
fails 2 "*no engine loads 'lm_head' as FP8 in format 'hf': keep it*" quantize m -o hf --tensor lm_head=blockwise
fails 2 "*does not load in transformers: keep it" quantize m -o tf --target transformers --tensor lm_head=blockwise

mkdir then
cd then
# Experts in one tensor that stays so: codes and scales are as of each expert by itself, one after another.  All that reads
# such a tensor again takes each expert for a matrix.

# alike MODEL RECIPE FORMAT OPTION...: stack is made of m/MODEL, split of the same matrices.
alike() {
	rm -rf stack split
	model=$1 recipe=$2 format=$3
	shift 3
	"$FP8CONV" quantize "m/$model" --recipe "$recipe" --format "$format" -o stack -q "$@"
	"$FP8CONV" quantize m/split --recipe "$recipe" --format "$format" -o split -q "$@"
	python3 "$CLI/experts.py" joined stack split
	"$FP8CONV" verify stack
	"$FP8CONV" verify stack --source "m/$model"
}

python3 "$CLI/experts.py" step m 3 256 384
for to in "channelwise compressed-tensors" "mxfp8 hf" "mxfp8 compressed-tensors" "current hf" \
	"current compressed-tensors" "blockwise compressed-tensors" "blockwise hf"; do
	# shellcheck disable=SC2086
	alike stack $to
done

# The same by small bands, in parts, and again after a file is lost.
"$FP8CONV" quantize m/stack -o small -q --max-memory 25M --threads 2
same stack small
for part in 2 1; do
	"$FP8CONV" quantize m/stack -o parts -q --part $part/2
done
rm parts/model-00001-of-00002.safetensors
"$FP8CONV" quantize m/stack -o parts -q
same stack parts

# Back again, and as another kind of stack.
for from in stack split; do
	"$FP8CONV" dequantize $from -o $from.bf16 -q
	"$FP8CONV" repack $from --format compressed-tensors -o $from.ct -q
	"$FP8CONV" repack $from --format hf --recipe mxfp8 -o $from.mx -q
done
for kind in bf16 ct mx; do
	python3 "$CLI/experts.py" joined stack.$kind split.$kind
done
"$FP8CONV" verify stack.ct --source m/stack
"$FP8CONV" verify stack.mx
fails 2 " repack: tensor 'model.layers.3.moe.gate_proj.weight' does not fit format 'modelopt': the format has no scale of experts \
in one tensor" repack stack --format modelopt -o bad

# A code of the last expert, and a scale of it.
rm stack/fp8conv-manifest.json
python3 "$CLI/checkpoint.py" flip stack/model-00002-of-00002.safetensors model.layers.3.moe.up_proj.weight -1
python3 "$CLI/checkpoint.py" flip stack/model-00002-of-00002.safetensors model.layers.3.moe.down_proj.weight_scale_inv -1
"$FP8CONV" verify stack --source m/stack

# The last block of an expert is partial, and the next expert begins a block.
rm -rf m
python3 "$CLI/experts.py" step m 3 256 192
alike stack blockwise hf --ragged

# Granite: gate and up in one, whose scales must not cross the half.
rm -rf m
python3 "$CLI/experts.py" granite m 3 256 128
alike stack channelwise compressed-tensors
alike stack blockwise compressed-tensors
"$FP8CONV" quantize m/moe -o moe -q
"$FP8CONV" quantize m/split -o alone -q
python3 "$CLI/checkpoint.py" list alone >wanted
python3 "$CLI/checkpoint.py" list moe | diff wanted -
"$FP8CONV" verify moe --source m/moe
rm -rf m
python3 "$CLI/experts.py" granite m 2 128 192
fails 2 " quantize: nothing to quantize: all 2 tensors are kept, 2 of them linear weights, for example \
'model.layers.0.block_sparse_moe.input_linear.weight': 192 rows are not a multiple of 128; --recipe channelwise accepts any shape*" \
	quantize m/stack -o halves

mkdir next
cd next
# --requantize of FP8 experts in one tensor makes what it makes of the same experts one by one.
need "python3()"

python3 "$CLI/experts.py" step m 3 256 384

# again RECIPE FORMAT: from, made of experts one by one, and fused or stack, the same in one tensor.
again() {
	"$FP8CONV" quantize from -o split --requantize -q --recipe "$1" --format "$2"
	"$FP8CONV" quantize "$kind" -o out --requantize -q --recipe "$1" --format "$2"
	if [ "$kind" = fused ]; then
		python3 "$CLI/checkpoint.py" list split >wanted
		python3 "$CLI/checkpoint.py" list out | diff wanted - || echo "$kind from $how to $*"
	else
		python3 "$CLI/experts.py" joined out split
	fi
	"$FP8CONV" verify out --source "$kind" || echo "$kind from $how to $*"
	rm -rf split out
}

for how in "blockwise hf --scale-fmt=ue8m0" "blockwise hf --scale-fmt=float" "channelwise compressed-tensors" "mxfp8 hf" "current hf"; do
	# shellcheck disable=SC2086
	set -- $how
	"$FP8CONV" quantize m/split -o from -q --recipe "$1" --format "$2" ${3:+"$3"}
	python3 "$CLI/experts.py" fused from fused
	"$FP8CONV" quantize m/stack -o stack -q --recipe "$1" --format "$2" ${3:+"$3"}
	kind=fused
	again blockwise hf
	again current hf
	kind=stack
	again "$1" "$2"
	again channelwise compressed-tensors
	# What has its recipe already keeps its codes.
	"$FP8CONV" quantize fused -o out --requantize -q --recipe "$1" --format "$2"
	python3 "$CLI/checkpoint.py" list from >wanted
	python3 "$CLI/checkpoint.py" list out | diff wanted - || echo "$how was not kept"
	"$FP8CONV" quantize fused -o small --requantize -q --recipe "$1" --format "$2" --max-memory 25M --threads 2
	same out small
	rm -rf from fused stack out small
done
#1> language_model.model.layers.1.feed_forward.experts.0.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.0.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.0.up_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.up_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.up_proj.weight	F8_E4M3	128x128
#1> model-00002-of-00002.safetensors: scale-mismatch: 1 value of 'model.layers.3.moe.down_proj.weight_scale_inv' differs from the source, the first at 17
#1> model-00002-of-00002.safetensors: code-mismatch: 1 code of 'model.layers.3.moe.up_proj.weight' differs from the source, the first at [1151, 255]
