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

mkdir next
cd next
# What is no FP8 model, or more than one: the source instead of the output, and weights of something else beside the model.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
for options in "" "--target vllm" "--source $SAMPLES/tiny-llama"; do
	# shellcheck disable=SC2086
	"$FP8CONV" verify "$SAMPLES/tiny-llama" $options >told && echo "verify $options accepts a model that is not FP8"
	grep -qx "nothing-quantized: no weight of '$SAMPLES/tiny-llama' is FP8: give the output of a quantization, not its source" told ||
		cat told
	[ "$(wc -l <told)" -eq 1 ] || cat told
done
"$FP8CONV" verify "$SAMPLES/tiny-llama/model.safetensors" --json >j && echo "verify accepts a file without FP8"
json j 'not j["ok"] and j["recipe"] is None' '[(p["kind"], p["tensor"], p["file"]) for p in j["problems"]] ==
	[("nothing-quantized", None, None)]'
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out
"$FP8CONV" dequantize out -o back
"$FP8CONV" verify back | grep -o '^[a-z-]*:'

# Without an index some engines load every file; with one, Mistral's second layout is known, and others are told.
cp "$SAMPLES/tiny-llama/model.safetensors" out/lora.safetensors
"$FP8CONV" verify out
"$FP8CONV" verify out --json >j
json j '[(p["kind"], p["file"]) for p in j["problems"]] == [("file-stray", "lora.safetensors")]'
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o moe
for name in adapter.safetensors consolidated.safetensors .hidden.safetensors; do
	cp "$SAMPLES/tiny-llama/model.safetensors" moe/$name
done
"$FP8CONV" verify moe
rm moe/model-00002-of-00002.safetensors moe/adapter.safetensors
echo broken >moe/model-00002-of-00002.safetensors
"$FP8CONV" verify moe | grep -v config-ignore | cut -d : -f 1,2

# What is no checkpoint is an error, not a problem.
mkdir empty && : >short.safetensors
fails 3 " verify: found no model.safetensors.index.json, model.safetensors or other .safetensors file in 'empty'" verify empty
fails 3 " verify: cannot open 'nowhere': No such file or directory" verify nowhere
fails 3 " verify: 'short.safetensors' is empty: copy or download it again" verify short.safetensors
fails 2 " verify: OUT is missing (fp8conv verify OUT)" verify
fails 2 " verify: option '--target': 'vlm' is not one of *(did you mean 'vllm'?)" verify empty --target vlm
fails 3 " verify: cannot open 'nowhere': No such file or directory" verify "$SAMPLES/tiny-llama" --source nowhere
# Another model, and swapped arguments, are one line and not one for each tensor.
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o tiny-fp8 --recipe channelwise --quiet
fails 3 " verify: '$SAMPLES/odd-shapes' is not the source of 'tiny-fp8': * tensors are in one of them alone, or have another type or shape" \
	verify tiny-fp8 --source "$SAMPLES/odd-shapes"
fails 3 " verify: 'tiny-fp8' is not the source of '$SAMPLES/tiny-llama': 28 tensors * (are they swapped?)" \
	verify "$SAMPLES/tiny-llama" --source tiny-fp8

#1> model.safetensors: dtype-mismatch: weight 'model.layers.0.mlp.up_proj.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model.safetensors: input-scale-missing: weight 'model.layers.0.mlp.up_proj.weight' has no input_scale, but the configuration declares static scales of activations: engines use uninitialized memory
#1> model.safetensors: scale-stray: scale 'model.layers.0.mlp.up_proj.weight_scale' belongs to 'model.layers.0.mlp.up_proj.weight' (F8_E4M3 [256, 128]), whose module engines do not quantize: loading stops at a tensor that no layer has
#1> tensor-missing: 'model.gone.weight' is missing, but 'b.safetensors' of the source contains it
#1> q.safetensors: tensor-changed: 'model.other.weight' is F32 [4], but F32 [2, 4] in the source
#1> q.safetensors: tensor-changed: 'model.norm.weight' differs from the source, first at byte 0 of 16
#1> status 1, 1 of 1 problems
#1> nothing-quantized:
#1> lora.safetensors: file-stray: 'lora.safetensors' lies beside the model, but is not of it: some engines load every .safetensors file
#1> adapter.safetensors: file-stray: 'adapter.safetensors' lies beside the model, but the index does not name it: some engines load every .safetensors file
#1> model-00002-of-00002.safetensors: file-invalid
