#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Scales of inputs and caches: under the format's names and shapes, or refused.
# scales PATH: names, types and shapes of all that is no weight of 2 dimensions.
scales() {
	python3 "$CLI/checkpoint.py" list "$1" | cut -f 1-3 | grep scale
}
python3 "$CLI/fp8.py" make ct-tensor in
"$FP8CONV" repack in -o modelopt --format modelopt
scales modelopt >found
printf '%s\t%s\t%s\n' a.input_scale F32 "" a.weight_scale F32 "" model.layers.0.self_attn.k_proj.k_scale F32 "" \
	model.layers.0.self_attn.v_proj.v_scale F32 "" scale F16 2 | diff - found
grep -q '"kv_cache_quant_algo": "FP8"' modelopt/hf_quant_config.json || cat modelopt/hf_quant_config.json
"$FP8CONV" repack modelopt -o ct --format compressed-tensors
scales ct >found
printf '%s\t%s\t%s\n' a.input_scale F32 1 a.weight_scale F32 1 model.layers.0.self_attn.k_scale F32 1 \
	model.layers.0.self_attn.v_scale F32 1 scale F16 2 | diff - found
grep -q '"kv_cache_scheme": {' ct/config.json || cat ct/config.json
fails 2 " repack: format 'hf' does not support KV-cache scale 'model.layers.0.self_attn.k_scale': *" \
	repack in -o out --format hf
"$FP8CONV" repack in -o c.safetensors --format compressed-tensors --quiet
# What the target needs and the source has not.
python3 "$CLI/fp8.py" make hf-tensor dynamic
fails 2 " repack: no engine loads recipe 'current' in format 'modelopt': it needs static input scales*" \
	repack dynamic -o out --format modelopt
sed -i 's/"quant_method"/"kv_cache_scheme": {"num_bits": 8}, "quant_method"/' dynamic/config.json
fails 2 " repack: the source configuration declares a quantized KV cache, but the source has no KV-cache scales: *" \
	repack dynamic -o out --format compressed-tensors
# rename FROM TO: in the one file of `in`, names of the same length.
rename() {
	sed "s/$1/$2/" in/model.safetensors >renamed.safetensors
}
rename self_attn.v_scale self_attn.q_scale
fails 2 " repack: *k_scale' has no counterpart for the values: engines need both" \
	repack renamed.safetensors -o out.safetensors --format modelopt
rename a.input_scale b.input_scale
fails 2 " repack: scale 'b.input_scale' belongs to no FP8 weight" \
	repack renamed.safetensors -o out.safetensors --format compressed-tensors
# A static input does not make a recipe of whole tensors out of channels.
python3 "$CLI/fp8.py" make ct-channel channel
python3 - <<'END'
import checkpoint
checkpoint.write("channel.safetensors", checkpoint.read("channel") | {"a.input_scale": ("F32", [1], checkpoint.pack("F32", [1]))})
END
fails 2 " repack: tensor 'a.weight': no engine loads recipe 'channelwise' in format 'compressed-tensors': *" \
	repack channel.safetensors -o out.safetensors --format compressed-tensors
# The same way through a file and a stream.
"$FP8CONV" repack in/model.safetensors -o a.safetensors --format modelopt
"$FP8CONV" repack - -o - --format modelopt <in/model.safetensors | cmp - a.safetensors
[ ! -e out ] && [ ! -e out.safetensors ] || echo "out was made"

"$FP8CONV" repack in --format modelopt --dry-run --json >j
json j 'j["recipe"] == "delayed" and j["format"] == "modelopt"' \
	'{t["action"] for t in j["tensors"]} == {"repack", "keep"}' 'j["totals"]["repacked"] == 1' \
	'j["totals"]["output_bytes"] == sum(o["bytes"] for t in j["tensors"] for o in t["outputs"])'
"$FP8CONV" repack in -o facts --format modelopt --json >j
json j 'j["tensors"] == {"repacked": 1, "kept": 5}' '"worst" not in j'

fails 2 " repack: option '--format' is missing: choose a format, or an engine with --target" repack in -o out
fails 2 " repack: option '--recipe': 'blockwise' is not possible: repack keeps the codes and can only turn blocks into mxfp8" repack in -o out --format hf --recipe blockwise
fails 2 " repack: unknown format 'hff' (did you mean 'hf'?)" repack in -o out --format hff
fails 2 " repack: nothing to repack: '*' has no FP8 weights" repack "$SAMPLES/tiny-llama" -o out --format hf
fails 2 " repack: *same directory*" repack in -o in --format modelopt
fails 2 " repack: *--restart*" repack in -o ct --format compressed-tensors

mkdir next
cd next
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
