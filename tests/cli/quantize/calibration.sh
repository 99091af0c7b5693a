#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Static scales from a history, by the formulas, in every format that can say them; and what comes out verifies.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
for model in "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert" "$SAMPLES/tiny-moe/fused"; do
	rm -rf out current s.amax
	amax make "$model" s.amax passes=5
	"$FP8CONV" quantize "$model" -o current --recipe current
	for format in compressed-tensors modelopt hf; do
		case $format in
		compressed-tensors) n='"kv_cache_scheme": {' cache=--kv-cache target=vllm ;;
		modelopt) n='"kv_cache_scheme": {' cache=--kv-cache target=trtllm ;;
		hf) n='"activation_scheme": "static"' cache= target=sglang ;;
		esac
		"$FP8CONV" quantize "$model" -o out --recipe delayed --format $format --calibration s.amax $cache
		grep -q "$n" out/config.json || echo "$format: no $n"
		amax scales "$model" s.amax out
		"$FP8CONV" verify out
		"$FP8CONV" verify out --target $target
		"$FP8CONV" verify out --source "$model"
		"$FP8CONV" inspect out | cut -f 1 >names
		echo "$format $(grep -c '\.input_scale$' names) $(grep -c 'self_attn\.[kv]_scale$' names) $(grep -c '\.[kv]_proj\.[kv]_scale$' names)"
		# The amax of these weights is what the history says, so the codes are as by `current`.
		python3 - <<'END'
import amax
_, a = amax.read("out")
_, b = amax.read("current")
for name in b:
    if b[name][0] == "F8_E4M3" and a[name] != b[name]:
        print("codes of", name)
    if name.endswith("weight_scale") and a[name][2] != b[name][2]:
        print("scale", name)
END
		rm -rf out
	done
done
# An engine's own format.
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --recipe delayed --target trtllm --calibration "$SAMPLES/amax/tiny-llama-1.amax"
grep -q '"quant_algo": "FP8"' out/hf_quant_config.json || cat out/hf_quant_config.json
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o tf --format hf --target transformers --recipe delayed \
	--calibration "$SAMPLES/amax/tiny-llama-1.amax"
"$FP8CONV" inspect tf | grep -c 'activation_scale	F32	\[\]'
"$FP8CONV" verify tf --target transformers

mkdir next
cd next
# GPT-OSS multiplies gate and up of an expert as one matrix, so that a history has one amax for both: it stands for each,
# as they share input and scale.  Of experts that are tensors of their own it does not.
need "$SAMPLES/tiny-moe"
python3 "$CLI/amax.py" make "$SAMPLES/tiny-moe/fused" apart.amax passes=3
cat >join.py <<'END'
import struct, sys
import amax
metadata, tensors = amax.read(sys.argv[1])
together = {}
for name, (dtype, shape, data) in tensors.items():
    to = name.replace("gate_proj", "gate_up_proj").replace(".up_proj", ".gate_up_proj")
    if to in together and dtype == "F32":
        pairs = zip(*(struct.unpack(f"<{len(d) // 4}f", d) for d in (data, together[to][2])))
        data = struct.pack(f"<{len(data) // 4}f", *map(max, pairs))
    together[to] = (dtype, shape, data)
if len(tensors) - len(together) < 4:
    print("no gate and up to join")
amax.write(sys.argv[2], metadata, together)
END
python3 join.py apart.amax together.amax
for recipe in delayed current; do
	for history in apart together; do
		"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o $recipe-$history --recipe $recipe --calibration $history.amax
	done
	same $recipe-apart $recipe-together
done
python3 "$CLI/amax.py" make "$SAMPLES/tiny-moe/per-expert" apart.amax passes=3
python3 join.py apart.amax together.amax
fails 3 " quantize: module 'model.layers.0.mlp.experts.0.gate_proj' is not in 'together.amax': the calibration did not cover it" \
	quantize "$SAMPLES/tiny-moe/per-expert" -o x --recipe delayed --calibration together.amax

mkdir next
cd next
# A history that does not belong to the model, or lacks what is needed; nothing is written.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
model=$SAMPLES/tiny-llama
q=' quantize: '
delayed="quantize $model -o out --recipe delayed --calibration"
amax make "$model" good.amax
amax make "$model" other.amax model=00
amax make "$model" less.amax drop=model.layers.2.mlp.up_proj
amax make "$model" none.amax passes=0
amax make "$model" inf.amax inf=model.layers.3.mlp.down_proj
amax make "$model" bare.amax histogram=0
sed 's/model.layers.1.self_attn.amax/model.layers.1.self_attm.amax/; s/model.layers.1.self_attn.tokens/model.layers.1.self_attm.tokens/' \
	good.amax >attention.amax
