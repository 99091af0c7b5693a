#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Without --requantize low-bit weights go through byte for byte, with all their scales, and config.json says both kinds; a
# format that cannot say it is refused with one that can.
fits() {
	python3 "$CLI/low_bit.py" finite "$1" in
	"$FP8CONV" quantize in -o out --format "$2" --json >j
	python3 "$CLI/low_bit.py" passed "$1" out
	json j 'j["low_bit"] is None' 'j["tensors"]["quantized"] == 1'
	"$FP8CONV" verify out --source in
	rm -rf out
	for other in hf compressed-tensors modelopt; do
		[ "$other" = "$2" ] ||
			fails 2 " quantize: 'model.layers.0.mlp.experts.0.*' is ${1##*-}, which format '$other' cannot describe beside FP8: use --format $2 to pass it on, or --requantize to convert it" \
				quantize in -o out --format "$other"
	done
	rm -rf in
}
fits ct-mxfp4 compressed-tensors
fits ct-int4 compressed-tensors
fits ct-nvfp4 compressed-tensors
fits modelopt-nvfp4 modelopt
for packing in deepseek-v4 ling-3; do
	python3 "$CLI/low_bit.py" finite $packing in
	"$FP8CONV" quantize in -o out
	python3 "$CLI/low_bit.py" passed $packing out
	"$FP8CONV" verify out --source in
	fails 2 " quantize: 'model.layers.0.mlp.experts.0.*' is mxfp4, which format 'compressed-tensors' cannot describe beside FP8: use --format hf to *" \
		quantize in -o other --format compressed-tensors
	rm -rf in out
done
python3 "$CLI/low_bit.py" finite gpt-oss in
fails 2 " quantize: 'model.layers.0.mlp.experts.down_proj' is mxfp4, which no format can describe beside FP8 as this source has it: use --requantize to convert it" \
	quantize in -o out
rm -rf in

# An engine that reads one group; nothing left to quantize.
python3 "$CLI/low_bit.py" finite ct-int4 in
fails 2 " quantize: int4 and FP8 modules in format 'compressed-tensors' do not load in trtllm: it reads only the first config group; use --requantize to convert them" \
	quantize in -o out --format compressed-tensors --target trtllm
fails 2 " quantize: nothing to quantize: *" quantize in -o out --format compressed-tensors --exclude self_attn
"$FP8CONV" quantize in --format compressed-tensors --dry-run --json >j
json j 'sum(t["reason"] == "INT4, passed on" for t in j["tensors"]) == 18' 'j["skip_list"] == ["lm_head"]'
rm -rf in j
[ -z "$(ls)" ] || ls
