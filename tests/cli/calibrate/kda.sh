#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
