#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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

cp -r "$model" in
echo '# A model' >in/README.md
"$FP8CONV" quantize in -o out --json >j 2>err
cmp in/README.md out/README.md
json j '"readme-copied" in [n["kind"] for n in j["notes"]]'
grep -qx "fp8conv quantize: note: README.md is copied from 'in' and describes the source model: write one .*" err || cat err
"$FP8CONV" dequantize out -o back 2>err
grep -qx "fp8conv dequantize: note: README.md is copied from 'out' .*" err || cat err
"$FP8CONV" quantize in -o out --quiet

#1> config.json: config-key: there is no config.json: take that of the source model, 
#1> config.json: config-key: there is no config.json: take that of the source model, 
