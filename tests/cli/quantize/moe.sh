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

#1> language_model.model.layers.1.feed_forward.experts.0.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.0.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.0.up_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.up_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.up_proj.weight	F8_E4M3	128x128
