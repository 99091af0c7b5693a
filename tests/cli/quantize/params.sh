#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Mistral's own layout: params.json tells vLLM of FP8 as far as its config_format "mistral" reads it; never of another layout.
need "python3()"
layer=layers.0
mkdir m
python3 "$CLI/checkpoint.py" make m/consolidated.safetensors $layer.attention.wq.weight=BF16:256x256 $layer.attention.wk.weight=BF16:128x256 \
	$layer.attention.wv.weight=BF16:128x256 $layer.attention.wo.weight=BF16:256x256 $layer.feed_forward.w1.weight=BF16:512x256 \
	$layer.feed_forward.w2.weight=BF16:256x512 $layer.feed_forward.w3.weight=BF16:512x256 norm.weight=BF16:256 \
	tok_embeddings.weight=BF16:512x256 output.weight=BF16:512x256
echo '{"dim": 256, "n_layers": 1, "head_dim": 128, "hidden_dim": 512, "n_heads": 2, "n_kv_heads": 1, "vocab_size": 512}' >m/params.json

# said FOLDER: prints what params.json says, which is that of the source in all else.
said() {
	python3 - "$1" <<'END'
import json, sys
source, out = (json.load(open(folder + "/params.json")) for folder in ("m", sys.argv[1]))
said = out.pop("quantization", None)
print(sys.argv[1], said if not said or "quant_method" not in said else said["quant_method"], "" if source == out else "other keys differ")
END
}
"$FP8CONV" quantize m -o current --recipe current --format hf --quiet && said current
"$FP8CONV" quantize m -o ct --recipe current --format compressed-tensors && said ct
for out in current ct; do
	"$FP8CONV" verify $out --source m || echo "problems in $out"
done
# The same command again changes nothing, and an interrupted one ends with the same file.
cp current/params.json wanted
"$FP8CONV" quantize m -o current --recipe current --format hf --quiet
sed -i 's/"finished": true/"finished": false/' current/fp8conv-manifest.json
cp m/params.json current/params.json
"$FP8CONV" quantize m -o current --recipe current --format hf --quiet
cmp wanted current/params.json
"$FP8CONV" dequantize current -o back && said back
# vLLM sorts the rows of each head in wq and wk, but not their scales: tiles must have whole heads.  Each of 128 rows has one
# of 128, two of 64; none of 256, unless attention is latent, whose rows stay.  vLLM 0.32 loads the first two right.
"$FP8CONV" quantize m -o block --quiet && said block
"$FP8CONV" verify block --target vllm --source m
"$FP8CONV" dequantize block -o plain && said plain
"$FP8CONV" repack block -o again --format compressed-tensors && said again
for dim in '"head_dim": 64, "n_heads": 4, "n_kv_heads": 2' '"dim": 256, "n_heads": 4, "n_kv_heads": 2' '"head_dim": 256, "n_heads": 1' \
	'"head_dim": 256, "n_heads": 1, "qk_nope_head_dim": 128'; do
	echo "{$dim}" >m/params.json
	"$FP8CONV" quantize m -o heads --restart 2>&1 && said heads
done
# Beside a config.json params.json says the same where the weights are consolidated*, of which vLLM takes it first.
echo '{"n_layers": 1, "head_dim": 128}' >m/params.json
echo '{"model_type": "mistral"}' >m/config.json
"$FP8CONV" quantize m -o two --recipe current --format hf --quiet && said two
"$FP8CONV" dequantize two -o one --quiet && said one
cp m/params.json two/params.json
"$FP8CONV" verify two | grep params.json
mv m/consolidated.safetensors m/model.safetensors
"$FP8CONV" quantize m -o model --recipe current --format hf --quiet && said model
mv m/model.safetensors m/consolidated.safetensors
rm m/config.json
# Of the rest it can say nothing, and that all weights of the layers are FP8: a note, and an error for a target without another configuration.
for options in "--format hf" "--recipe channelwise" "--recipe mxfp8" "--target sglang" "--recipe current --exclude wo" "--target vllm --recipe channelwise" "--target sglang --recipe current"; do
	# shellcheck disable=SC2086
	"$FP8CONV" quantize m -o other --restart $options 2>&1 | grep -v "; see --target"
	said other
done

#1> current {'qformat_weight': 'fp8_e4m3', 'qscheme_act': 'NO_SCALES'} 
#1> ct compressed-tensors 
#1> back None 
#1> block compressed-tensors 
#1> plain None 
#1> again compressed-tensors 
#1> heads compressed-tensors 
#1> heads compressed-tensors 
#1> fp8conv quantize: note: params.json cannot tell vLLM (config_format mistral) of this layout: use --recipe current or delayed (or blockwise in compressed-tensors, where whole heads fit its blocks), and keep no weight of a layer
#1> heads None 
#1> heads compressed-tensors 
#1> two {'qformat_weight': 'fp8_e4m3', 'qscheme_act': 'NO_SCALES'} 
#1> one None 
#1> params.json: config-key: "quantization" is missing, and vLLM takes params.json before config.json where the weights lie in consolidated*.safetensors: add it, or remove params.json
#1> model None 
#1> fp8conv quantize: note: params.json cannot tell vLLM (config_format mistral) of this layout: use --recipe current or delayed (or blockwise in compressed-tensors, where whole heads fit its blocks), and keep no weight of a layer
#1> other None 
#1> fp8conv quantize: note: params.json cannot tell vLLM (config_format mistral) of this layout: use --recipe current or delayed (or blockwise in compressed-tensors, where whole heads fit its blocks), and keep no weight of a layer
#1> other None 
#1> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#1> fp8conv quantize: note: params.json cannot tell vLLM (config_format mistral) of this layout: use --recipe current or delayed (or blockwise in compressed-tensors, where whole heads fit its blocks), and keep no weight of a layer
#1> other None 
#1> fp8conv quantize: params.json cannot tell sglang of this layout: use --recipe current or delayed, and keep no weight of a layer, or omit --target
#1> other None 
#1> fp8conv quantize: note: params.json cannot tell vLLM (config_format mistral) of this layout: use --recipe current or delayed (or blockwise in compressed-tensors, where whole heads fit its blocks), and keep no weight of a layer
#1> other None 
#1> fp8conv quantize: params.json cannot tell vllm of this layout: use --recipe current or delayed, and keep no weight of a layer, or omit --target
#1> other None 
#1> other {'qformat_weight': 'fp8_e4m3', 'qscheme_act': 'NO_SCALES'} 
