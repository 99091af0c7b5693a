#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What loaders stop at, seen by running them on such files: plan and verify refuse it for that engine, and write it for others.
need "python3()"
make() { # MODEL_TYPE TENSOR=TYPE:SHAPE...: the model "in"
	rm -rf in any out
	mkdir in
	echo "{\"model_type\": \"$1\", \"hidden_size\": 256, \"num_hidden_layers\": 1}" >in/config.json
	shift
	python3 "$CLI/checkpoint.py" make in/model.safetensors "$@"
}
named() { # ENGINE WORDS
	"$FP8CONV" verify any --target "$1" >told && echo "verify --target $1 accepts what stops"
	grep -q ": not-loaded: .*$2" told || cat told
}
at=model.layers.0

# SGLang 0.5.23's granitemoehybrid.py, gpt_j.py and nemotron_nas.py call get_cache_scale(), which compressed-tensors alone has.
for type in granitemoehybrid gptj nemotron-nas; do
	make $type $at.self_attn.o_proj.weight=BF16:256x256
	"$FP8CONV" quantize in -o out --target sglang
	grep -q '"quant_method": "compressed-tensors"' out/config.json || echo "$type for SGLang is not in compressed-tensors"
	"$FP8CONV" verify out --target sglang
	fails 2 " quantize: *SGLang loads FP8 of this model only in compressed-tensors*" quantize in -o x --target sglang --format hf
	fails 2 " quantize: *only in compressed-tensors*" quantize in -o x --target sglang --recipe mxfp8
	"$FP8CONV" quantize in -o any --format hf
	named sglang "only in compressed-tensors"
done

# SGLang's qwen3_next.py asserts that the scale of in_proj_qkvz has the four elements of its parameter.
make qwen3_next $at.linear_attn.in_proj_qkvz.weight=BF16:1024x256 $at.linear_attn.out_proj.weight=BF16:256x256
for format in hf compressed-tensors; do
	fails 2 " quantize: '$at.linear_attn.in_proj_qkvz.weight' as FP8 *each of its four parts*" \
		quantize in -o x --target sglang --recipe current --format $format
	rm -rf any
	"$FP8CONV" quantize in -o any --target vllm --recipe current --format $format
	named sglang "each of its four parts"
done
for recipe in blockwise channelwise "current --exclude in_proj_qkvz"; do
	rm -rf out
	# shellcheck disable=SC2086
	"$FP8CONV" quantize in -o out --target sglang --recipe $recipe
	"$FP8CONV" verify out --target sglang
done

# vLLM 0.32's mistral3.py renames weight_scale_inv to weight_scale, which its block layers do not have.
make mistral3 language_model.$at.self_attn.o_proj.weight=BF16:256x256
"$FP8CONV" quantize in -o any 2>note
grep -q "note: .* vLLM renames weight_scale_inv" note || cat note
named vllm "renames weight_scale_inv"
fails 2 " quantize: *renames weight_scale_inv*" quantize in -o x --target vllm --format hf
for recipe in blockwise current channelwise mxfp8; do
	rm -rf out
	"$FP8CONV" quantize in -o out --target vllm --recipe $recipe
	"$FP8CONV" verify out --target vllm
done

# transformers 5.23 multiplies the codes of experts by the grid of their scales as it is: the shapes must broadcast.
expert=$at.mlp.experts.0
make qwen3_moe $expert.gate_proj.weight=BF16:256x256 $expert.up_proj.weight=BF16:256x256 $expert.down_proj.weight=BF16:256x256
for recipe in blockwise mxfp8; do
	fails 2 " quantize: *$expert.*does not load in transformers: *multiplies experts by their scales*" \
		quantize in -o x --target transformers --recipe $recipe --format compressed-tensors
	rm -rf any out
	"$FP8CONV" quantize in -o any --recipe $recipe --format compressed-tensors
	named transformers "multiplies experts by their scales"
	"$FP8CONV" verify any --target vllm
	"$FP8CONV" quantize in -o out --target transformers --recipe $recipe
	"$FP8CONV" verify out --target transformers
done

