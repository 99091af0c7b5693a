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

mkdir next
cd next
# Scales of a low-bit source in a shard of their own: nothing remains in that shard of the output, and `verify` takes it.
python3 "$CLI/low_bit.py" finite ct-mxfp4 whole
mkdir split
cp whole/config.json split
python3 - <<'END'
import pathlib
import checkpoint
shards = {}, {}
for name, tensor in checkpoint.read("whole").items():
    shards[name.endswith("_scale")][name] = tensor
checkpoint.write_shards(pathlib.Path("split"), shards)
END
"$FP8CONV" quantize whole -o out --requantize --quiet
"$FP8CONV" quantize split -o out-split --requantize --quiet
python3 "$CLI/low_bit.py" same out out-split
"$FP8CONV" verify out-split --source split

# A weight with the scales of two packings: neither is preferred.
python3 "$CLI/low_bit.py" finite deepseek-v4 twice
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("twice")
w1 = "model.layers.0.mlp.experts.0.w1."
checkpoint.write("twice/model.safetensors", tensors | {w1 + "weight_scale_inv": tensors[w1 + "scale"]})
END
w1=model.layers.0.mlp.experts.0.w1
fails 3 " quantize: low-bit tensor '$w1.weight' has two scales: '$w1.scale' and '$w1.weight_scale_inv'" \
	quantize twice -o out-twice --requantize --recipe current
[ -e out-twice ] && ls out-twice

mkdir next
cd next
# Six binades between the values of a block are not what counts: a block with 1 and 2^-18 is not exact.  S is 2^-8, the smallest
# power of two with 448 S >= 1, and FP8's smallest number times S is 2^-17.  With 2^-17 it is exact, and -0 keeps its sign.
block() {
	python3 - "$1" <<-'END'
		import sys, checkpoint
		low = int(sys.argv[1])                      # the exponent of the smallest value
		codes = bytearray(128 * 64)
		scales = bytearray([127 + low]) * (128 * 4)
		scales[0] = 127
		codes[0] = 0x2                              # 1 in the first group; -0 in its second element
		codes[0] |= 0x8 << 4
		codes[16 * 5] = 0x2                         # 2^low in another group
		checkpoint.write("in.safetensors", {"a.weight_packed": ("U8", [128, 64], codes), "a.weight_scale": ("U8", [128, 4], scales)})
	END
}
block -17
"$FP8CONV" quantize in.safetensors -o out.safetensors --requantize --exact --json >j
json j 'j["low_bit"] == {"kind": "mxfp4", "tensors": 1, "exact": 1, "values": 16384, "changed": 0, "first": None}' 'j["notes"] == []'
rm out.safetensors
block -18
sentence="1 of 16384 values of 1 of 1 tensors from MXFP4 are not exact in blockwise, first in 'a.weight': --recipe mxfp8 is"
fails 3 " quantize: $sentence; omit --exact to accept that" quantize in.safetensors -o out.safetensors --requantize --exact
[ -e out.safetensors ] && echo "out.safetensors was made"
"$FP8CONV" quantize in.safetensors -o out.safetensors --requantize --json >j --quiet
json j 'j["low_bit"] == {"kind": "mxfp4", "tensors": 1, "exact": 0, "values": 16384, "changed": 1, "first": "a.weight"}'
"$FP8CONV" quantize in.safetensors -o mx.safetensors --recipe mxfp8 --requantize --exact

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
