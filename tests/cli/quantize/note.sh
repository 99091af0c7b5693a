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
# What is no model is called what it is.
python3 "$CLI/checkpoint.py" make adapter.safetensors base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight=BF16:128x128
fails 2 " quantize: nothing to quantize: *: adapter; merge it into its base model first (merge_and_unload() of peft)" \
	quantize adapter.safetensors -o d.safetensors
echo "a text of more than eight bytes" >text.txt
fails 3 " quantize: 'text.txt' is not a safetensors file: its header would be * bytes long, of a file of 32" quantize text.txt -o d
fails 3 " quantize: output 'text.txt' is a file, not a directory: give another name" quantize in.safetensors -o text.txt
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

# BF16 weights of BitNet mean something else than they say: transformers rounds them in its BitLinear.
mkdir bit
cp fused.safetensors bit/model.safetensors
for config in '"bitnet"' '"llama", "quantization_config": {"quant_method": "bitnet", "quantization_mode": "online"}'; do
	echo "{\"model_type\": $config}" >bit/config.json
	fails 2 "$why * BitNet's layers round weights *" quantize bit -o e
done

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

mkdir then
cd then
# What a target other than TensorRT-LLM refuses of a plan, and nothing else, is a note of the plan without one, which names the
# engine: by each row of the families, and by what formats have of engines.
"$FP8CONV" families --json >families
python3 - <<'EOF'
import json
import os
import re
import subprocess

import checkpoint

ENGINES = ("vllm", "sglang", "trtllm", "transformers")
JOBS = [["--recipe", recipe, "--format", form] for recipe in ("blockwise", "channelwise", "current", "mxfp8")
        for form in ("hf", "compressed-tensors", "modelopt")]
AT = "model.layers.0."
# The tensors of a pattern of more than one module; for others its own name.
EXPERTS = {"*.experts.*.gate_proj": {AT + f"mlp.experts.0.{name}_proj.weight": (128, 128) for name in ("gate", "up", "down")},
           "*.experts.w{13,2}_weight": {AT + "mlp.experts.w13_weight": (2, 256, 128), AT + "mlp.experts.w2_weight": (2, 128, 128)},
           "*.experts.*": {AT + "mlp.experts.gate_up_proj": (2, 128, 256), AT + "mlp.experts.down_proj": (2, 128, 128)},
           "*.block_sparse_moe.*": {AT + "block_sparse_moe.input_linear.weight": (2, 256, 128),
                                    AT + "block_sparse_moe.output_linear.weight": (2, 128, 128)}}
LINEAR = {AT + "self_attn.o_proj.weight": (128, 128)}
MOE = LINEAR | EXPERTS["*.experts.*.gate_proj"]


def tensors(pattern):
    own = {} if pattern == "*" else {pattern.replace("*.", AT, 1) + ".weight": (256, 128)}
    return EXPERTS.get(pattern) or LINEAR | own


def plan(*options):
    done = subprocess.run([os.environ["FP8CONV"], "quantize", "in", "--dry-run", *options], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def named(notes):
    """The engines that do not load it by the notes; sources of rules and names of tensors aside."""
    told = [line for line in notes.splitlines() if re.search("note: .*; see --target ", line)]
    return set(re.findall("|".join(ENGINES), re.sub(r"\[.*?\]|'.*?'", "", " ".join(told))))


def refusals(model_type, weights, options=()):
    """(engine, words) of the targets that are refused where a plan without a target is possible; checks its notes."""
    checkpoint.make("in/model.safetensors", [f"{name}=BF16:{'x'.join(map(str, shape))}" for name, shape in weights.items()])
    with open("in/config.json", "w", encoding="utf-8") as file:
        json.dump({"model_type": model_type, "hidden_size": 128, "num_hidden_layers": 1}, file)
    found = []
    for job in JOBS:
        status, notes = plan(*job, *options)
        refused = {}
        for engine in ENGINES if status == 0 else ():
            status, said = plan(*job, *options, "--target", engine)
            if status:
                refused[engine] = said
        if refused.keys() - {"trtllm"} != named(notes):
            print(model_type, *job, *options, "is refused for", *refused, "but noted:", notes.strip())
        found += refused.items()
    return found


os.mkdir("in")
for row in json.load(open("families", encoding="utf-8"))["rows"]:
    if row["action"] == "not-loaded":
        found = {engine for engine, said in refusals(row["families"][0], tensors(row["pattern"])) if row["said"] in said}
        if found != set(row["engines"] or ENGINES):
            print("the row", row["said"], "refuses for", sorted(found))
for options in ([], ["--fp8-format", "e5m2"], ["--tensor", "o_proj=channelwise"], ["--tensor", "lm_head=channelwise"]):
    if not refusals("qwen3_moe", MOE | {"lm_head.weight": (256, 128)}, options):
        print("no engine refuses anything with", *options)
EOF
#2> fp8conv quantize: note: the source is incomplete: 'model.layers.1.self_attn.o_proj.weight' is missing, but 2 layers else like it, as 0, have it
#2> fp8conv quantize: note: the source is incomplete: 'model.layers.1.self_attn.o_proj.weight' is missing, but 2 layers else like it, as 0, have it
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
