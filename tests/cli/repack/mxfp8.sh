#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Power-of-two blocks become MX blocks of the same codes: each scale 128 rows of 4 exponents, less at the edges.
python3 - <<'END'
import json, os, random
import checkpoint
r, names, tensors = random.Random(1), [], {}
for name, rows, cols in (("a", 300, 320), ("b", 1, 32), ("c", 128, 4128)):
    n = -(-rows // 128) * -(-cols // 128)
    exponents = [127, *(r.randrange(0, 255) for _ in range(n - 1))]     # the first block is zero: 1.0
    codes = bytearray(r.randrange(0, 127) for _ in range(rows * cols))
    for i in range(min(rows, 128)):
        codes[i * cols:i * cols + min(cols, 128)] = bytes(min(cols, 128))
    tensors[f"{name}.weight"] = "F8_E4M3", [rows, cols], bytes(codes)
    tensors[f"{name}.weight_scale_inv"] = ("F32", [-(-rows // 128), -(-cols // 128)],
                                           checkpoint.pack("F32", [2.0 ** (e - 127) for e in exponents]))
    names.append((name, rows, cols, exponents))
os.mkdir("in")
checkpoint.write("in/model.safetensors", tensors)
config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
json.dump({"quantization_config": config}, open("in/config.json", "w"))
json.dump(names, open("names", "w"))
END
for way in "" "--threads 1 --max-memory 24832K" "--threads 3 --max-memory 25344K"; do
	for format in hf compressed-tensors modelopt; do
		# shellcheck disable=SC2086
		"$FP8CONV" repack in -o out --recipe mxfp8 --format $format $way -q
		python3 - <<-'END'
			import json, checkpoint
			found, source = checkpoint.read("out"), checkpoint.read("in")
			for name, rows, cols, exponents in json.load(open("names")):
			    if found[f"{name}.weight"] != source[f"{name}.weight"]:
			        print(name, "has other codes")
			    scale = next(v for k, v in found.items() if k.startswith(f"{name}.weight_"))
			    wanted = bytes(exponents[r // 128 * -(-cols // 128) + c // 4] for r in range(rows) for c in range(cols // 32))
			    if scale != ("U8", [rows, cols // 32], wanted):
			        print(name, "has other scales", scale[:2])
			if len(found) != 6:
			    print(*found)
		END
		"$FP8CONV" dequantize out -o values --dtype f32
		[ -e wanted ] || "$FP8CONV" dequantize in -o wanted --dtype f32
		same wanted values
		rm -rf out values
	done
done
# Not without: any other scale, other columns, other tiles.
need "$SAMPLES/tiny-llama"
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o float --scale-fmt float --quiet
fails 2 " repack: scale 'model.layers.*.weight_scale_inv' in 'float/model.safetensors' is * at 0, which is not a power of two *" \
	repack float -o out --recipe mxfp8 --format hf
python3 "$CLI/fp8.py" make hf-block ragged
fails 2 " repack: tensor 'a.weight' (200 x 300) cannot become mxfp8: the number of its columns is not a multiple of 32" \
	repack ragged -o out --recipe mxfp8 --format hf
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o rows --recipe channelwise --quiet
fails 2 " repack: tensor 'model.layers.* cannot become mxfp8: only scales of blocks with a multiple of 32 columns *" \
	repack rows -o out --recipe mxfp8 --format hf
[ ! -e out ] || echo "out was made"
