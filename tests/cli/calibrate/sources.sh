#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# w is the amax of what the checkpoint holds, to the bit: FP8 through its scales in every flavour, F32, F16 and BF16 as they are;
# of matrices of more bands than one, and of experts in one tensor.
need "$SAMPLES/tiny-llama"
for flavour in $(python3 "$CLI/fp8.py" flavours); do
	python3 "$CLI/fp8.py" finite "$flavour" in
	python3 "$CLI/fp8.py" amax "$flavour" >table
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
fails 3 " calibrate: FP8 tensor 'experts.gate_up_proj' holds 'experts.0.up_proj' in a way that cannot be read: transposed, or in part of a block" \
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
