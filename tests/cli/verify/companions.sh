#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Files beside the weights against the source's: each key of config.json, each byte of the others, and what is missing.
need "$SAMPLES/tiny-llama" "python3()"
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
mkdir model/2_Dense
python3 "$CLI/checkpoint.py" make model/2_Dense/model.safetensors linear.weight=F32:64x128
echo "{{ messages }}" >model/chat_template.jinja
"$FP8CONV" quantize model -o whole --quiet
rm whole/fp8conv-manifest.json
"$FP8CONV" verify whole --source model

# damaged COMMAND: verifies a copy after the command.
damaged() {
	rm -rf out && cp -r whole out
	(cd out && eval "$1")
	"$FP8CONV" verify out --source model && echo "passes: $1"
}
damaged "rm tokenizer.json chat_template.jinja"
damaged "echo >>chat_template.jinja"
damaged "rm -r 2_Dense"
damaged "printf '\\001' | dd of=2_Dense/model.safetensors bs=1 seek=200 conv=notrunc 2>/dev/null"
damaged ": >tokenizer.json"
damaged "ln -sf gone tokenizer_config.json"
damaged "sed -i 's/\"bos_token_id\": 0/\"bos_token_id\": 5/' generation_config.json"
damaged "rm generation_config.json config.json" | grep file-missing
damaged "echo '{\"peft_type\": \"LORA\"}' >adapter_config.json"
# A file that engines pass over is named without the source too.
for text in x "[]" "\\0\\0\\0"; do
	rm -rf out && cp -r whole out
	# shellcheck disable=SC2059
	printf "$text" >out/generation_config.json
	"$FP8CONV" verify out
done
# What people read, and the form of JSON, are no difference.
rm -rf out && cp -r whole out
echo "a card" >out/README.md
python3 - <<'END'
import json
for name in ("tokenizer.json", "config.json", "generation_config.json"):
    text = json.load(open("out/" + name))
    json.dump(text, open("out/" + name, "w"), indent=7, sort_keys=True)
END
"$FP8CONV" verify out --source model

# Each key that is changed, removed or added is named with both values.
python3 - <<'END'
import json, os, subprocess
whole = json.load(open("whole/config.json"))


def told(name, value, **more):
    config = dict(whole, **more)
    config.pop(name, None)
    if value is not None:
        config[name] = value
    json.dump(config, open("out/config.json", "w"))
    done = subprocess.run([os.environ["FP8CONV"], "verify", "out", "--source", "model", "--json"], capture_output=True, text=True)
    return [p["message"] for p in json.loads(done.stdout)["problems"] if p["kind"] == "config-changed"]


OTHER = {"rms_norm_eps": 0.5, "hidden_act": "gelu", "head_dim": 32, "architectures": ["MistralForCausalLM"], "model_type": "mistral",
         "max_position_embeddings": 7, "attention_bias": True, "tie_word_embeddings": not whole["tie_word_embeddings"]}
NEW = {"rope_scaling": {"type": "linear", "factor": 2.0}, "sliding_window": 4, "final_logit_softcapping": 3.0}
for name, value in OTHER.items():
    wanted = [f"'{name}' is {json.dumps(value)}, but {json.dumps(whole[name])} in the source"]
    if name != "rms_norm_eps" and told(name, value) != wanted or len(told(name, value)) != 1:
        print(name, told(name, value), wanted)
    if told(name, None) != [f"'{name}' is missing, but {wanted[0].split(', but ')[1]}"] and name != "rms_norm_eps":
        print(name, told(name, None))
for name, value in NEW.items():
    if told(name, value) != [f"'{name}' is {json.dumps(value)}, but missing in the source"]:
        print(name, told(name, value))
# By another version of transformers, new keys are defaults; changed ones count.
if told("sliding_window", 4, transformers_version="9.9") or len(told("hidden_act", "gelu", transformers_version="9.9")) != 1:
    print("a rewritten configuration:", told("sliding_window", 4, transformers_version="9.9"))
for name in ("use_cache", "_name_or_path"):
    if told(name, "x"):
        print(name, "is named")
END

#1> chat_template.jinja: file-missing: the source's 'chat_template.jinja' is missing
#1> tokenizer.json: file-missing: the source's 'tokenizer.json' is missing
#1> chat_template.jinja: file-changed: 'chat_template.jinja' is not the source's: byte 15 differs (16 bytes, 15 in the source)
#1> 2_Dense/model.safetensors: file-missing: the source's '2_Dense/model.safetensors' is missing
#1> 2_Dense/model.safetensors: file-changed: '2_Dense/model.safetensors' is not the source's: byte 200 differs (32882 bytes, 32882 in the source)
#1> file-invalid: 'out/tokenizer.json' is empty: copy or download it again
#1> tokenizer.json: file-changed: 'tokenizer.json' is not the source's: byte 0 differs (0 bytes, 55004 in the source)
#1> file-invalid: 'out/tokenizer_config.json' is a link to a file that does not exist: copy or download the model again
#1> tokenizer_config.json: file-invalid: cannot open 'out/tokenizer_config.json': No such file or directory
#1> generation_config.json: config-changed: 'bos_token_id' is 5, but 0 in the source
#1> config.json: file-missing: the source's 'config.json' is missing
#1> generation_config.json: file-missing: the source's 'generation_config.json' is missing
#1> adapter_config.json: config-key: the model is whole: transformers takes it for an adapter, and stops; remove the file
#1> generation_config.json: file-invalid: it is not a JSON object: engines take the defaults of the model's class silently, or stop
#1> generation_config.json: file-invalid: it is not a JSON object: engines take the defaults of the model's class silently, or stop
#1> generation_config.json: file-invalid: it is not a JSON object: engines take the defaults of the model's class silently, or stop
