#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Less memory finds the same; too little is said before anything is read.
need "$SAMPLES/tiny-llama"
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
"$FP8CONV" quantize model -o out
size=$(stat -c %s model/model.safetensors)
printf '\001\002\003' | dd of=model/model.safetensors bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
"$FP8CONV" verify out --source model --json >wanted
for memory in 1M 2M 64M; do
	"$FP8CONV" verify out --source model --json --max-memory $memory --threads 2 >j
	diff wanted j
done
json wanted 'len(j["problems"]) > 0'
fails 2 " verify: option '--max-memory' leaves 51200 bytes for each thread, but a row of tiles of 'model.layers.0.mlp.down_proj.weight' needs 360448: increase --max-memory or reduce --threads" \
	verify out --source model --max-memory 100K --threads 2
"$FP8CONV" verify out --max-memory 200K --threads 2
# Rows of tiles of more codes than a cut are read whole, or in columns where the memory is less: each finds the bad code at
# the end of a row, and that the file changed.
python3 - <<'END'
import os, random
import checkpoint
os.mkdir("wide")
values = random.Random(8).randbytes(2 * 256 * 5120).translate(bytes(b & 0xBF | 0x30 for b in range(256)))
checkpoint.write("wide/model.safetensors", {"model.layers.0.mlp.down_proj.weight": ("BF16", [256, 5120], values)})
END
cp model/config.json wide
"$FP8CONV" quantize wide -o wide-out --recipe blockwise --quiet
"$FP8CONV" verify wide-out --source wide
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("wide-out")
name = "model.layers.0.mlp.down_proj.weight"
dtype, shape, codes = tensors[name]
tensors[name] = dtype, shape, codes[:5119] + b"\x7f" + codes[5120:]
checkpoint.write("wide-out/model.safetensors", tensors)
END
"$FP8CONV" verify wide-out --json >wanted 2>&1 || [ $? = 1 ]
json wanted '{p["kind"] for p in j["problems"]} >= {"code-nan", "file-changed"}'
for memory in 1M 6M 64M; do
	"$FP8CONV" verify wide-out --json --max-memory $memory --threads 2 >j || [ $? = 1 ]
	diff wanted j
done

mkdir next
cd next
# Of a kind of problems the first 1000 are listed, and the others are counted: an index may name millions of tensors.
python3 - <<'END'
import json, os
import checkpoint
os.mkdir("index")
os.mkdir("scales")
config = json.dumps({"model_type": "llama", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}})
for folder in ("index", "scales"):
    open(folder + "/config.json", "w").write(config)
names = [f"model.layers.{i}.mlp.down_proj.weight" for i in range(2500)]
checkpoint.write("scales/model.safetensors", {name: ("F8_E4M3", [2, 2], b"\x38\x30\x34\x3a") for name in names[:1200]})
checkpoint.write("index/model-1.safetensors", {name: ("F8_E4M3", [2, 2], b"\x38\x30\x34\x3a") for name in names[:1100]})
checkpoint.write("index/model-2.safetensors", {"lm_head.weight": ("BF16", [2, 2], b"\x80\x3f" * 4)})
weight_map = {name: "model-2.safetensors" for name in names} | {"lm_head.weight": "model-2.safetensors", "model.norm.weight": "model-1.safetensors"}
open("index/model.safetensors.index.json", "w").write(json.dumps({"weight_map": weight_map}))
END
"$FP8CONV" verify scales --json >j
json j 'sum(p["kind"] == "scale-missing" for p in j["problems"]) == 1001' \
	'[p for p in j["problems"] if p["kind"] == "scale-missing"][-1]["message"] == "200 more of this kind are not listed"'
"$FP8CONV" verify index --json >j
json j 'sum(p["kind"] == "index-missing" for p in j["problems"]) == 1001' \
	'[p for p in j["problems"] if p["kind"] == "index-missing"][-1]["message"] == "1501 more of this kind are not listed"' \
	'sum(p["kind"] == "index-unmapped" for p in j["problems"]) == 1001' \
	'[p for p in j["problems"] if p["kind"] == "index-unmapped"][-1]["message"] == "100 more of this kind are not listed"' \
	'sum("lists it in" in p["message"] for p in j["problems"]) == 32'

mkdir mx
cd mx
# Scales of E8M0 are counted, with the first place: three NaN, and 1024 of 2^-107, whose weights count for nothing.
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o nan --recipe mxfp8 --quiet
cp -r nan small
python3 - <<'END'
import json, pathlib
for folder, first, bytes_ in (("nan", 5, [255] * 3), ("small", 0, [20] * 1024)):
    path = pathlib.Path(folder, "model.safetensors")
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    begin = 8 + size + json.loads(data[8:8 + size])["model.layers.0.mlp.down_proj.weight_scale_inv"]["data_offsets"][0] + first
    data[begin:begin + len(bytes_)] = bytes(bytes_)
    path.write_bytes(data)
END
"$FP8CONV" verify nan | grep -q "scale-value: 3 of 1024 values of .*down_proj.* not finite; the first is nan at 5:" || echo "three NaN are not counted"
"$FP8CONV" verify small | grep -q "scale-value: 1024 of 1024 values of .*down_proj.* too small .* the first is 6.16298e-33 at 0:" || echo "small scales are not counted"
