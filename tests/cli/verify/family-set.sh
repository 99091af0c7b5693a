#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Engines merge more weights in some families: q, k, v, a, b and g in Jet-Nemotron.  Without the rows of the family the
# six are not one set, and verify tells that the output holds a part of it.
mkdir in
at=model.layers.0.linear_attn
python3 "$CLI/checkpoint.py" make in/model.safetensors $at.q_proj.weight=BF16:128x128 $at.k_proj.weight=BF16:128x128 \
	$at.v_proj.weight=BF16:128x128 $at.a_proj.weight=BF16:64x128 $at.b_proj.weight=BF16:64x128 \
	$at.g_proj.weight=BF16:128x128 model.layers.0.mlp.down_proj.weight=BF16:640x128
echo '{"model_type": "jet_nemotron"}' >in/config.json
"$FP8CONV" quantize in -o none --profile none -q
"$FP8CONV" verify none >told && echo "verify accepts a part of the set"
grep -q "^model.safetensors: group-partial: '$at.a_proj.weight' is BF16, but '.*' is F8_E4M3" told || cat told
"$FP8CONV" quantize in -o whole -q
"$FP8CONV" verify whole
python3 "$CLI/checkpoint.py" list whole | grep -c F8_E4M3 | grep -qx 1 || echo "more than down_proj is FP8"
