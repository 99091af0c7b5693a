#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
