#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# DeepSeek-V4's engines take experts for FP4 unless config.json says expert_dtype fp8: it is set where it stands, or added at
# the end, by quantize and repack; a dequantized model has none, and other families never get it.
weights="embed.weight=BF16:8x128 layers.0.attn.wo_a.weight=BF16:128x128"
experts="layers.0.ffn.experts.0.w1.weight=BF16:128x128 layers.0.ffn.experts.0.w2.weight=BF16:128x128
layers.0.ffn.experts.0.w3.weight=BF16:128x128"

# source CONFIG
source() {
	rm -rf in out other
	mkdir in
	# shellcheck disable=SC2086
	python3 "$CLI/checkpoint.py" make in/model.safetensors $weights $experts
	echo "$1" >in/config.json
}

source '{"model_type": "deepseek_v4", "expert_dtype": "fp4", "vocab_size": 8}'
"$FP8CONV" quantize in -o out --quiet
json out/config.json 'j["expert_dtype"] == "fp8"' 'list(j)[:3] == ["model_type", "expert_dtype", "vocab_size"]'
"$FP8CONV" repack out -o other --format compressed-tensors --quiet
json other/config.json 'j["expert_dtype"] == "fp8"'
rm -rf other
"$FP8CONV" dequantize out -o other --quiet
json other/config.json '"expert_dtype" not in j'

source '{"model_type": "deepseek_v4"}'
"$FP8CONV" quantize in -o out --quiet --recipe channelwise
json out/config.json 'list(j)[-1] == "expert_dtype"' 'j["expert_dtype"] == "fp8"'
# A checkpoint that another tool left without it.
python3 - <<'END'
import json
config = json.load(open("out/config.json"))
del config["expert_dtype"]
open("out/config.json", "w").write(json.dumps(config) + "\n")
END
"$FP8CONV" repack out -o other --format modelopt --quiet
json other/config.json 'j["expert_dtype"] == "fp8"'
rm -rf out
"$FP8CONV" quantize in -o out --quiet --profile none
json out/config.json '"expert_dtype" not in j'

source '{"model_type": "deepseek_v3"}'
"$FP8CONV" quantize in -o out --quiet
json out/config.json '"expert_dtype" not in j'

# Experts in MXFP4 that are read and become FP8.
rm -rf in out
python3 "$CLI/low_bit.py" finite deepseek-v4 in
python3 - <<'END'
import json
config = json.load(open("in/config.json"))
config["model_type"] = "deepseek_v4"
open("in/config.json", "w").write(json.dumps(config) + "\n")
END
"$FP8CONV" quantize in -o out --requantize --recipe mxfp8 --quiet
json out/config.json 'j["expert_dtype"] == "fp8"'
