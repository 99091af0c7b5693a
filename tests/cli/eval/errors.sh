#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What eval refuses, and the gate of --max-kld.
need "$SAMPLES/tiny-llama"
c=" eval: "
model=$SAMPLES/tiny-llama
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" quantize "$model" -o out
fails 2 "${c}option '--data' is missing: give text or token ids to predict" eval out
fails 2 "${c}option '--by-layer' requires '--source'" eval out --data ids.jsonl --by-layer
fails 2 "${c}option '--max-kld' requires '--source'" eval out --data ids.jsonl --max-kld 1
for value in 0 -1 nan inf 1x ''; do
	fails 2 "${c}option '--max-kld': '$value' is not a number above 0" eval out --data ids.jsonl --max-kld "$value"
done
fails 2 "${c}option '--stride': 9 is more than --seq-len (8)" eval out --data ids.jsonl --seq-len 8 --stride 9
fails 2 "${c}option '--stride' needs text: sequence 1 of the data has a length of its own" \
	eval out --data ids.jsonl --seq-len 8 --stride 4
fails 2 "${c}option '--kv-cache': the checkpoint has no scales of a cache ('model.layers.0.self_attn.k_scale'): *" \
	eval out --data ids.jsonl --kv-cache
printf '{"input_ids": [1]}\n{"input_ids": [2]}\n' >single.jsonl
fails 3 "${c}the data has no token to predict: every sequence has one token" eval out --data single.jsonl
fails 3 "${c}cannot open 'none'*" eval out --data none
fails 3 "$c*none*" eval none --data ids.jsonl
fails 3 "$c*none*" eval out --source none --data ids.jsonl

# An overflow is told with its module.
cp -r "$model" bad
chmod -R u+w bad
python3 - <<'END'
import checkpoint
name, file = "model.layers.1.input_layernorm.weight", "bad/model.safetensors"
tensors = checkpoint.read(file)
dtype, shape, data = tensors[name]
tensors[name] = dtype, shape, checkpoint.pack("BF16", [3e38] * shape[0])
checkpoint.write(file, tensors)
END
fails 3 "${c}the output of 'model.layers.1.self_attn.q_proj' in 'bad' has * values that are NaN or infinite, in sequence 0" \
	eval bad --source "$model" --data ids.jsonl
fails 3 "${c}the output of 'model.layers.1.self_attn.q_proj' in 'bad' has * values that are NaN or infinite, in sequence 0" \
	eval out --source bad --data ids.jsonl

# A loss that exp() does not hold.
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("bad/model.safetensors")
dtype, shape, data = tensors["model.layers.1.input_layernorm.weight"]
tensors["model.layers.1.input_layernorm.weight"] = dtype, shape, checkpoint.pack("BF16", [1] * shape[0])
tensors["model.norm.weight"] = dtype, shape, checkpoint.pack("BF16", [1e30] * shape[0])
checkpoint.write("bad/model.safetensors", tensors)
END
fails 3 "${c}the perplexity of 'bad' is not finite: its logits are too far apart" eval bad --data ids.jsonl --json
fails 3 "${c}the perplexity of 'bad' is not finite: its logits are too far apart" eval out --source bad --data ids.jsonl --json

# Several static scales of one input are not guessed at.
cp -r out static
chmod -R u+w static
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("static/model.safetensors")
tensors["model.layers.0.self_attn.q_proj.input_scale"] = "F32", [2], checkpoint.pack("F32", [1, 1])
checkpoint.write("static/model.safetensors", tensors)
END
fails 3 "${c}tensor 'model.layers.0.self_attn.q_proj.input_scale' has more than one input scale, which is unsupported: *" \
	eval static --data ids.jsonl
"$FP8CONV" eval static --data ids.jsonl --activations bf16 --json >/dev/null
for type in F64 I32 I16; do
	python3 - $type <<-'END'
		import checkpoint, sys
		tensors = checkpoint.read("static/model.safetensors")
		size = {"F64": 8, "I32": 4, "I16": 2}[sys.argv[1]]
		tensors["model.layers.0.self_attn.q_proj.input_scale"] = sys.argv[1], [1], bytes(size)
		checkpoint.write("static/model.safetensors", tensors)
	END
	fails 3 "${c}tensor 'model.layers.0.self_attn.q_proj.input_scale' has the type $type, but its values must be F32, BF16, F16 or F8_E8M0" \
		eval static --data ids.jsonl
done

# Not the source: another size, another architecture.
cp -r "$model" wide
chmod -R u+w wide
python3 - <<'END'
import json
config = json.load(open("wide/config.json"))
config["num_hidden_layers"] -= 1
json.dump(config, open("wide/config.json", "w"))
END
fails 3 "$c*wide*" eval out --source wide --data ids.jsonl
sed -i 's/LlamaForCausalLM/MistralForCausalLM/' wide/config.json
sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 2/' wide/config.json
fails 3 "$c*" eval out --source wide --data ids.jsonl

"$FP8CONV" eval out --source "$model" --data ids.jsonl --max-kld 1000 >text
"$FP8CONV" eval out --source "$model" --data ids.jsonl --max-kld 1e-9 >gated 2>err
[ $? = 1 ] || echo "no gate"
grep -qx 'fp8conv eval: the mean KLD is [0-9.]*, above --max-kld 1e-09' err || cat err
diff text gated
