#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A history that does not belong to the model, or lacks what is needed; nothing is written.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
model=$SAMPLES/tiny-llama
q=' quantize: '
delayed="quantize $model -o out --recipe delayed --calibration"
amax make "$model" good.amax
amax make "$model" other.amax model=00
amax make "$model" less.amax drop=model.layers.2.mlp.up_proj
amax make "$model" none.amax passes=0
amax make "$model" inf.amax inf=model.layers.3.mlp.down_proj
amax make "$model" bare.amax histogram=0
sed 's/model.layers.1.self_attn.amax/model.layers.1.self_attm.amax/; s/model.layers.1.self_attn.tokens/model.layers.1.self_attm.tokens/' \
	good.amax >attention.amax
ours=$(amax fingerprint "$model")
fails 3 "${q}'other.amax' belongs to another model: its fingerprint is '00', but that of '$model' is '$ours'" $delayed other.amax
fails 3 "${q}module 'model.layers.2.mlp.up_proj' is not in 'less.amax': the calibration did not cover it" $delayed less.amax
fails 3 "${q}module 'model.layers.0.mlp.down_proj' has no pass in 'none.amax': the calibration stopped before it" $delayed none.amax
fails 3 "${q}amax of x of module 'model.layers.3.mlp.down_proj' in 'inf.amax' is infinite: it overflowed in the forward pass" \
	$delayed inf.amax
fails 3 "${q}attention 'model.layers.1.self_attn' is not in 'attention.amax': the calibration did not cover it" \
	$delayed attention.amax --kv-cache
fails 3 "${q}'$model/model.safetensors' is not an amax file: its metadata has no 'fp8conv_amax'" $delayed "$model/model.safetensors"
fails 3 "${q}cannot open 'nowhere': No such file or directory" $delayed nowhere
fails 2 "${q}option '--amax-algo': 'mse' needs histograms, but 'bare.amax' has none: calibrate with --histogram" $delayed bare.amax --amax-algo mse
fails 2 "${q}option '--calibration' does not apply to recipe 'blockwise', whose activations are dynamic: use recipe delayed or current, *" \
	quantize "$model" -o out --calibration good.amax
fails 2 "${q}format 'hf' does not support KV-cache scales: omit --kv-cache, or use --format compressed-tensors or modelopt" \
	$delayed good.amax --format hf --kv-cache
# What is not quantized need not be in the history.
"$FP8CONV" quantize "$model" -o kept --recipe delayed --calibration less.amax --exclude 'layers.2.mlp' && rm -rf kept
"$FP8CONV" quantize "$model" -o kept --calibration less.amax --tensor 'layers.0=current' --format compressed-tensors && rm -rf kept
# A dry run says what would be there, and the same.
"$FP8CONV" quantize "$model" --dry-run --recipe delayed --calibration good.amax --json >j
json j '[len(t["outputs"]) for t in j["tensors"] if t["action"] == "quantize"] == [3] * 28'
fails 3 "${q}module 'model.layers.2.mlp.up_proj' is not in *" $delayed less.amax --dry-run
# The same model in other files is the same model; a changed one is not.
"$FP8CONV" quantize - -o stream.safetensors --recipe delayed --calibration good.amax <"$model/model.safetensors"
"$FP8CONV" quantize "$model" -o dir --recipe delayed --calibration good.amax
cmp stream.safetensors dir/model.safetensors
mkdir changed && cp "$model/config.json" "$model/model.safetensors" changed
python3 - <<'END'
import checkpoint
file, name = "changed/model.safetensors", "model.layers.1.mlp.up_proj.weight"
checkpoint.flip(file, name, len(checkpoint.read(file)[name][2]) // 2)
END
fails 3 "${q}'good.amax' belongs to another model*" quantize changed -o out --recipe delayed --calibration good.amax
# A job is resumed only with the same history, under any name.
cp good.amax copy.amax
"$FP8CONV" quantize "$model" -o dir --recipe delayed --calibration copy.amax
amax make "$model" newer.amax seed=9
fails 2 "${q}'dir' holds the output of another job: option 'calibration' differs (use --restart to start over)" \
	quantize "$model" -o dir --recipe delayed --calibration newer.amax
[ -e out ] && echo "out was written"
exit 0
