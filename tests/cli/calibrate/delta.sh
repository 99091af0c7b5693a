#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Layers without attention: gated DeltaNet, in a model of Qwen3-Next and one of Qwen3.5.  They have matrices, but no q, k
# and v of attention and no cache.
python3 -c "
import random
random.seed(3)
for n in (40, 3, 33):
    print('{\"input_ids\": %s}' % [random.randrange(96) for _ in range(n)])" >ids.jsonl
sed -n 1,2p ids.jsonl >two.jsonl
data="--data ids.jsonl --seq-len 40 --quiet"
c=" calibrate: "

# sites AMAX: the names of the histories below the first layer, and of all attentions.
sites() {
	python3 "$CLI/checkpoint.py" list "$1" | cut -f 1 |
		sed -n 's/^model\.layers\.0\.\(linear_attn.*\)\.amax_history$/\1/p; s/^\(.*\)\.amax_history_qkv$/\1/p' | tr '\n' ' '
}

for kind in next 3.5; do
	python3 "$CLI/delta.py" $kind $kind
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate $kind $data -o $kind.amax --threads 2
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate $kind $data -o one.amax --threads 1
	cmp $kind.amax one.amax
	rm one.amax
	# The states begin anew for each sequence.
	"$FP8CONV" calibrate $kind --data two.jsonl --seq-len 40 --quiet -o parts.amax
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate $kind $data -o parts.amax --resume
	cmp $kind.amax parts.amax
	rm parts.amax
	"$FP8CONV" quantize $kind -o $kind.fp8 --recipe current --calibration $kind.amax --kv-cache --uncovered group-max --quiet
	"$FP8CONV" verify $kind.fp8 --source $kind
	caches=$(python3 "$CLI/checkpoint.py" list $kind.fp8 | cut -f 1 | grep '[kv]_scale$' | tr '\n' ' ')
	[ "$caches" = "model.layers.1.self_attn.k_scale model.layers.1.self_attn.v_scale " ] || echo "$kind: caches $caches"
	# shellcheck disable=SC2086
	"$FP8CONV" eval $kind.fp8 --source $kind $data --kv-cache --json >eval.json
	json eval.json "0 < j['kld']['median'] < 0.1"
	"$FP8CONV" quantize $kind -o $kind.compensated --recipe blockwise --ragged --rounding compensated --data ids.jsonl \
		--seq-len 40 --format compressed-tensors --quiet
	"$FP8CONV" verify $kind.compensated --source $kind
	# shellcheck disable=SC2086
	"$FP8CONV" sensitivity $kind --recipe blockwise --ragged $data -o $kind.kld
	grep -q 'layers\.0\.in_proj' $kind.kld || echo "$kind: no group layers.0.in_proj"
done
[ "$(sites next.amax)" = "linear_attn.in_proj_ba linear_attn.in_proj_qkvz linear_attn.out_proj model.layers.1.self_attn " ] ||
	echo "Qwen3-Next: $(sites next.amax)"
[ "$(sites 3.5.amax)" = "linear_attn.in_proj_a linear_attn.in_proj_b linear_attn.in_proj_qkv linear_attn.in_proj_z linear_attn.out_proj model.layers.1.self_attn " ] ||
	echo "Qwen3.5: $(sites 3.5.amax)"

# The same experts, one matrix each.
python3 "$CLI/delta.py" split next-split
# shellcheck disable=SC2086
"$FP8CONV" calibrate split $data -o split.amax
python3 "$CLI/checkpoint.py" same next.amax split.amax

# changed KEY JSON: the model with another value in its config.json.
changed() {
	python3 - "$1" "$2" <<-'END'
		import json, sys
		config = json.load(open("next/config.json"))
		config[sys.argv[1]] = json.loads(sys.argv[2])
		json.dump(config, open("split/config.json", "w"))
	END
}
refused() {
	fails 3 "$c$1" calibrate split --data ids.jsonl -o s.amax
}
for key in num_key_heads num_value_heads key_head_dim value_head_dim conv_kernel_dim; do
	for value in 0 65537; do
		changed linear_$key "$value"
		refused "config.json: 'linear_$key' is not a number from 1 to 65536"
	done
	for value in -1 1.5 '"4"' '[]'; do
		changed linear_$key "$value"
		refused "config.json: 'linear_$key' is *, not an integer from 0 to *"
	done
