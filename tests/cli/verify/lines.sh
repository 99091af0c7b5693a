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

mkdir next
cd next
# Codes that differ are read again by the rules of the other arithmetics: the total grows with them.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out || exit 1
"$FP8CONV" verify out --source "$model" --progress=json 2>same
rm out/fp8conv-manifest.json
python3 - <<'END'
import checkpoint
file = "out/model-00001-of-00002.safetensors"
name = next(name for name, (dtype, _, _) in checkpoint.read(file).items() if dtype == "F8_E4M3")
for byte in 0, 1:
    checkpoint.flip(file, name, byte)
END
"$FP8CONV" verify out --source "$model" --progress=json 2>differ >problems
echo "status $?, $(grep -c code-mismatch problems) of $(wc -l <problems) problems"
python3 - <<'END'
import json

same, differ = ([json.loads(line) for line in open(name)] for name in ("same", "differ"))
for line in same + differ:
    if line["done"] > line["total"]:
        print("past its total:", line)
if differ[-1]["done"] != differ[-1]["total"] or differ[-1]["total"] <= same[-1]["total"]:
    print("at the end:", same[-1], differ[-1])
END

#1> model.safetensors: dtype-mismatch: weight 'model.layers.0.mlp.up_proj.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model.safetensors: input-scale-missing: weight 'model.layers.0.mlp.up_proj.weight' has no input_scale, but the configuration declares static scales of activations: engines use uninitialized memory
#1> model.safetensors: scale-stray: scale 'model.layers.0.mlp.up_proj.weight_scale' belongs to 'model.layers.0.mlp.up_proj.weight' (F8_E4M3 [256, 128]), whose module engines do not quantize: loading stops at a tensor that no layer has
#1> tensor-missing: 'model.gone.weight' is missing, but 'b.safetensors' of the source contains it
#1> q.safetensors: tensor-changed: 'model.other.weight' is F32 [4], but F32 [2, 4] in the source
#1> q.safetensors: tensor-changed: 'model.norm.weight' differs from the source, first at byte 0 of 16
#1> status 1, 1 of 1 problems