ours=$(amax fingerprint "$model")
fails 3 "${q}'other.amax' belongs to another model: its fingerprint is '00', but that of '$model' is '$ours': give one that was made of this model" $delayed other.amax
fails 3 "${q}module 'model.layers.2.mlp.up_proj' is not in 'less.amax': the calibration did not cover it" $delayed less.amax
fails 3 "${q}module 'model.layers.0.mlp.down_proj' has no pass in 'none.amax': the calibration stopped before it" $delayed none.amax
fails 3 "${q}amax of x of module 'model.layers.3.mlp.down_proj' in 'inf.amax' is infinite: it overflowed in the forward pass" \
	$delayed inf.amax
fails 3 "${q}attention 'model.layers.1.self_attn' is not in 'attention.amax': the calibration did not cover it" \
	$delayed attention.amax --kv-cache
fails 3 "${q}'$model/model.safetensors' is not an amax file: its metadata has no 'fp8conv_amax'" $delayed "$model/model.safetensors"
fails 3 "${q}cannot open 'nowhere': No such file or directory" $delayed nowhere
fails 2 "${q}option '--amax-algo': 'mse' needs histograms, but 'bare.amax' has none: calibrate with --histogram" $delayed bare.amax --amax-algo mse
fails 2 "${q}option '--calibration' does not apply to recipe 'blockwise', whose activations are dynamic: use recipe delayed or current, *" \
	quantize "$model" -o out --calibration good.amax
fails 2 "${q}format 'hf' does not support KV-cache scales: omit --kv-cache, or use --format compressed-tensors or modelopt" \
	$delayed good.amax --format hf --kv-cache
