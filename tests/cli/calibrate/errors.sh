#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What calibrate refuses, with which words; nothing is written.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
c=" calibrate: "
printf 'a word\n' >short.txt
touch a.parquet
fails 3 "${c}'a.parquet' is not a .txt, .jsonl, .json or .npy file (also .gz or .zst): convert it, as load_dataset(...).to_json(...) *" \
	calibrate "$model" --data a.parquet -o s.amax
rm a.parquet
fails 3 "${c}'/dev/stdin' contains 5 tokens, *: give more data or a smaller --seq-len" calibrate "$model" --data /dev/stdin -o s.amax <short.txt
# Memory is no place of pipes.
[ ! -w /dev/shm ] || {
	table=$(mktemp -p /dev/shm XXXXXX.parquet)
	fails 3 "${c}'$table' is not a .txt, .jsonl, .json or .npy file *" calibrate "$model" --data "$table" -o s.amax
	rm "$table"
}
fails 2 "${c}MODEL is missing (fp8conv calibrate MODEL --data FILE -o S.amax)" calibrate
fails 2 "${c}option '--data' is missing: *" calibrate "$model" -o s.amax
fails 2 "${c}option '--output' is missing: *" calibrate "$model" --data short.txt
fails 2 "${c}option '--activations' is gone: record the amaxes while torch runs the model, as fp8conv-python(7) shows" \
	calibrate "$model" --activations dumps -o s.amax
fails 2 "${c}option '--precision': 'fp16' is not one of bf16, f32" \
	calibrate "$model" --data short.txt -o s.amax --precision fp16
fails 2 "${c}option '--devices': '0,x' is not a list of devices (numbers below 64, such as 0,1,3, or all)" \
	calibrate "$model" --data short.txt -o s.amax --devices 0,x
fails 2 "${c}option '--devices': duplicate device 1: give each one once" \
	calibrate "$model" --data short.txt -o s.amax --devices 0,1,1
fails 2 "${c}options '--devices' and '--backend cpu' cannot be combined: the devices are GPUs" \
	calibrate "$model" --data short.txt -o s.amax --devices all --backend cpu
fails 2 "${c}option '--seq-len': '0' is not a number from 1 to *" calibrate "$model" --data short.txt -o s.amax --seq-len 0
fails 3 "$c*short.txt*512*" calibrate "$model" --data short.txt -o s.amax
fails 3 "$c*none.txt*" calibrate "$model" --data none.txt -o s.amax
fails 3 "${c}*none*" calibrate none --data short.txt -o s.amax

# ids FILE N...: lines of token ids.
ids() {
	file=$1
	shift
	printf '{"input_ids": [%s]}\n' "$@" >"$file"
}
ids ok.jsonl "1, 2, 3, 4"
ids beyond.jsonl "1, 2, 99999, 4"
fails 3 "$c*beyond.jsonl*99999*" calibrate "$model" --data beyond.jsonl -o s.amax
# A pass is no larger than the data are.
"$FP8CONV" calibrate "$model" --data ok.jsonl -o s.amax --min-tokens 1 --batch 1000000000 && rm s.amax
fails 2 "${c}option '--max-memory': 4096 bytes cannot hold one pass (*" \
	calibrate "$model" --data ok.jsonl -o s.amax --max-memory 4K

# changed KEY JSON...: the model with other values of its language model in config.json.
changed() {
	rm -rf changed
	cp -r "$model" changed
	python3 - "$@" <<-'END'
		import json, sys
		config = json.load(open("changed/config.json"))
		text = config.get("text_config", config)
		text.update(zip(sys.argv[1::2], map(json.loads, sys.argv[2::2])))
		json.dump(config, open("changed/config.json", "w"))
	END
}
changed architectures '["RwkvForCausalLM"]'
fails 3 "${c}architecture 'RwkvForCausalLM' in config.json of 'changed' is not supported (see 'fp8conv families'): record its history in torch (man 7 fp8conv-python)" \
	calibrate changed --data ok.jsonl -o s.amax
changed hidden_size 17
fails 3 "${c}tensor 'model.embed_tokens.weight' has shape *, but config.json implies \[*, 17]" \
	calibrate changed --data ok.jsonl -o s.amax
