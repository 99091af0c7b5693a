#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A line names file, kind and tensor, and has the numbers.
need "$SAMPLES/tiny-llama"
"$FP8CONV" quantize -q "$SAMPLES/tiny-llama" -o out --recipe current --format hf
up=model.layers.0.mlp.up_proj
python3 - <<'END'
import json
config = json.load(open("out/config.json"))
config["quantization_config"]["activation_scheme"] = "static"
config["quantization_config"]["modules_to_not_convert"].append("model.layers.0.mlp.up_proj")
json.dump(config, open("out/config.json", "w"))
END
"$FP8CONV" verify out | grep -F "$up"
"$FP8CONV" verify out --json >j
json j 'all(p["tensor"] in p["message"] for p in j["problems"] if p["tensor"])' 'all(p["file"] for p in j["problems"])' \
	'any(p["tensor"] for p in j["problems"])'
# Against another model: what was only copied, and what has another shape.
python3 "$CLI/checkpoint.py" make a.safetensors model.layers.0.mlp.up_proj.weight=BF16:128x256 model.norm.weight=BF16:8:1 \
	model.other.weight=F32:4
python3 "$CLI/checkpoint.py" make b.safetensors model.layers.0.mlp.up_proj.weight=BF16:128x256 model.norm.weight=BF16:8:2 \
	model.other.weight=F32:2x4 model.gone.weight=F32:4
"$FP8CONV" quantize -q a.safetensors -o q.safetensors
"$FP8CONV" verify q.safetensors --source b.safetensors
exit 0
