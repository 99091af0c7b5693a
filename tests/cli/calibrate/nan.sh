#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What is not a number is found where it arises; nothing is written.
need "$SAMPLES/tiny-llama"
printf '{"input_ids": [1, 2, 3, 4, 5]}\n' >ids.jsonl
cp -r "$SAMPLES/tiny-llama" model
chmod -R u+w model
# damage NAME BYTES: the first element of a tensor.
damage() {
	python3 - "$1" "$2" <<-'END'
		import sys, checkpoint
		tensors = checkpoint.read("model")
		dtype, shape, data = tensors[sys.argv[1]]
		value = bytes.fromhex(sys.argv[2])
		tensors[sys.argv[1]] = dtype, shape, value + data[len(value):]
		checkpoint.write("model/model.safetensors", tensors)
	END
}
damage model.layers.1.post_attention_layernorm.weight c07f
fails 3 " calibrate: the forward pass produced * NaN or infinite values in the input of 'model.layers.1.mlp.gate_proj', in sequence 0" \
	calibrate model --data ids.jsonl -o s.amax
cp "$SAMPLES/tiny-llama/model.safetensors" model/
damage model.layers.1.mlp.down_proj.weight c07f
fails 3 " calibrate: tensor 'model.layers.1.mlp.down_proj.weight' has 1 values that are NaN or infinite" \
	calibrate model --data ids.jsonl -o s.amax
[ ! -e s.amax ] || echo "s.amax was written"

# What would be seen nowhere: a NaN among what experts are chosen by.  DeepSeek-V3, of one layer.
mkdir routed
cat >routed/config.json <<'END'
{"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
 "vocab_size": 16, "kv_lora_rank": 4, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 4,
 "q_lora_rank": null, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 1}
END
# routed BIAS: of all experts.
routed() {
	layer=model.layers.0
	set -- model.embed_tokens.weight=F32:16x8:0.5 model.norm.weight=F32:8:1 lm_head.weight=F32:16x8:0.5 \
		$layer.input_layernorm.weight=F32:8:1 $layer.post_attention_layernorm.weight=F32:8:1 \
		$layer.self_attn.q_proj.weight=F32:4x8:0.5 $layer.self_attn.kv_a_proj_with_mqa.weight=F32:6x8:0.5 \
		$layer.self_attn.kv_a_layernorm.weight=F32:4:1 $layer.self_attn.kv_b_proj.weight=F32:6x4:0.5 \
		$layer.self_attn.o_proj.weight=F32:8x4:0.5 $layer.mlp.gate.weight=F32:2x8:0.5 \
		"$layer.mlp.gate.e_score_correction_bias=F32:2:$1" \
		$layer.mlp.experts.0.gate_proj.weight=F32:4x8:0.5 $layer.mlp.experts.1.gate_proj.weight=F32:4x8:0.5 \
		$layer.mlp.experts.0.up_proj.weight=F32:4x8:0.5 $layer.mlp.experts.1.up_proj.weight=F32:4x8:0.5 \
		$layer.mlp.experts.0.down_proj.weight=F32:8x4:0.5 $layer.mlp.experts.1.down_proj.weight=F32:8x4:0.5
	python3 "$CLI/checkpoint.py" make routed/model.safetensors "$@"
}
routed 0.5
"$FP8CONV" calibrate routed --data ids.jsonl --quiet -o routed.amax
routed nan
fails 3 " calibrate: tensor 'model.layers.0.mlp.gate.e_score_correction_bias' has 2 values that are NaN" \
	calibrate routed --data ids.jsonl -o s.amax