changed num_hidden_layers 99
fails 3 "${c}config.json has 99 layers, but '*' has only *" calibrate changed --data ok.jsonl -o s.amax
changed num_attention_heads 0
fails 3 "${c}*num_attention_heads*" calibrate changed --data ok.jsonl -o s.amax
# Their product would wrap around to 0.
changed num_attention_heads 4611686018427387904
fails 3 "${c}config.json: 4611686018427387904 heads exceed the limit of 65536" calibrate changed --data ok.jsonl -o s.amax
for byte in '\033' '\377'; do
	fails 2 "${c}invalid '--include' or '--exclude' in '*': an amax history records only UTF-8 without control characters" \
		calibrate "$model" --data ok.jsonl -o s.amax --fp8-forward --exclude "$(printf "($byte|mlp)")"
done
changed rope_parameters '{"rope_type": "dynamic", "factor": 4.0}'
fails 3 "${c}config.json: the rotary embedding has rope_type 'dynamic', which is not supported (supported: *)" \
	calibrate changed --data ok.jsonl -o s.amax
changed rope_parameters '{"rope_type": "linear", "factor": 4.0, "beta_fast": 32}'
fails 3 "${c}config.json: the rotary embedding has the key 'beta_fast', which is not supported with rope_type 'linear'; remove *" \
	calibrate changed --data ok.jsonl -o s.amax
changed residual_multiplier 0.25
fails 3 "${c}config.json: 'residual_multiplier' is 0.25, which is not supported for this architecture; remove the key *" \
	calibrate changed --data ok.jsonl -o s.amax
changed attention_bias true
fails 3 "${c}config.json: 'attention_bias' is true, but layer 0 of 'changed' has no tensor of a bias" \
	calibrate changed --data ok.jsonl -o s.amax
changed hidden_act '"relu"'
fails 3 "${c}config.json: hidden_act 'relu' is not supported (supported: *)" calibrate changed --data ok.jsonl -o s.amax
# Known, but only in layers without a gate.
changed hidden_act '"relu2"'
fails 3 "${c}config.json: hidden_act 'relu2' is not supported (supported: silu, gelu_pytorch_tanh)" \
	calibrate changed --data ok.jsonl -o s.amax
changed num_key_value_heads 3
fails 3 "${c}config.json: * heads ('num_attention_heads') are not a multiple of 3 key and value heads ('num_key_value_heads')" \
	calibrate changed --data ok.jsonl -o s.amax
# A family whose head is the embedding, and a file that denies it but has no head.
python3 "$CLI/tiny.py" make smollm3 tied
model=tied
changed tie_word_embeddings false
fails 3 "${c}tensor 'lm_head.weight' is missing from 'changed', a model of smollm3: record its history in torch *" calibrate changed --data ok.jsonl -o s.amax
rm -r tied
# A list with entries for fewer layers, by the names of both families and of their releases.
python3 "$CLI/tiny.py" make glm_moe_dsa listed
model=listed
changed indexer_types '["full", "shared"]'
fails 3 "${c}config.json: 'indexer_types' has 2 entries for 3 layers: give one for each layer" calibrate changed --data ok.jsonl -o s.amax
changed indexer_types '["full", 1, "full"]'
fails 3 "${c}config.json: 'indexer_types?1]' is 1, which is not supported (supported: full, shared; in a pattern: F, S)" \
	calibrate changed --data ok.jsonl -o s.amax
changed indexer_types null index_topk_pattern '"F"'
fails 3 "${c}config.json: 'index_topk_pattern' has 1 entry for 3 layers: give *" calibrate changed --data ok.jsonl -o s.amax
rm -r listed
python3 "$CLI/tiny.py" make minimax_m3_vl listed
changed layer_types null sparse_attention_config '{"sparse_attention_freq": [0, 0, 1]}'
fails 3 "${c}config.json: 'sparse_attention_freq' has 3 entries for 4 layers: give *" calibrate changed --data ok.jsonl -o s.amax
changed layer_types '["full_attention"]'
fails 3 "${c}config.json: 'layer_types' has 1 entry for 4 layers: give *" calibrate changed --data ok.jsonl -o s.amax
rm -r listed
rm -rf changed *.jsonl *.txt
ls

mkdir next
cd next
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
fails 3 " calibrate: tensor 'model.layers.1.mlp.down_proj.weight' has 1 value that is NaN or infinite" \
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
