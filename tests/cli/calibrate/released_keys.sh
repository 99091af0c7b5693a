#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Keys of config.json that releases have and transformers does not read: the history is the same with them.  Where another value
# would ask for something else, it is refused by the name of its key.
need "python3()"
python3 "$CLI/tiny.py" ids 5 30 >ids.jsonl

# with KEY JSON...: the model with these members of the language model's configuration.
with() {
	python3 - "$@" <<-'END'
		import json, sys
		whole = json.load(open("model/config.json"))
		text = whole.get("text_config", whole)
		for key, value in zip(sys.argv[1::2], sys.argv[2::2]):
		    text[key] = json.loads(value)
		json.dump(whole, open("changed/config.json", "w"))
	END
}

# released ARCH KEY JSON...
released() {
	arch=$1
	shift
	rm -rf model changed ./*.amax
	python3 "$CLI/tiny.py" make "$arch" model
	cp -r model changed
	with "$@"
	for folder in model changed; do
		"$FP8CONV" calibrate "$folder" --data ids.jsonl --seq-len 30 --quiet -o "$folder.amax"
	done
	cmp model.amax changed.amax || echo "$arch"
}
refused() {
	with "$@"
	fails 3 " calibrate: config.json: '$1' is $2, which is not supported for this architecture; remove the key if it changes no number" \
		calibrate changed --data ids.jsonl --seq-len 30 -o s.amax
}

released qwen3_5 output_gate_type '"swish"' mtp_use_dedicated_embeddings false mtp_num_hidden_layers 1
released qwen3_next output_gate_type '"silu"'
refused output_gate_type '"sigmoid"'
released minimax_m2 shared_moe_mode '"sigmoid"' shared_intermediate_size 0 mlp_intermediate_size 8192 \
	layernorm_full_attention_beta 1.0 layernorm_linear_attention_beta 1.0 layernorm_mlp_beta 1.0
refused shared_intermediate_size 64
refused layernorm_mlp_beta 2.0
released falcon_h1 mamba_use_mlp true mlp_expansion_factor 8 time_step_floor 0.0001 time_step_max 0.1 time_step_min 0.001
released granitemoehybrid init_method '"mup"' normalization_function '"rmsnorm"'
refused normalization_function '"layernorm"'
released phi3 full_attn_mod 1 interpolate_factor 1 lm_head_bias false
refused interpolate_factor 2
released bamba attn_rotary_emb 10
# transformers 4 and unsloth write these into what they save.
released llama _name_or_path '"org/model"' _attn_implementation_autoset true _commit_hash '"0f"' _flash_attn_2_enabled true \
	_attn_implementation '"sdpa"' attn_implementation '"flash_attention_2"' model_max_length 4096
released nemotron_h norm_eps 1e-05 attention_head_dim 128
released qwen3_moe use_qk_norm true qkv_bias false shared_expert_intermediate_size 0
refused use_qk_norm false
released qwen3_vl_moe norm_topk_prob true
refused norm_topk_prob false
released hunyuan_v1_moe routed_scaling_factor 1.0 group_limited_greedy false
refused routed_scaling_factor 2.5
released hy_v3 first_k_dense_replace 1 qk_norm true route_norm true moe_router_use_sigmoid true moe_router_enable_expert_bias true \
	expert_hidden_dim 48 enable_lm_head_fp32 true enable_attention_fp32_softmax false
refused moe_router_use_sigmoid false
refused route_norm false
released afmoe route_norm true score_func '"sigmoid"' n_group 1 topk_group 1 num_expert_groups 1 num_limited_groups 1 load_balance_coeff 0.005
refused score_func '"softmax"'
refused num_limited_groups 2
released exaone_moe scoring_func '"sigmoid"' topk_method '"noaux_tc"' is_moe_layer '[false, true, true, true, true]'
released solar_open partial_rotary_factor 1.0
refused partial_rotary_factor 0.5
released dots3_note attention_gate_type '"headwise"' swa_attention_gate_type '"headwise"'
refused attention_gate_type '"elementwise"'
refused swa_attention_gate_type '"elementwise"'
released cohere2 _sliding_window_pattern 4
released ernie4_5 use_rmsnorm true
released mistral4 scoring_func '"softmax"'
refused scoring_func '"sigmoid"'
for arch in deepseek_v2 deepseek_v32 glm_moe_dsa; do
	released "$arch" head_dim 192
done
released inkling layer_types null local_layer_ids '[2, 0]' mlp_layer_types null dense_mlp_idx 2 sconv_kernel_size 3 gate_activation '"sigmoid"' \
	norm_after_topk true use_embed_norm true use_gate_bias true use_global_scale true use_sconv true
refused use_sconv false
with layer_types '["hybrid", "hybrid", "full_attention", "hybrid", "hybrid"]'
fails 3 " calibrate: config.json: 'layer_types' has 'full_attention', which is not supported (supported: hybrid, hybrid_sliding)" \
	calibrate changed --data ids.jsonl --seq-len 30 -o s.amax
with dense_mlp_idx 1 mlp_layer_types null
fails 3 " calibrate: config.json: 'dense_mlp_idx' has 'sparse' for layer 1, which has no router of experts" \
	calibrate changed --data ids.jsonl --seq-len 30 -o s.amax
