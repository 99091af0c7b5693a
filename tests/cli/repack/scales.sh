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
"$FP8CONV" repack in -o c.safetensors --format compressed-tensors
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