# What is not quantized need not be in the history.
"$FP8CONV" quantize "$model" -o kept --recipe delayed --calibration less.amax --exclude 'layers.2.mlp' && rm -rf kept
"$FP8CONV" quantize "$model" -o kept --calibration less.amax --tensor 'layers.0=current' --format compressed-tensors && rm -rf kept
# A dry run says what would be there, and the same.
"$FP8CONV" quantize "$model" --dry-run --recipe delayed --calibration good.amax --json >j
json j '[len(t["outputs"]) for t in j["tensors"] if t["action"] == "quantize"] == [3] * 28'
fails 3 "${q}module 'model.layers.2.mlp.up_proj' is not in *" $delayed less.amax --dry-run
# The same model in other files is the same model; a changed one is not.
"$FP8CONV" quantize - -o stream.safetensors --recipe delayed --calibration good.amax <"$model/model.safetensors"
"$FP8CONV" quantize "$model" -o dir --recipe delayed --calibration good.amax
cmp stream.safetensors dir/model.safetensors
mkdir changed && cp "$model/config.json" "$model/model.safetensors" changed
python3 - <<'END'
import checkpoint
file, name = "changed/model.safetensors", "model.layers.1.mlp.up_proj.weight"
checkpoint.flip(file, name, len(checkpoint.read(file)[name][2]) // 2)
END
fails 3 "${q}'good.amax' belongs to another model*" quantize changed -o out --recipe delayed --calibration good.amax
# A job is resumed only with the same history, under any name.
cp good.amax copy.amax
"$FP8CONV" quantize "$model" -o dir --recipe delayed --calibration copy.amax
amax make "$model" newer.amax seed=9
fails 2 "${q}'dir' holds the output of another job: option 'calibration' differs (use --restart to start over)" \
	quantize "$model" -o dir --recipe delayed --calibration newer.amax
[ -e out ] && echo "out was written"

mkdir next
cd next
# Experts that too few tokens reached.
need "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
q=' quantize: '
expert=model.layers.0.mlp.experts.1.up_proj
for model in "$SAMPLES/tiny-moe/per-expert" "$SAMPLES/tiny-moe/fused"; do
	rm -rf s.amax out
	amax make "$model" s.amax passes=2 quiet=$expert
	fails 3 "${q}fewer than 1 tokens reached the module of tensor '$expert.weight' in 's.amax': calibrate with more data, or choose a policy \
with --uncovered" quantize "$model" -o out --recipe delayed --calibration s.amax
	[ -e out ] && echo "out was written"
	for uncovered in group-max dynamic skip; do
		"$FP8CONV" quantize "$model" -o out --recipe delayed --calibration s.amax --uncovered $uncovered 2>note
		grep -q "note: 1 of 26 modules had too few tokens in 's.amax': --uncovered applies to them$" note || cat note
		amax scales "$model" s.amax out uncovered=$uncovered
		"$FP8CONV" inspect out | cut -f 1,2 >names
		echo $uncovered "$(grep -c 'layers.0.mlp.experts.*F8_E4M3' names)" "$(grep -c 'layers.0.mlp.experts.*input_scale' names)" \
			"$(grep -c 'layers.1.*input_scale' names)"
		"$FP8CONV" verify out
		"$FP8CONV" verify out --source "$model"
		rm -rf out
	done
done
# Two groups of modules, and experts alone are without static scales.
"$FP8CONV" quantize -q "$model" -o out --recipe delayed --calibration s.amax --uncovered dynamic
python3 - <<'END'
import json
groups = json.load(open("out/config.json"))["quantization_config"]["config_groups"]
print([(g["input_activations"]["dynamic"], len(g["targets"])) for g in groups.values()])
END
fails 2 "${q}tensor 'model.layers.0.mlp.experts.*': no engine loads recipe 'delayed' in format 'modelopt': it needs static input scales*" quantize "$model" -o mo --recipe delayed --calibration s.amax --uncovered dynamic \
	--format modelopt
# The limit counts the tokens of all passes kept: 32 here.
"$FP8CONV" quantize "$model" -o most --recipe delayed --calibration s.amax --uncovered group-max --min-tokens 32 --quiet
fails 3 "${q}fewer than 33 tokens reached the module of tensor 'model.layers.0.*" quantize "$model" -o more --recipe delayed \
	--calibration s.amax --min-tokens 33
fails 3 "${q}option '--uncovered group-max': no expert beside 'model.layers.0.mlp.experts.*' has enough tokens in 's.amax'" \
	quantize "$model" -o more --recipe delayed --calibration s.amax --min-tokens 33 --uncovered group-max --include experts
fails 3 "${q}fewer than 33 tokens reached the module of tensor 'model.layers.0.self_attn.*" quantize "$model" -o more \
	--recipe delayed --calibration s.amax --min-tokens 33 --uncovered group-max

mkdir next
cd next
# Experts that stay in one tensor have one scale of inputs: of the largest input of any of them, in any pass.
need "python3()"
python3 "$CLI/tiny.py" make step3p5 model
python3 "$CLI/tiny.py" ids 40 7 33 40 >ids.jsonl
"$FP8CONV" calibrate model --data ids.jsonl --seq-len 40 --histogram --quiet -o s.amax
"$FP8CONV" quantize model -o out --recipe delayed --calibration s.amax --uncovered group-max --quiet
"$FP8CONV" quantize model -o most --recipe delayed --calibration s.amax --amax-algo percentile=100 --uncovered group-max --quiet
python3 - <<'END'
import re
from checkpoint import read, unpack


def values(path):
    return {name: unpack(dtype, data) for name, (dtype, _, data) in read(path).items() if dtype == "F32"}


sites = {name.removesuffix(".amax_history"): row for name, row in values("s.amax").items() if name.endswith(".amax_history")}
for folder in ("out", "most"):
    scales = {name: row[0] for name, row in values(folder).items() if ".moe." in name and name.endswith("input_scale")}
    for name, scale in scales.items():
        stack, part = re.fullmatch(r"(.*\.moe)\.(\w+)\.input_scale", name).groups()
        found = [row[0::3] for site, row in sites.items() if re.fullmatch(rf"{re.escape(stack)}\.experts\.\d+\.{part}", site)]
        wanted = max(map(max, found)) / 448
        if not found or abs(scale / wanted - 1) > (1e-6 if folder == "out" else 0.07):
            print(folder, name, scale, wanted, len(found))
    print(folder, len(scales))
END

#1> compressed-tensors 28 8 0
#1> modelopt 28 0 8
#1> hf 28 0 0
#1> compressed-tensors 26 4 0
#1> modelopt 26 0 4
#1> hf 26 0 0
#1> compressed-tensors 26 4 0
#1> modelopt 26 0 4
#1> hf 26 0 0
#1> 28
#1> group-max 9 9 13
#1> dynamic 9 0 13
#1> skip 0 0 13
#1> group-max 9 9 13
#1> dynamic 9 0 13
#1> skip 0 0 13
#1> [(False, 1), (True, 9)]
#1> out 9
#1> most 9
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: SGLang does not load the KV cache scales of this model: it uses 1.0, first for 'model.layers.0.self_attn' [sglang model classes]
#2> fp8conv quantize: note: SGLang does not load the KV cache scales of this model: it uses 1.0, first for 'model.layers.0.self_attn' [sglang model classes]
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: SGLang does not load the KV cache scales of this model: it uses 1.0, first for 'model.layers.0.self_attn' [sglang model classes]
#2> fp8conv quantize: note: SGLang does not load the KV cache scales of this model: it uses 1.0, first for 'model.layers.0.self_attn' [sglang model classes]
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
