#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A low-bit source gives the codes of its own values, as `dequantize` writes them; each code that is not exact is counted and
# said, or refused.  The counts come from an independent decode of source and output.

# convert PACKING KIND RECIPE EXACT: EXACT is yes or no.
convert() {
	python3 "$CLI/low_bit.py" "$2" "$1" in
	"$FP8CONV" dequantize in -o values --dtype f32
	"$FP8CONV" quantize values -o wanted --recipe "$3" --quiet
	"$FP8CONV" quantize in -o out --recipe "$3" --requantize --json >j 2>err
	python3 "$CLI/low_bit.py" same wanted out
	python3 "$CLI/low_bit.py" counts "$1" "$2" out >counts
	read -r kind tensors exact values changed first <counts
	[ "$first" = None ] && quoted=None || quoted="\"$first\""
	json j 'j["low_bit"] == {"kind": "'"$kind"'".lower(), "tensors": '"$tensors"', "exact": '"$exact"', "values": '"$values"',
		"changed": '"$changed"', "first": '"$quoted"'}'
	hint=
	[ "$kind" = MXFP4 ] && hint=": --recipe mxfp8 is"
	sentence="$changed of $values values of $((tensors - exact)) of $tensors tensors from $kind are not exact in $3, first in '$first'$hint"
	case $4 in
	yes)
		[ "$changed" = 0 ] || echo "$*: $changed values changed"
		grep exact err
		"$FP8CONV" quantize in -o again --recipe "$3" --requantize --exact --quiet
		same out again
		;;
	no)
		[ "$changed" = 0 ] && echo "$*: nothing changed"
		grep -Fqx "fp8conv quantize: note: $sentence" err || cat err
		json j '[n for n in j["notes"] if n["kind"] == "low-bit-inexact"] == [{"kind": "low-bit-inexact", "tensor": "'"$first"'",
			"message": "'"$sentence"'"}]'
		fails 3 " quantize: $sentence; omit --exact to accept that" quantize in -o again --recipe "$3" --requantize --exact --quiet
		;;
	esac
	[ "$4" = no ] && [ -e again ] && ls again
	rm -rf in values wanted out again j err counts
}

for packing in $(python3 "$CLI/low_bit.py" packings); do
	case $packing in
	*int4 | *nvfp4) convert "$packing" finite blockwise no ;;
	*)
		convert "$packing" finite blockwise yes
		convert "$packing" finite mxfp8 yes
		;;
	esac
done
convert gpt-oss wide blockwise no
convert deepseek-v4 wide mxfp8 yes
convert ct-mxfp4 finite channelwise no
convert ct-int4 finite mxfp8 no

# A plan reads headers only, and says what there is.
python3 "$CLI/low_bit.py" nan ling-3 in
"$FP8CONV" quantize in --requantize --dry-run --json >j
json j 'j["low_bit"] == {"kind": "mxfp4", "tensors": 6}'

# A scale that is NaN, or too large for fp32, is a value that is not finite.
fails 3 " quantize: tensor '*' in '*' is * at *: use --on-nonfinite saturate to quantize it*" quantize in -o out --requantize
fails 2 " quantize: tensor '*' is MXFP4 and would be kept (non-finite values), but low-bit tensors can only be quantized again*" \
	quantize in -o out --requantize --on-nonfinite skip
"$FP8CONV" quantize in -o out --requantize --on-nonfinite saturate --quiet
rm -rf in out j

# A tensor of the shape that says another one, which a plan finds; headers that lie are in tests/unit/test_low_bit.c.
python3 "$CLI/low_bit.py" finite ct-int4 in
"$FP8CONV" quantize in -o other --requantize --quiet
python3 "$CLI/checkpoint.py" flip in/model.safetensors model.layers.0.mlp.experts.1.up_proj.weight_shape
shape="'model.layers.0.mlp.experts.1.up_proj.weight_shape' says \[129, 256], but 'model.layers.0.mlp.experts.1.up_proj.weight_packed' packs \[128, 256]"
for command in "quantize in -o out --requantize --dry-run" "dequantize in -o out --dry-run" "inspect in --stats" "verify other --source in"; do
	# shellcheck disable=SC2086
	fails 3 " ${command%% *}: $shape" $command
done
rm -rf other
rm -rf in
[ -z "$(ls)" ] || ls
need "$SAMPLES/tiny-llama"
fails 2 " quantize: option '--exact' is for low-bit weights, and none of '$SAMPLES/tiny-llama' are quantized" \
	quantize "$SAMPLES/tiny-llama" -o out --exact
python3 "$CLI/low_bit.py" finite ct-int4 in
fails 2 " quantize: option '--exact' is for low-bit weights that are converted: use --requantize too" \
	quantize in -o out --exact --format compressed-tensors
rm -rf in

mkdir next
cd next
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