done
changed linear_num_key_heads 3
refused "config.json: 'linear_num_value_heads' is 4, not a multiple of 'linear_num_key_heads', 3"
changed linear_key_head_dim 257
refused "config.json: 'linear_key_head_dim' 257 exceeds the limit of 256"
changed linear_conv_kernel_dim 65536
refused "tensor 'model.layers.0.linear_attn.conv1d.weight' has shape \[128, 1, 4], but config.json implies \[128, 1, 65536]"
changed linear_value_head_dim 21
refused "tensor 'model.layers.0.linear_attn.in_proj_qkvz.weight' has shape \[208, 32], but config.json implies \[216, 32]"
changed full_attention_interval 0
refused "config.json: 'full_attention_interval' is not a number from 1 to 65536"
changed full_attention_interval 1
refused "tensor 'model.layers.0.self_attn.q_proj.weight' is missing from 'split', a model of qwen3_next*"
changed layer_types '["full_attention", "linear_attention"]'
refused "tensor 'model.layers.0.self_attn.q_proj.weight' is missing from 'split', a model of qwen3_next*"
changed layer_types '["linear_attention", "chunked_attention"]'
refused "config.json: 'layer_types' has 'chunked_attention', which is not supported in a model of qwen3_next*"
rm -rf next 3.5 split ./*.fp8 ./*.compensated ./*.amax ./*.kld ./*.jsonl eval.json
ls -A

mkdir next
cd next
# Kimi Delta Attention, with the keys of the releases of Kimi Linear: histories of its matrices, states that begin anew for
# each sequence, groups of sensitivity; what the object linear_attn_config and other keys may not say.
need "python3()"
python3 "$CLI/tiny.py" make kimi_linear model
cp -r model changed
python3 "$CLI/tiny.py" ids 150 3 70 >ids.jsonl
sed -n 1,2p ids.jsonl >two.jsonl
data="--data ids.jsonl --seq-len 150 --quiet"

# changed [KEY JSON]...: the model with these members, and without those that transformers alone writes.
changed() {
	python3 - "$@" <<-'END'
		import json, sys
		config = json.load(open("model/config.json"))
		for key in ("layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim"):
		    config.pop(key, None)
		config["linear_attn_config"] = {"head_dim": 13, "num_heads": 5, "short_conv_kernel_size": 3, "full_attn_layers": [2],
		                                "kda_layers": [1, 3, 4]}
		for key, value in zip(sys.argv[1::2], sys.argv[2::2]):
		    config[key] = json.loads(value)
		json.dump(config, open("changed/config.json", "w"))
	END
}
refused() {
	fails 3 " calibrate: $1" calibrate changed --data ids.jsonl -o s.amax
}

# shellcheck disable=SC2086
"$FP8CONV" calibrate model $data -o model.amax --threads 2
changed first_k_dense_replace 1 mla_use_nope true moe_router_activation_func '"sigmoid"' use_grouped_topk true head_dim 72
# shellcheck disable=SC2086
"$FP8CONV" calibrate changed $data -o one.amax --threads 1
cmp model.amax one.amax
"$FP8CONV" calibrate model --data two.jsonl --seq-len 150 --quiet -o parts.amax
# shellcheck disable=SC2086
"$FP8CONV" calibrate model $data -o parts.amax --resume
cmp model.amax parts.amax
sites=$(python3 "$CLI/checkpoint.py" list model.amax | cut -f 1 |
	sed -n 's/^model\.layers\.0\.self_attn\.\(.*\)\.amax_history$/\1/p; s/^\(.*\)\.amax_history_qkv$/\1/p' | tr '\n' ' ')
[ "$sites" = "b_proj f_a_proj f_b_proj g_a_proj g_b_proj k_proj o_proj q_proj v_proj model.layers.1.self_attn model.layers.1.self_attn.latent_cache " ] || echo "histories: $sites"
# shellcheck disable=SC2086
"$FP8CONV" sensitivity model --recipe channelwise $data -o model.kld
for group in in_proj f_b g_b out_proj; do
	grep -q "layers\.0\.$group" model.kld || echo "no group layers.0.$group"
done

inner='"head_dim": 13, "num_heads": 5, "short_conv_kernel_size": 3'
layers='"full_attn_layers": [2], "kda_layers": [1, 3, 4]'
changed linear_attn_config "{$inner, $layers, \"gate_lower_bound\": -5.0}"
refused "config.json: 'gate_lower_bound' is -5.0, which is not supported for this architecture; *"
changed linear_attn_config "{\"head_dim\": 257, $layers}"
refused "config.json: 'head_dim' of 'linear_attn_config' is not a number from 1 to 256"
changed linear_attn_config "{$inner, \"full_attn_layers\": [2], \"kda_layers\": [1, 3]}"
refused "config.json: 'full_attn_layers' and 'kda_layers' of 'linear_attn_config' name 3 of 4 layers"
changed linear_attn_config "{$inner, \"full_attn_layers\": [2], \"kda_layers\": [0, 1, 3, 4]}"
refused "config.json: 'kda_layers' of 'linear_attn_config' has a value that is not a layer from 1 to 4"
changed linear_attn_config "{$inner, \"full_attn_layers\": 2, \"kda_layers\": [1]}"
refused "config.json: 'linear_attn_config.full_attn_layers' is 2, not a list"
changed linear_attn_config '[]'
refused "config.json: 'linear_attn_config' is \[\], not an object"
changed linear_attn_config "{$inner, \"full_attn_layers\": [1], \"kda_layers\": [2, 3, 4]}"
refused "tensor 'model.layers.0.self_attn.q_proj.weight' has shape \[65, 64], but config.json implies \[96, 64]"
for member in 'mla_use_nope false' 'moe_router_activation_func "softmax"' 'use_grouped_topk false'; do
	# shellcheck disable=SC2086
	changed $member
	refused "config.json: '${member% *}' is ${member#* }, which is not supported for this architecture; *"
done
changed num_expert_group 3
refused "config.json: cannot choose 3 experts ('num_experts_per_token') in 2 ('topk_group') of 3 ('num_expert_group') groups of all 8 experts"
changed hidden_act '"gelu_pytorch_tanh"'
refused "config.json: 'hidden_act' is not silu, which is not supported with layers of linear_attention"
rm -rf model changed ./*.amax ./*.kld ./*.jsonl
ls -A

mkdir then
cd then
# The cache of latent attention (MLA) the whole way: its amax, its one scale under the name that engines load, in every command.
need "python3()"
python3 "$CLI/tiny.py" make deepseek_v3 model
python3 "$CLI/tiny.py" ids 40 25 33 12 >ids.jsonl
data="--seq-len 40 --quiet"
# shellcheck disable=SC2086
"$FP8CONV" calibrate model --data ids.jsonl $data -o s.amax
# Each layer has a history of what it caches: no q; all values; the latent ones of them.
python3 - <<'END'
import amax
tensors = amax.read("s.amax")[1]
sites = [name for name in tensors if name.endswith(".latent_cache.amax_history_qkv")]
heads = [name for name in tensors if name.endswith(".self_attn.amax_history_qkv")]
if len(sites) != len(heads) or not sites:
    print(len(sites), "caches of", len(heads), "attentions")
for name in sites:
    values = amax.unpack(tensors[name])
    for q, k, v in zip(values[0::3], values[1::3], values[2::3]):
        if q != 0 or not 0 < v <= k:
            print(name, q, k, v)
    if tensors[name.replace("amax_history_qkv", "tokens")] != tensors[name.replace("latent_cache.amax_history_qkv", "tokens")]:
        print("tokens of", name)
END
"$FP8CONV" inspect s.amax | grep -q "latent_cache" || echo "inspect does not show the cache"

# Ranks merge to the larger amax, passes follow each other.
for i in 1 2; do
	sed -n "${i}p" ids.jsonl >rank$i.jsonl
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate model --data rank$i.jsonl $data -o rank$i.amax
done
"$FP8CONV" merge --ranks rank1.amax rank2.amax -o ranks.amax --quiet
python3 "$CLI/amax.py" merge ranks wanted.amax rank1.amax rank2.amax
python3 "$CLI/amax.py" same ranks.amax wanted.amax
"$FP8CONV" merge rank1.amax rank2.amax -o both.amax --quiet
python3 "$CLI/amax.py" merge append wanted.amax rank1.amax rank2.amax
python3 "$CLI/amax.py" same both.amax wanted.amax

scales() {
	python3 "$CLI/checkpoint.py" list "$1" | grep '[kv]_scale'
}
for format in compressed-tensors modelopt; do
	"$FP8CONV" quantize model -o $format --recipe delayed --format $format --calibration s.amax --kv-cache \
		--uncovered group-max --quiet
	python3 "$CLI/amax.py" scales model s.amax $format uncovered=group-max
	grep -q '"kv_cache_scheme": {' $format/config.json || echo "$format: no kv_cache_scheme"
	# The scale of the values is that of the vector which has them.
	python3 - $format <<'END'
import sys
import amax
tensors = amax.read(sys.argv[1])[1]
names = [name for name in tensors if name.endswith(".self_attn.k_proj.k_scale")]
for name in names:
    if tensors[name] != tensors[name.replace("k_proj.k_", "v_proj.v_")]:
        print(name, "is not the scale of values")
others = [name for name in tensors if name.endswith((".k_scale", ".v_scale")) and "_proj." not in name]
if not names or others:
    print(len(names), "scales, and", others)
END
	"$FP8CONV" verify $format --quiet
	"$FP8CONV" verify $format --source model --quiet
	# shellcheck disable=SC2086
	"$FP8CONV" eval $format --source model --data ids.jsonl $data --kv-cache --json >cached.json
	# shellcheck disable=SC2086
	"$FP8CONV" eval $format --source model --data ids.jsonl $data --json >plain.json
	json cached.json "0 < j['kld']['mean'] < 0.2"
	cmp -s cached.json plain.json && echo "$format: --kv-cache changes nothing"
done

# Each format holds the other's scales under the same names, and a dequantized model has none.
for pair in compressed-tensors=modelopt modelopt=compressed-tensors; do
	"$FP8CONV" repack "${pair%=*}" -o again --format "${pair#*=}" --quiet
	scales again >found
	scales "${pair#*=}" | diff - found
	"$FP8CONV" verify again --source model --quiet
	"$FP8CONV" dequantize again -o values --quiet
	[ -z "$(scales values)" ] || echo "a dequantized model has cache scales"
	rm -rf again values
done

# vLLM does not load the scale: a note, but not where another engine is the target.
for target in vllm sglang; do
	"$FP8CONV" quantize model -o $target --recipe channelwise --format compressed-tensors --target $target \
		--calibration s.amax --kv-cache 2>$target.note
	"$FP8CONV" verify $target --target $target --quiet
done
grep -qx "fp8conv quantize: note: from 0.23 on, vLLM does not load the scale of a latent cache: it uses 1.0, first for '.*layers.0.self_attn' \[auto-round #2370\]" \
	vllm.note || cat vllm.note
cat sglang.note

# An MTP layer, which no calibration runs, gets no scale of its cache, and needs none.
cp -r model mtp
chmod -R u+w mtp
python3 - <<'END'
import json
import re
import amax
import checkpoint
config = json.load(open("mtp/config.json"))
last = config["text_config"]["num_hidden_layers"]
config["text_config"]["num_nextn_predict_layers"] = 1
json.dump(config, open("mtp/config.json", "w"))
tensors = checkpoint.read("mtp")
for name in [name for name in tensors if ".layers.0." in name]:
    tensors[name.replace(".layers.0.", f".layers.{last}.")] = tensors[name]
checkpoint.write("mtp/model.safetensors", tensors)
metadata, history = amax.read("s.amax")
amax.write("mtp.amax", metadata | {"model": amax.fingerprint("mtp")}, history)
END
"$FP8CONV" quantize mtp -o out --recipe channelwise --calibration mtp.amax --kv-cache --quiet
"$FP8CONV" verify out --source mtp --quiet
scales out >with
scales sglang | cut -f 1,2 >without
cut -f 1,2 with | diff without -
exit 0
