#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# NaN and infinity: refused with tensor, index and value; saturated and counted; or the tensor is kept.
make() {
	python3 "$CLI/checkpoint.py" make in.safetensors \
		"model.layers.0.self_attn.o_proj.weight=F32:128x256:$1" "model.layers.0.mlp.down_proj.weight=BF16:128x128"
}
for value in nan inf -inf; do
	make $value
	fails 3 " quantize: *'model.layers.0.self_attn.o_proj.weight'*$value*" quantize in.safetensors -o out.safetensors
	[ ! -e out.safetensors ] || echo "out.safetensors was made"
	"$FP8CONV" quantize in.safetensors -o out.safetensors --on-nonfinite saturate --json >j
	json j 'j["nonfinite"] == 128 * 256'
	"$FP8CONV" quantize in.safetensors -o kept.safetensors --on-nonfinite skip
	python3 "$CLI/checkpoint.py" list in.safetensors | grep o_proj >wanted
	python3 "$CLI/checkpoint.py" list kept.safetensors | grep o_proj | diff wanted -
	python3 "$CLI/checkpoint.py" list kept.safetensors | grep 'down_proj.weight	F8_E4M3' >found || echo "down_proj was kept too"
	"$FP8CONV" quantize in.safetensors --dry-run --json --on-nonfinite skip >j
	json j '[(t["name"].split(".")[-2], t["reason"]) for t in j["tensors"] if t["action"] == "keep"] ==
		[("o_proj", "non-finite values")]'
	rm ./*.safetensors
done
