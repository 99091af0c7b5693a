#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What calibrate refuses of dumps, with which words; nothing is written.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-llama
c=" calibrate: "
q=model.layers.0.self_attn.q_proj
dump() { python3 "$CLI/dump.py" "$@"; }

# refused STATUS MESSAGE: of what lies in `dumps`.
refused() {
	fails "$1" "$c$2" calibrate "$model" --activations dumps -o s.amax
	rm -rf dumps
	mkdir dumps
	[ ! -e s.amax ] || echo "s.amax was written"
}
fails 3 "$c*'dumps'*No such file*" calibrate "$model" --activations dumps -o s.amax
mkdir dumps
fails 2 "${c}options '--data' and '--activations' cannot be combined" \
	calibrate "$model" --activations dumps --data x.txt -o s.amax
fails 2 "${c}option '--seq-len' requires '--data': with '--activations' each file is one pass" \
	calibrate "$model" --activations dumps --seq-len 5 -o s.amax
fails 2 "${c}option '--batch' requires '--data': with '--activations' each file is one pass" \
	calibrate "$model" --activations dumps --batch 5 -o s.amax
for option in --fp8-forward --recipe=mxfp8 --ragged --exclude=x; do
	fails 2 "${c}option '--fp8-forward' and its options require '--data': dumped activations are used as they are" \
		calibrate "$model" --activations dumps $option -o s.amax
done
refused 3 "'dumps' contains no dumps (files that end in .safetensors, one per pass)"
dump make dumps/0.safetensors 4 $q=128
dump make dumps/1.safetensors 4 model.layers.9.self_attn.q_proj=128
refused 3 "tensor 'model.layers.9.self_attn.q_proj.input' in 'dumps/1.safetensors': '*tiny-llama' has no 'model.layers.9.self_attn.q_proj.weight'"
dump make dumps/0.safetensors 4 model.norm=128
refused 3 "tensor 'model.norm.weight' has shape \[128], not that of a matrix"
dump make dumps/0.safetensors 4 $q=127
refused 3 "tensor '$q.input' in 'dumps/0.safetensors' has 127 features, but '$q.weight' takes 128"
dump make dumps/0.safetensors 4 I32 $q=128
refused 3 "tensor '$q.input' in 'dumps/0.safetensors' is I32 \[4, 128], not \[tokens, features] of F32, BF16 or F16"
dump make dumps/0.safetensors 0 $q=128
refused 3 "'dumps/0.safetensors' contains no tokens"
cp "$model/model.safetensors" dumps/0.safetensors
refused 3 "tensor '*' in 'dumps/0.safetensors' is not named MODULE.input"
# An expert has one name.
model=$SAMPLES/tiny-moe/fused
dump make dumps/0.safetensors 4 model.layers.0.mlp.experts.01.up_proj=128
refused 3 "tensor 'model.layers.0.mlp.experts.01.up_proj.input' in 'dumps/0.safetensors': '*fused' has no 'model.layers.0.mlp.experts.01.up_proj.weight'"
model=$SAMPLES/tiny-llama
for value in nan inf -inf; do
	dump make dumps/0.safetensors 4 $q=128
	dump make dumps/1.safetensors 4 $q=128
	dump set dumps/1.safetensors $q.input $value
	refused 3 "the input of '$q' holds 1 values that are NaN or infinite, in 'dumps/1.safetensors'"
done
dump make dumps/0.safetensors 4 $q=128
truncate -s -1 dumps/0.safetensors
refused 3 "*dumps/0.safetensors*"
rm -rf dumps
ls
