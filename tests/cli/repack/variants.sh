#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Each variant goes into the formats that can say it, with the same values to the bit, and into no other.
formats_of() {
	case $1 in
	hf-block | hf-block-tall | hf-tensor | ct-block-f16 | deepseek-v4 | gptqmodel | experts) echo hf compressed-tensors ;;
	hf-static | modelopt-4d | mxfp8 | mxfp8-e8m0 | comfyui) echo hf compressed-tensors modelopt ;;
	ct-tensor | ct-channel | ct-channel-bf16 | modelopt-tensor | modelopt-channel | gptqmodel-channel | experts-channel)
		echo compressed-tensors modelopt ;;
	esac
}
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" make "$variant" in
	for format in hf compressed-tensors modelopt; do
		case " $(formats_of "$variant") " in
		*" $format "*) ;;
		*)
			fails 2 " repack: *" repack in -o out --format $format
			[ ! -e out ] || echo "$variant to $format: out was made"
			continue
			;;
		esac
		"$FP8CONV" repack in -o out --format $format 2>said
		sed -i '/^fp8conv repack: note: .* --target [a-z]*\( for it\)\?$/d' said
		case $variant in
		gptqmodel*) sed -i '/^fp8conv repack: note: the scales are divisors: they are inverted/d' said ;;
		esac
		[ -e in/config.json ] || sed -i '/^fp8conv repack: note: the source has no config.json/d' said
		cat said
		"$FP8CONV" inspect out --json >j
		# Without a configuration, names and shapes of scales may fit several formats.
		json j "j['format'] == '$format' or not $(find in -name config.json | wc -l)" \
			'all(t["dtype"] in ("F32", "U8") for t in j["tensors"] if "_scale" in t["name"])' \
			'all(t["scale_inv"] for t in j["tensors"] if t["dtype"].startswith("F8"))' || echo "$variant to $format"
		"$FP8CONV" dequantize out -o values --dtype f32
		python3 "$CLI/fp8.py" check "$variant" values f32
		# There and back again: the same bytes.
		for other in $(formats_of "$variant"); do
			"$FP8CONV" repack out -o there --format "$other" --quiet
			"$FP8CONV" repack there -o back --format $format --quiet
			same out back
			rm -rf there back
		done
		# In small pieces, with one thread and several.
		for way in "--threads 1 --max-memory 24832K" "--threads 2" "--threads 3 --max-memory 25344K"; do
			# shellcheck disable=SC2086
			"$FP8CONV" repack in -o again --format $format --quiet $way
			same out again
			rm -rf again
		done
		rm -rf out values
	done
	rm -rf in
done
