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
