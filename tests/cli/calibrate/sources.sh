#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# w is the amax of what the checkpoint holds, to the bit: FP8 through its scales in every variant, F32, F16 and BF16 as they are;
# of matrices of more bands than one, and of experts in one tensor.
need "$SAMPLES/tiny-llama"
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" finite "$variant" in
	python3 "$CLI/fp8.py" amax "$variant" >table
	mkdir dumps
	# shellcheck disable=SC2046
	python3 "$CLI/dump.py" make dumps/0.safetensors 3 $(awk '{ print $1 "=" $2 }' table)
	"$FP8CONV" calibrate in --activations dumps -o s.amax --quiet
	python3 "$CLI/dump.py" weights s.amax table
	rm -rf in dumps s.amax
done

# A gate that ends within a block cannot be told from its up.
python3 "$CLI/fp8.py" finite experts in
mkdir dumps
python3 "$CLI/dump.py" make dumps/0.safetensors 3 experts.1.up_proj=200
fails 3 " calibrate: FP8 tensor 'experts.gate_up_proj' stores 'experts.0.up_proj' transposed or in part of a block, which is unsupported: dequantize it first" \
	calibrate in --activations dumps -o s.amax

# A model of 3 types: what quantize makes of it, and what dequantize makes of that.
python3 -c "print('[' + ','.join(str(i * 7 % 1000) for i in range(64)) + ']')" | sed 's/.*/{"input_ids": &}/' >ids.jsonl
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o fp8
for dtype in f32 f16 bf16; do
	"$FP8CONV" dequantize fp8 -o $dtype --dtype $dtype
	for precision in f32 bf16; do
		"$FP8CONV" calibrate $dtype --data ids.jsonl --precision $precision -o $dtype.amax --quiet --restart
		python3 "$CLI/dump.py" own $dtype $dtype.amax
	done
	"$FP8CONV" inspect $dtype.amax | cut -f 1,5 >$dtype.table
done
"$FP8CONV" calibrate fp8 --data ids.jsonl -o fp8.amax --quiet
"$FP8CONV" inspect fp8.amax | cut -f 1,5 | cmp - f32.table

# A weight that lies transposed, as GPT-2 has them: its blocks are not the matrix's.
mkdir conv1d
python3 - <<'END'
import json
import checkpoint
name = "transformer.h.0.mlp.c_fc.weight"
checkpoint.write("conv1d/model.safetensors", {name: ("F8_E4M3", [128, 256], bytes([0x38] * 32768)),
                                              name + "_scale_inv": ("F32", [1, 2], checkpoint.pack("F32", [1, 1]))})
json.dump({"architectures": ["GPT2LMHeadModel"], "quantization_config": {
    "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}}, open("conv1d/config.json", "w"))
END
rm -rf dumps && mkdir dumps
python3 "$CLI/dump.py" make dumps/0.safetensors 3 transformer.h.0.mlp.c_fc=128
fails 3 " calibrate: FP8 tensor 'transformer.h.0.mlp.c_fc.weight' is transposed, which is unsupported: dequantize it first" \
	calibrate conv1d --activations dumps -o t.amax

# A matrix that is read in parts.
mkdir tall
python3 "$CLI/checkpoint.py" make tall/model.safetensors a.weight=F32:17000x16:nan
echo '{"architectures": ["X"], "hidden_size": 16}' >tall/config.json
rm -rf dumps && mkdir dumps
python3 "$CLI/dump.py" make dumps/0.safetensors 3 a=16
fails 3 " calibrate: rows 0 to 1023 of tensor 'a.weight' have 16384 values that are NaN or infinite" \
	calibrate tall --activations dumps -o t.amax
