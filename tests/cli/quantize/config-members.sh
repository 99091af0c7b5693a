#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# DeepSeek-V4's engines take experts for FP4 unless config.json says expert_dtype fp8: it is set where it stands, or added at
# the end, by quantize and repack; a dequantized model has none, and other families never get it.
weights="embed.weight=BF16:8x128 layers.0.attn.wo_a.weight=BF16:128x128"
experts="layers.0.ffn.experts.0.w1.weight=BF16:128x128 layers.0.ffn.experts.0.w2.weight=BF16:128x128
layers.0.ffn.experts.0.w3.weight=BF16:128x128"

# source CONFIG
source() {
	rm -rf in out other
	mkdir in
	# shellcheck disable=SC2086
	python3 "$CLI/checkpoint.py" make in/model.safetensors $weights $experts
	echo "$1" >in/config.json
}

source '{"model_type": "deepseek_v4", "expert_dtype": "fp4", "vocab_size": 8}'
"$FP8CONV" quantize in -o out --quiet
json out/config.json 'j["expert_dtype"] == "fp8"' 'list(j)[:3] == ["model_type", "expert_dtype", "vocab_size"]'
"$FP8CONV" repack out -o other --format compressed-tensors --quiet
json other/config.json 'j["expert_dtype"] == "fp8"'
rm -rf other
"$FP8CONV" dequantize out -o other --quiet
json other/config.json '"expert_dtype" not in j'

source '{"model_type": "deepseek_v4"}'
"$FP8CONV" quantize in -o out --quiet --recipe channelwise
json out/config.json 'list(j)[-1] == "expert_dtype"' 'j["expert_dtype"] == "fp8"'
# A checkpoint that another tool left without it.
python3 - <<'END'
import json
config = json.load(open("out/config.json"))
del config["expert_dtype"]
open("out/config.json", "w").write(json.dumps(config) + "\n")
END
"$FP8CONV" repack out -o other --format modelopt --quiet
json other/config.json 'j["expert_dtype"] == "fp8"'
rm -rf out
"$FP8CONV" quantize in -o out --quiet --profile none
json out/config.json '"expert_dtype" not in j'

source '{"model_type": "deepseek_v3"}'
"$FP8CONV" quantize in -o out --quiet
json out/config.json '"expert_dtype" not in j'

# Experts in MXFP4 that are read and become FP8.
rm -rf in out
python3 "$CLI/low_bit.py" finite deepseek-v4 in
python3 - <<'END'
import json
config = json.load(open("in/config.json"))
config["model_type"] = "deepseek_v4"
open("in/config.json", "w").write(json.dumps(config) + "\n")
END
"$FP8CONV" quantize in -o out --requantize --recipe mxfp8 --quiet
json out/config.json 'j["expert_dtype"] == "fp8"'

mkdir then
cd then
# Where the source has no config.json, none is invented: a note shows what to add to that of the model, and the
# manifest says that the directory is complete.  A README.md describes the source, which a note says.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
mkdir bare
cp "$model/model.safetensors" "$model/tokenizer.json" bare
for source in "$model/model.safetensors" bare; do
	"$FP8CONV" quantize "$source" -o out --json >j 2>err
	ls out | grep config
	grep -q '"finished": true' out/fp8conv-manifest.json || echo "$source: not finished"
	json j '[n["kind"] for n in j["notes"]] == ["no-config"]'
	[ "$(wc -l <err)" -eq 1 ] || cat err
	sed -n 's/^fp8conv quantize: note: the source has no config.json, so none is written: add \(.*\) to yours$/{\1}/p' err >fragment
	"$FP8CONV" quantize "$model" -o whole
	python3 - <<'END'
import json
ours = json.load(open("whole/config.json"))["quantization_config"]
if json.load(open("fragment")) != {"quantization_config": ours}:
    print("the note shows", open("fragment").read())
END
	# Finished is finished; a config.json that the user adds stays, and makes it a model.
	snapshot out >before
	"$FP8CONV" quantize "$source" -o out --quiet
	snapshot out | diff before -
	"$FP8CONV" verify out | grep -o '^config.json: config-key: there is no config.json: take that of the source model, '
	cp whole/config.json out
	"$FP8CONV" verify out
	rm out/model.safetensors
	"$FP8CONV" quantize "$source" -o out --quiet
	cmp whole/config.json out/config.json
	rm out/config.json
	"$FP8CONV" repack out -o packed --format compressed-tensors 2>err
	grep -qx 'fp8conv repack: note: the source has no config.json, .*"quant_method": "compressed-tensors".* to yours' err || cat err
	"$FP8CONV" dequantize out -o back
	find packed back -name '*config.json'
	rm -r out packed back whole
done
"$FP8CONV" quantize "$model/model.safetensors" -o one.safetensors

"$FP8CONV" quantize "$model" -o one.safetensors --json >j 2>err
json j '"no-config" in [n["kind"] for n in j["notes"]]'

openssl ecparam -name prime256v1 -genkey -noout -out key.pem
cp -r "$model" in
echo '# A model' >in/README.md
"$FP8CONV" quantize in -o out --json >j 2>err
cmp in/README.md out/README.md
json j '"readme-copied" in [n["kind"] for n in j["notes"]]'
grep -qx "fp8conv quantize: note: README.md is copied from 'in' and describes the source model: write one .*" err || cat err
"$FP8CONV" dequantize out -o back 2>err
grep -qx "fp8conv dequantize: note: README.md is copied from 'out' .*" err || cat err
# A card of the output's own stays, so it is no copy; --restart replaces it.
echo '# An output' >>out/README.md
"$FP8CONV" quantize in -o out
"$FP8CONV" quantize in -o out --sign key.pem
tail -n 1 out/README.md
"$FP8CONV" quantize in -o out --restart 2>err
grep -q "note: README.md is copied from 'in'" err || cat err
cmp in/README.md out/README.md
"$FP8CONV" quantize in -o out --quiet
#1> config.json: config-key: there is no config.json: take that of the source model, 
#1> config.json: config-key: there is no config.json: take that of the source model, 
#1> # An output
