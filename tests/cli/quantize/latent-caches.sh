#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Latent attention (MLA) caches one narrow vector, not k and v of its heads: their amaxes give no scale of it.  Without --kv-cache
# its matrices are quantized as all others.
mkdir mla
python3 "$CLI/checkpoint.py" make mla/model.safetensors model.layers.0.self_attn.q_a_proj.weight=BF16:128x128 \
	model.layers.0.self_attn.q_b_proj.weight=BF16:256x128 model.layers.0.self_attn.kv_a_proj_with_mqa.weight=BF16:128x128 \
	model.layers.0.self_attn.kv_b_proj.weight=BF16:256x128 model.layers.0.self_attn.o_proj.weight=BF16:128x256
echo '{"architectures": ["DeepseekV3ForCausalLM"]}' >mla/config.json
python3 "$CLI/amax.py" make mla x.amax passes=1
# As earlier versions left it after a forward pass: with q, k and v of the heads alone.
python3 - <<'END'
import amax
metadata, tensors = amax.read("x.amax")
tensors["model.layers.0.self_attn.amax_history_qkv"] = amax.pack("F32", [1, 3], [1.0, 2.0, 3.0])
tensors["model.layers.0.self_attn.tokens"] = amax.pack("I64", [1], [80])
amax.write("s.amax", metadata, tensors)
END
fails 3 " quantize: attention 'model.layers.0.self_attn.latent_cache' is not in 's.amax': the calibration did not cover it" \
	quantize mla -o out --recipe delayed --calibration s.amax --kv-cache
[ -e out ] && echo "out was written"
"$FP8CONV" quantize mla -o out --recipe delayed --calibration s.amax
python3 "$CLI/amax.py" scales mla s.amax out
# A history that torch recorded says nothing of attention.
fails 3 " quantize: attention 'model.layers.0.self_attn.latent_cache' is not in 'x.amax': the calibration did not cover it" \
	quantize mla -o none --recipe delayed --calibration x.amax --kv-cache
exit 0
