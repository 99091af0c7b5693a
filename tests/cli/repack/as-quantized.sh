#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What quantize writes in one format, repacked, is what it writes in the other: every byte of every file.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe" "$SAMPLES/odd-shapes"
pairs() {
	case $1 in
	blockwise) echo hf compressed-tensors ;;
	channelwise) echo compressed-tensors modelopt ;;
	current) echo hf compressed-tensors ;;
	mxfp8) echo hf compressed-tensors modelopt ;;
	esac
}
for model in tiny-llama tiny-moe/per-expert tiny-moe/fused odd-shapes; do
	for options in "blockwise" "blockwise --ragged" "blockwise --scale-fmt float" "channelwise" "current" \
		"current --fp8-format e5m2" "mxfp8"; do
		recipe=${options%% *}
		for format in $(pairs "$recipe"); do
			# shellcheck disable=SC2086
			"$FP8CONV" quantize "$SAMPLES/$model" -o "$format" --quiet --recipe $options --format "$format"
		done
		for from in $(pairs "$recipe"); do
			for to in $(pairs "$recipe"); do
				"$FP8CONV" repack "$from" -o out --format "$to" -q
				same "$to" out
				rm -rf out
			done
		done
		rm -rf hf compressed-tensors modelopt
	done
done
# Whole blocks go into ModelOpt's, which quantize gets by keeping the others.
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o modelopt --format modelopt --quiet
"$FP8CONV" repack modelopt -o hf --format hf
"$FP8CONV" repack hf -o back --format modelopt
same modelopt back
# Spellings of one engine, and the engine's own format.
for target in vllm transformers; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o mx --recipe mxfp8 --target $target --quiet
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o plain --recipe mxfp8 --quiet
	"$FP8CONV" repack plain -o out --target $target
	same mx out
	rm -rf mx plain out
done

mkdir next
cd next
# Codes for activations in high precision: compressed-tensors can say so, as vLLM's CompressedTensorsW8A16Fp8 reads it.
python3 "$CLI/fp8.py" make ct-channel in
python3 - <<'END'
import json
config = json.load(open("in/config.json"))
for group in config["quantization_config"]["config_groups"].values():
    group["input_activations"] = None
json.dump(config, open("in/config.json", "w"))
END
"$FP8CONV" repack in -o ct --format compressed-tensors
tr -d '\n' <ct/config.json >j
echo >>j
json j '[g["input_activations"] for g in j["quantization_config"]["config_groups"].values()] == [None]'
"$FP8CONV" repack ct -o mo --format modelopt

mkdir next
cd next
# Scales of the KV cache for each head, as llm-compressor writes them (strategy attn_head): every command reads them,
# compressed-tensors keeps them, and other formats cannot say it.
need "$SAMPLES/tiny-llama"
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o in --recipe channelwise --quiet
rm in/fp8conv-manifest.json

# add SHAPE...: the cache scales of each layer, BF16, in turn of these shapes.
add() {
	python3 - "$@" <<'END'
import json
import sys
import checkpoint
config = json.load(open("in/config.json"))
config["quantization_config"]["kv_cache_scheme"] = {"num_bits": 8, "type": "float", "strategy": "attn_head", "symmetric": True,
                                                    "dynamic": False}
json.dump(config, open("in/config.json", "w"))
tensors = {name: t for name, t in checkpoint.read("in").items() if not name.endswith(("k_scale", "v_scale"))}
layers = sorted({name.split(".")[2] for name in tensors if name.startswith("model.layers.")})
for i, layer in enumerate(layers):
    shape = [int(d) for d in sys.argv[1 + i % (len(sys.argv) - 1)].split("x")]
    for which in "kv":
        block = b"".join(bytes([i, 0x3c + (which == "v")]) for _ in range(shape[0]))
        tensors[f"model.layers.{layer}.self_attn.{which}_scale"] = "BF16", shape, block
checkpoint.write("in/model.safetensors", tensors)
END
}

scales() {
	python3 "$CLI/checkpoint.py" list "$1" | grep '[kv]_scale'
}

add 2x1x1
scales in >wanted
"$FP8CONV" verify in
"$FP8CONV" inspect in >inspected
[ "$(grep -c 'BF16	\[2, 1, 1\]' inspected)" -eq "$(wc -l <wanted)" ] || echo "inspect does not show the scales"
"$FP8CONV" repack in -o out --format compressed-tensors --quiet
scales out | diff wanted -
grep -q '"strategy": "attn_head"' out/config.json || echo "the configuration does not say attn_head"
"$FP8CONV" verify out
"$FP8CONV" dequantize out -o values --quiet
[ -z "$(scales values)" ] || echo "a dequantized model has cache scales"
grep -q kv_cache_scheme values/config.json && echo "a dequantized model has a kv_cache_scheme"
fails 2 " repack: KV-cache scale 'model.layers.0.self_attn.k_scale' has 2 values, one for each head, which format 'modelopt' cannot hold: use --format compressed-tensors" \
	repack in -o no --format modelopt
add 2x1x1 1
fails 2 " repack: KV-cache scale 'model.layers.1.self_attn.k_scale' has 1 values, but other attentions one for each head: a configuration says one of both" \
	repack in -o no --format compressed-tensors
add 1
"$FP8CONV" repack in -o one --format compressed-tensors --quiet
grep -A4 '"kv_cache_scheme": {' one/config.json | grep -q '"strategy": "tensor"' || echo "one scale is not strategy tensor"

#2> fp8conv repack: note: the source keeps activations in high precision, but in format 'modelopt' engines quantize them too: compare the quality of both
