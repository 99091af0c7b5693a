#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Scales of KV caches that are missing, or that engines do not load or read wrong.
need "$SAMPLES/tiny-llama" "python3()"
python3 "$CLI/tiny.py" make glm4_moe_lite latent
"$FP8CONV" quantize latent -o mla --recipe channelwise --quiet
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o heads --recipe channelwise --quiet
rm mla/fp8conv-manifest.json heads/fp8conv-manifest.json

# with MODEL NAME=VALUES...: a copy of it in "out" with these scales, F32 of [1] or of as many values as there are.
with() {
	rm -rf out
	cp -r "$1" out
	chmod -R u+w out
	shift
	python3 - "$@" <<'END'
import sys
import checkpoint
tensors = checkpoint.read("out")
for word in sys.argv[1:]:
    name, values = word.split("=")
    values = [float(v) for v in values.split(",")]
    tensors[f"model.layers.{name}"] = "F32", [len(values)], checkpoint.pack("F32", values)
checkpoint.write("out/model.safetensors", tensors)
END
}

# found WORDS...: verify reports these problems of "out", and no others; WORDS are patterns of its lines.
found() {
	"$FP8CONV" verify out >told 2>err
	grep -vx "fp8conv verify: note: kv-scale-missing: 3 of 4 attentions have no scales of their caches, first that of 'model.layers.1.self_attn.k_proj.weight': engines use 1.0 there" err
	[ "$(wc -l <told)" -eq $# ] || cat told
	for words; do
		grep -q "$words" told || echo "not told: $words"
	done
}

# Each layer has the latent scale: no problem, with that of values or without.
layers=$(python3 "$CLI/checkpoint.py" list mla | sed -n 's/^model\.layers\.\([0-9]*\)\.self_attn\.kv_b_proj\.weight\t.*/\1/p')
one= both= short=
for layer in $layers; do
	one="$one $layer.self_attn.k_proj.k_scale=0.5"
	both="$both $layer.self_attn.k_proj.k_scale=0.5 $layer.self_attn.v_proj.v_scale=0.5"
	short="$short $layer.self_attn.k_scale=0.5"
done
[ -n "$layers" ] || echo "no layers"
# shellcheck disable=SC2086
for words in "$one" "$both"; do
	with mla $words
	found
done
# shellcheck disable=SC2086
with mla $short
# shellcheck disable=SC2046
found $(for layer in $layers; do echo "kv-scale-name:.scale.'model.layers.$layer.self_attn.k_scale'.*'model.layers.$layer.self_attn.k_proj.k_scale'"; done)
# shellcheck disable=SC2086
with mla $one 0.self_attn.v_proj.v_scale=1 0.self_attn.k_proj.k_scale=0.5,0.5
found "scale-shape: scale 'model.layers.0.self_attn.k_proj.k_scale' has 2 values, but what latent attention caches has one scale"
for value in 0 -1 nan inf; do
	# shellcheck disable=SC2086
	with mla $one 0.self_attn.k_proj.k_scale=$value
	found "scale-value: scale 'model.layers.0.self_attn.k_proj.k_scale' has the value $value:"
done
with mla 0.self_attn.k_proj.k_scale=1
# shellcheck disable=SC2046
found $(for layer in $layers; do [ "$layer" = 0 ] || echo "kv-scale-missing:.attention.'model.layers.$layer.self_attn'"; done)
# shellcheck disable=SC2086
with mla ${one#* *=0.5} 0.self_attn.v_proj.v_scale=1
found "kv-scale-pair: 'model.layers.0.self_attn.v_proj.v_scale' exists, but 'model.layers.0.self_attn.k_proj.k_scale' does not" \
	"kv-scale-missing: attention 'model.layers.0.self_attn'"

# Keys and values apart.
with heads 0.self_attn.k_scale=1 0.self_attn.v_scale=1
found
with heads 0.self_attn.k_scale=1
found "kv-scale-pair: 'model.layers.0.self_attn.k_scale' exists, but 'model.layers.0.self_attn.v_scale' does not"
with heads 0.self_attn.k_proj.k_scale=1 0.self_attn.v_proj.v_scale=0
found "scale-value: scale 'model.layers.0.self_attn.v_proj.v_scale' has the value 0:"

# A cache with static scales is declared, and the files have none: engines use 1.0, with a warning.  A dynamic one has none.
for dynamic in false true; do
	with heads
	python3 - $dynamic <<'END'
import json, sys
c = json.load(open("out/config.json"))
c["quantization_config"]["kv_cache_scheme"] = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": sys.argv[1] == "true"}
json.dump(c, open("out/config.json", "w"))
END
	case $dynamic in
	false) found "config.json: kv-scale-missing: a KV cache with static scales is declared, but the files have none: engines use 1.0" ;;
	true) found ;;
	esac
done

mkdir next
cd next
# Input scales of the gate and the up projection of an expert: engines keep one, and vLLM refuses more than 1e-5.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
python3 "$CLI/amax.py" make "$model" s.amax passes=2
"$FP8CONV" quantize -q "$model" -o out --recipe delayed --calibration s.amax
rm out/fp8conv-manifest.json
# apart up|down STEPS: up_proj's scale is the last value within 1e-5 of gate_proj's in that direction, and STEPS further.
apart() {
	python3 - "$@" <<'END'
import pathlib, struct, sys
import checkpoint
up, steps = sys.argv[1] == "up", int(sys.argv[2])
pack = lambda x: struct.pack("<f", x)
value = lambda bits: struct.unpack("<f", struct.pack("<I", bits))[0]
fp32 = lambda x: struct.unpack("<f", pack(x))[0]
gate, place = None, None
for file in sorted(pathlib.Path("out").glob("*.safetensors")):
	data = file.read_bytes()
	entries, start = checkpoint.header(data)
	for name, t in entries.items():
		if name == "model.layers.0.mlp.experts.1.gate_proj.input_scale":
			gate = data[start + t["data_offsets"][0]:][:4]
		if name == "model.layers.0.mlp.experts.1.up_proj.input_scale":
			place = file, start + t["data_offsets"][0]
bits = struct.unpack("<I", gate)[0]
first, step = fp32(struct.unpack("<f", gate)[0]), 1 if up else -1
while fp32(abs(value(bits + step) - first)) <= fp32(1e-5):
	bits += step
with open(place[0], "r+b") as file:
	file.seek(place[1])
	file.write(struct.pack("<I", bits + step * steps))
END
}
for way in up down; do
	apart $way 0
	"$FP8CONV" verify out || echo "$way: the limit itself is refused"
	apart $way 1
	"$FP8CONV" verify out >lines && echo "$way: beyond the limit passes"
	sed 's/ is [0-9.e-]*/ is N/g' lines
done

#1> model-00001-of-00002.safetensors: group-scales-differ: 'model.layers.0.mlp.experts.1.up_proj.input_scale' is N, but 'model.layers.0.mlp.experts.1.gate_proj.input_scale' is N: vLLM and SGLang refuse a difference above 1e-05
#1> model-00001-of-00002.safetensors: group-scales-differ: 'model.layers.0.mlp.experts.1.up_proj.input_scale' is N, but 'model.layers.0.mlp.experts.1.gate_proj.input_scale' is N: vLLM and SGLang refuse a difference above 1e-05
