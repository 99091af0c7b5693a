#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What is not a number is found where it arises; nothing is written.
need "$SAMPLES/tiny-llama"
printf '{"input_ids": [1, 2, 3, 4, 5]}\n' >ids.jsonl
cp -r "$SAMPLES/tiny-llama" model
chmod -R u+w model
# damage NAME BYTES: the first element of a tensor.
damage() {
	python3 - "$1" "$2" <<-'END'
		import json, sys
		data = bytearray(open("model/model.safetensors", "rb").read())
		n = int.from_bytes(data[:8], "little")
		begin = json.loads(data[8:8 + n])[sys.argv[1]]["data_offsets"][0] + 8 + n
		value = bytes.fromhex(sys.argv[2])
		data[begin:begin + len(value)] = value
		open("model/model.safetensors", "wb").write(data)
	END
}
damage model.layers.1.post_attention_layernorm.weight c07f
fails 3 " calibrate: the forward pass went wrong: the input of 'model.layers.1.mlp.gate_proj' holds * values that are NaN or infinite, in sequence 0" \
	calibrate model --data ids.jsonl -o s.amax
cp "$SAMPLES/tiny-llama/model.safetensors" model/
damage model.layers.1.mlp.down_proj.weight c07f
fails 3 " calibrate: tensor 'model.layers.1.mlp.down_proj.weight' has 1 values that are NaN or infinite" \
	calibrate model --data ids.jsonl -o s.amax
[ ! -e s.amax ] || echo "s.amax was written"