# vLLM's mapper makes ".k_scale" of Jamba's ".self_attn.k_scale", and SGLang's falcon_h1.py looks for the name of a scale in its
# parameters: neither is there.
python3 "$CLI/tiny.py" ids 40 25 33 12 >ids.jsonl
for pair in jamba=vllm=sglang falcon_h1=sglang=vllm; do
	type=${pair%%=*} good=${pair##*=} bad=${pair#*=}
	bad=${bad%=*}
	rm -rf in any out
	python3 "$CLI/tiny.py" make $type in
	"$FP8CONV" calibrate in --data ids.jsonl --seq-len 40 --quiet -o $type.amax
	options="--recipe channelwise --format compressed-tensors --calibration $type.amax --kv-cache"
	# shellcheck disable=SC2086
	fails 2 " quantize: the KV cache scales of '*self_attn' do not load in $bad: *and stops *; omit --kv-cache, or --target" \
		quantize in -o x --target "$bad" $options
	# shellcheck disable=SC2086
	"$FP8CONV" quantize in --dry-run $options 2>&1 >plan | grep -q "note: the KV cache scales of '.*self_attn' do not load in $bad: .*; see --target $bad" ||
		echo "no note of what stops in $bad"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize in -o any --target "$good" --quiet $options
	"$FP8CONV" verify any --target "$good"
	named "$bad" "scale '.*self_attn.k_scale' of a KV cache does not load in $bad: .*, and stops"
	"$FP8CONV" quantize in -o out --target "$bad" --recipe channelwise --format compressed-tensors --quiet
	"$FP8CONV" verify out --target "$bad"
done

mkdir next
cd next
# Several recipes in modelopt: an algorithm for each module, in both files, which every command reads back; engines that do not
# read one are refused with the reason.
model=$SAMPLES/tiny-llama
need "$model"

"$FP8CONV" quantize "$model" -o out --format modelopt --recipe mxfp8 --tensor 'mlp[.]=channelwise' \
	--tensor 'o_proj=blockwise' --quiet
python3 - <<'END'
import json
import checkpoint
config = json.load(open("out/config.json"))["quantization_config"]
other = json.load(open("out/hf_quant_config.json"))["quantization"]
wanted = {"up_proj": "FP8_PER_CHANNEL_PER_TOKEN", "q_proj": "MXFP8", "o_proj": "FP8_PB_WO"}
wanted |= {"gate_proj": wanted["up_proj"], "down_proj": wanted["up_proj"], "k_proj": "MXFP8", "v_proj": "MXFP8"}
sizes = {"MXFP8": 32, "FP8_PB_WO": 128}
modules = {name[:-7] for name, (dtype, _, _) in checkpoint.read("out").items() if name.endswith(".weight") and dtype == "F8_E4M3"}
layers = {m: {"quant_algo": wanted[m.split(".")[-1]]} for m in modules}
for layer in layers.values():
    if layer["quant_algo"] in sizes:
        layer["group_size"] = sizes[layer["quant_algo"]]
for keys, where in (config, "config.json"), (other, "hf_quant_config.json"):
    if keys["quant_algo"] != "MIXED_PRECISION" or keys["quantized_layers"] != layers:
        print(where, keys["quant_algo"], keys["quantized_layers"])
if config["ignore"] != other["exclude_modules"] or set(config["ignore"]) & modules:
    print(config["ignore"], other["exclude_modules"])
END
"$FP8CONV" verify out --source "$model"
"$FP8CONV" inspect out --json >j
json j 'j["format"] == "modelopt"'

# Back and forth, and what another format makes of it.
"$FP8CONV" repack out -o ct --format compressed-tensors --quiet
"$FP8CONV" quantize "$model" -o wanted --format compressed-tensors --recipe mxfp8 --tensor 'mlp[.]=channelwise' \
	--tensor 'o_proj=blockwise' --quiet
same ct wanted
"$FP8CONV" repack ct -o back --format modelopt --quiet
same out back
"$FP8CONV" dequantize out -o values --quiet
"$FP8CONV" dequantize wanted -o wanted-values --quiet
same values wanted-values
[ ! -e values/hf_quant_config.json ] || echo "hf_quant_config.json is still there"

# One recipe by several rules stays one algorithm.
"$FP8CONV" quantize "$model" -o one --format modelopt --recipe mxfp8 --tensor 'mlp[.]=mxfp8' --quiet
grep -q '"quant_algo": "MXFP8"' one/hf_quant_config.json || echo "one recipe is not one algorithm"

# Engines.
fails 2 " quantize: module 'model.layers.0.mlp.down_proj' as channelwise in format 'modelopt' does not load in vllm beside other schemes: with MIXED_PRECISION it takes codes of this quant_algo for weights, silently" \
	quantize "$model" -o no --format modelopt --recipe mxfp8 --tensor 'mlp[.]=channelwise' --target vllm
fails 2 " quantize: module 'model.layers.0.self_attn.o_proj' as blockwise 128x128 in format 'modelopt' does not load in trtllm beside other schemes: with MIXED_PRECISION it reads blocks only as FP8_BLOCK_SCALES" \
	quantize "$model" -o no --format modelopt --recipe mxfp8 --tensor 'o_proj=blockwise' --target trtllm
"$FP8CONV" quantize "$model" -o trtllm --format modelopt --recipe mxfp8 --tensor 'mlp[.]=channelwise' --target trtllm --quiet
"$FP8CONV" verify trtllm --target trtllm
"$FP8CONV" verify trtllm --target vllm
echo "status $?"

# Files that differ, and a list that is gone.
sed -i '0,/"MXFP8"/s//"FP8"/' back/hf_quant_config.json
"$FP8CONV" verify back
echo "status $?"
python3 - <<'END'
import json
for file, path in ("out/config.json", ["quantization_config"]), ("out/hf_quant_config.json", ["quantization"]):
    whole = json.load(open(file))
    del whole[path[0]]["quantized_layers"]
    json.dump(whole, open(file, "w"))
END
"$FP8CONV" verify out | head -n 1

mkdir then
cd then
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

#1> config.json: config-key: quantized_layers has 'model.layers.0.mlp.down_proj' as FP8_PER_CHANNEL_PER_TOKEN, which vllm does not load: with MIXED_PRECISION it takes codes of this quant_algo for weights, silently
#1> status 1
#1> hf_quant_config.json: config-key: quantized_layers differs from that in config.json
#1> status 1
#1> config.json: config-key: quant_algo is 'MIXED_PRECISION', but quantized_layers is missing or empty: engines refuse to load it
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
