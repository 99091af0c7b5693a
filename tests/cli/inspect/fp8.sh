#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What quantize wrote is detected, and every FP8 tensor has its scale.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
python3 "$CLI/amax.py" make "$model" s.amax
"$FP8CONV" formats | while read -r format recipe engines; do
	calibration=
	[ "$recipe" = delayed ] && calibration="--calibration s.amax"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize "$model" -o out --recipe "$recipe" --format "$format" $calibration --quiet || continue
	"$FP8CONV" inspect out --json >j
	scale_fmt=float
	# compressed-tensors and modelopt have no word for scales that are powers of two.
	case $format-$recipe in hf-blockwise | *-mxfp8) scale_fmt=ue8m0 ;; esac
	json j "(j['recipe'], j['format'], j['scale_fmt']) == ('$recipe', '$format', '$scale_fmt')" \
		'sum(t["dtype"] == "F8_E4M3" for t in j["tensors"]) == 26' \
		'all((t["scale_inv"] is not None) == (t["dtype"] == "F8_E4M3") for t in j["tensors"])' \
		'{t["scale_inv"] for t in j["tensors"]} - {None} == {t["name"] for t in j["tensors"] if "weight_scale" in t["name"]}' \
		'all(t["file"] == s["file"] for t in j["tensors"] for s in j["tensors"] if s["name"] == t["scale_inv"])'
	rm -rf out
done

mkdir next
cd next
# Low-bit weights of every packing: what each packed tensor holds, and its largest value.
for packing in $(python3 "$CLI/low_bit.py" packings); do
	python3 "$CLI/low_bit.py" finite "$packing" in
	python3 "$CLI/low_bit.py" amax "$packing" finite >wanted
	"$FP8CONV" inspect in --stats --json >j
	python3 - >found <<-'END'
		import json
		j = json.load(open("j"))
		packs = [(t["packs"], t["stats"]["amax"]) for t in j["tensors"] if t["packs"]]
		for p, amax in packs:
		    print(p["name"], p["dtype"], "x".join(map(str, p["shape"])), "%.9g" % amax)
		if j["low_bit"] != {"kind": packs[0][0]["dtype"].lower(), "tensors": len(packs)}:
		    print(j["low_bit"])
	END
	diff wanted found
	json j 'all(t["scale"] and t["scale_inv"] for t in j["tensors"] if t["packs"])' \
		'all(t["kept"] == (t["dtype"] == "BF16" and "weight_scale" not in t["name"]) for t in j["tensors"])'
	rm -rf in
done
