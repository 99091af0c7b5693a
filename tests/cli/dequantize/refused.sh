#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What is refused, with which words; nothing is made.
need "$SAMPLES/tiny-llama"
fails 2 " dequantize: nothing to dequantize: '$SAMPLES/tiny-llama' has neither FP8 nor low-bit weights" \
	dequantize "$SAMPLES/tiny-llama" -o out
fails 2 " dequantize: MODEL is missing (fp8conv dequantize MODEL -o OUT)" dequantize
fails 2 " dequantize: option '--output' is missing*" dequantize x
fails 2 " dequantize: option '--dtype': 'fp16' is not one of bf16, f16, f32 (did you mean 'f16'?)" dequantize x -o y --dtype fp16
fails 2 " dequantize: unknown option '--recipe' *" dequantize x -o y --recipe mxfp8
fails 2 " dequantize: unexpected argument 'b' (give the output as -o b)" dequantize a b
fails 3 " dequantize: *none*" dequantize none -o out

# bytes FILE JSON COUNT: a file of that header and so many zero bytes.
bytes() {
	python3 - "$1" "$2" "$3" <<-'END'
		import sys
		file, header, n = sys.argv[1:]
		text = header.replace("'", '"').encode()
		open(file, "wb").write(len(text).to_bytes(8, "little") + text + bytes(int(n)))
	END
}
w="'a.weight': {'dtype': 'F8_E4M3', 'shape': [2, 2], 'data_offsets': [0, 4]}"
bytes a.safetensors "{$w}" 4
fails 3 " dequantize: FP8 tensor 'a.weight' has no scale" dequantize a.safetensors -o b.safetensors
bytes a.safetensors "{$w, 'a.weight_scale': {'dtype': 'F32', 'shape': [3], 'data_offsets': [4, 16]}}" 16
fails 3 " dequantize: scale 'a.weight_scale' is F32 \[3], which does not fit any tiling of \[2, 2] of 'a.weight'" \
	dequantize a.safetensors -o b.safetensors
bytes a.safetensors "{'a.weight': {'dtype': 'F8_E4M3', 'shape': [4], 'data_offsets': [0, 4]}, 'b.weight': {'dtype': 'F8_E4M3',
	'shape': [2, 2], 'data_offsets': [4, 8]}, 'b.weight_scale': {'dtype': 'F32', 'shape': [], 'data_offsets': [8, 12]}}" 12
fails 3 " dequantize: FP8 tensor 'a.weight' has 1 dimensions, not 2 or 3" \
	dequantize a.safetensors -o b.safetensors
bytes a.safetensors "{'a.weight': {'dtype': 'F8_E4M3FNUZ', 'shape': [2, 2], 'data_offsets': [0, 4]}, 'b.weight': {'dtype': 'F8_E4M3',
	'shape': [2, 2], 'data_offsets': [4, 8]}, 'b.weight_scale': {'dtype': 'F32', 'shape': [], 'data_offsets': [8, 12]}}" 12
fails 3 " dequantize: tensor 'a.weight' has the unsupported type F8_E4M3FNUZ" dequantize a.safetensors -o b.safetensors
[ "$(ls)" = a.safetensors ] || ls

# Packed weights of another scheme need the configuration that would go.
python3 "$CLI/fp8.py" make hf-block in
python3 - <<'END'
import checkpoint
checkpoint.write("in/model.safetensors", checkpoint.read("in") | {"n.weight_packed": ("I8", [5, 4], bytes(20))})
END
fails 3 " dequantize: tensor 'n.weight_packed' is I8 in a source that is already quantized (quant_method 'fp8'): *" \
	dequantize in -o out
rm -r in
python3 "$CLI/fp8.py" make hf-block in
python3 - <<'END'
import checkpoint
checkpoint.write("in/model.safetensors", checkpoint.read("in") | {"n.weight": ("U32", [5, 4], bytes(80)), "n.scales": ("BF16", [5, 1], bytes(10))})
END
said="tensor 'n.weight' is U32, as MLX packs weights, "
fails 3 " dequantize: ${said}which fp8conv does not read: *" dequantize in -o out
fails 3 " repack: ${said}which fp8conv does not read: *" repack in -o out --format hf
fails 3 " quantize: ${said}which fp8conv does not read: *" quantize in -o out --requantize
"$FP8CONV" verify in | grep -qF "tensor-name: ${said}but config.json does not say so" || echo "verify names no weight of MLX"
[ ! -e out ] || echo "out was made"
rm -rf in a.safetensors
