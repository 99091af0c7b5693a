#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What is no FP8 model, or more than one: the source instead of the output, and weights of something else beside the model.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
for options in "" "--target vllm" "--source $SAMPLES/tiny-llama"; do
	# shellcheck disable=SC2086
	"$FP8CONV" verify "$SAMPLES/tiny-llama" $options >told && echo "verify $options accepts a model that is not FP8"
	grep -qx "nothing-quantized: no weight of '$SAMPLES/tiny-llama' is FP8: give the output of a quantization, not its source" told ||
		cat told
	[ "$(wc -l <told)" -eq 1 ] || cat told
done
"$FP8CONV" verify "$SAMPLES/tiny-llama/model.safetensors" --json >j && echo "verify accepts a file without FP8"
json j 'not j["ok"] and j["recipe"] is None' '[(p["kind"], p["tensor"], p["file"]) for p in j["problems"]] ==
	[("nothing-quantized", None, None)]'
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out
"$FP8CONV" dequantize out -o back
"$FP8CONV" verify back | grep -o '^[a-z-]*:'

# Without an index some engines load every file; with one, Mistral's second layout is known, and others are told.
cp "$SAMPLES/tiny-llama/model.safetensors" out/lora.safetensors
"$FP8CONV" verify out
"$FP8CONV" verify out --json >j
json j '[(p["kind"], p["file"]) for p in j["problems"]] == [("file-stray", "lora.safetensors")]'
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o moe
for name in adapter.safetensors consolidated.safetensors .hidden.safetensors; do
	cp "$SAMPLES/tiny-llama/model.safetensors" moe/$name
done
"$FP8CONV" verify moe
rm moe/model-00002-of-00002.safetensors moe/adapter.safetensors
echo broken >moe/model-00002-of-00002.safetensors
"$FP8CONV" verify moe | grep -v config-ignore | cut -d : -f 1,2

# What is no checkpoint is an error, not a problem.
mkdir empty && : >short.safetensors
fails 3 " verify: found no model.safetensors.index.json, model.safetensors or other .safetensors file in 'empty'" verify empty
fails 3 " verify: cannot open 'nowhere': No such file or directory" verify nowhere
fails 3 " verify: 'short.safetensors' is empty: copy or download it again" verify short.safetensors
fails 2 " verify: OUT is missing (fp8conv verify OUT)" verify
fails 2 " verify: option '--target': 'vlm' is not one of *(did you mean 'vllm'?)" verify empty --target vlm
fails 3 " verify: cannot open 'nowhere': No such file or directory" verify "$SAMPLES/tiny-llama" --source nowhere

#1> nothing-quantized:
#1> lora.safetensors: file-stray: 'lora.safetensors' lies beside the model, but is not of it: some engines load every .safetensors file
#1> adapter.safetensors: file-stray: 'adapter.safetensors' lies beside the model, but the index does not name it: some engines load every .safetensors file
#1> model-00002-of-00002.safetensors: file-invalid
