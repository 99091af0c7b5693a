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

#2> fp8conv repack: note: the source keeps activations in high precision, but in format 'modelopt' engines quantize them too: compare the quality of both
