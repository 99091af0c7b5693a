#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Numbers of tensors that are made by hand, byte for byte.
python3 - <<'END'
import struct
import checkpoint
codes = bytearray([0x38] * (128 * 256))            # 1.0
codes[5] = 0xFE                                    # -448
codes[200] = 0x7F                                  # NaN, in the second tile
codes[128:256] = bytes([0x38] * 72 + [0x7F] + [0x38] * 55)
zeros = bytearray(128 * 256)
tensors = [("a.weight", "F8_E4M3", [128, 256], bytes(codes)), ("a.weight_scale_inv", "F32", [1, 2], struct.pack("<2f", 0.5, 0.25)),
           ("b.weight", "F8_E5M2", [128, 256], bytes(zeros)), ("b.weight_scale_inv", "F32", [1, 2], struct.pack("<2f", 1, 1)),
           ("c.weight", "BF16", [3], struct.pack("<3H", 0xC040, 0x7FC0, 0x3F80)), ("d", "I64", [1], bytes(8)),
           ("e.weight", "F32", [2], struct.pack("<2f", float("-inf"), 1))]
checkpoint.write("model.safetensors", {name: tensor for name, *tensor in tensors})
END
"$FP8CONV" inspect model.safetensors --stats | cut -f 1,2,7-
"$FP8CONV" inspect - --stats <model.safetensors | cut -f 7- | md5sum >stream
"$FP8CONV" inspect model.safetensors --stats | cut -f 7- | md5sum | diff - stream
"$FP8CONV" inspect model.safetensors --stats --json >j
# 1.0 is the least of its binade: 1/16 above, 1/32 below; -448 has 16 below, and takes it on both sides.
# A tile's numbers count with the square of its scale.
json j '[t["stats"] for t in j["tensors"] if t["name"] == "d"] == [None]' \
	'{t["name"]: t["stats"] for t in j["tensors"]}["c.weight"] == {"amax": 3, "nonfinite": 1}' \
	'{t["name"]: t["stats"] for t in j["tensors"]}["e.weight"] == {"amax": None, "nonfinite": 1}' \
	'{t["name"]: t["scale"] for t in j["tensors"]}["a.weight"] == {"use": "multiplies", "dtype": "F32", "tile": [128, 128]}' \
	'{t["name"]: t["stats"] for t in j["tensors"]}["b.weight"]["expected_sqnr_db"] is None' \
	'(lambda s: (s["amax"], s["nonfinite"], s["scale_least"], s["scale_most"], s["saturated"]) == (224, 1, 0.25, 0.5, 1))({t["name"]: t["stats"] for t in j["tensors"]}["a.weight"])' \
	'(lambda s, one, most, n: abs(10 ** (s / 10) - (0.25 * (n - 1 + 448 ** 2) + 0.0625 * (n - 1)) / (0.25 * ((n - 1) * one + most) + 0.0625 * (n - 1) * one)) < 0.1)({t["name"]: t["stats"] for t in j["tensors"]}["a.weight"]["expected_sqnr_db"], (16 ** -3 + 32 ** -3) / (3 * (1 / 16 + 1 / 32)), 16 ** 2 / 3, 128 * 128)'
python3 "$CLI/terminal.py" "$FP8CONV" inspect model.safetensors --stats
python3 "$CLI/terminal.py" "$FP8CONV" inspect model.safetensors

# MX, a whole tensor, a channel; and what quantize says it lost is near to what the codes let expect.
need "$SAMPLES/tiny-llama"
for recipe in mxfp8 current channelwise blockwise; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --recipe $recipe --quiet
	"$FP8CONV" inspect out | awk -F '\t' -v r=$recipe '$7 { print r, $7 }' | sort | uniq -c
	"$FP8CONV" verify out --source "$SAMPLES/tiny-llama" --json >j
	"$FP8CONV" inspect out --stats --json >i
	python3 - <<'END'
import json
real = {w["tensor"]: w["sqnr_db"] for w in json.load(open("j"))["weights"]}
for t in json.load(open("i"))["tensors"]:
    if t["scale"] and abs(t["stats"]["expected_sqnr_db"] - real[t["name"]]) > 0.4:
        print(t["name"], real[t["name"]], t["stats"])
END
	rm -rf out
done

mkdir next
cd next
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

#1> a.weight	F8_E4M3	multiplies F32 128x128	224	0.25	0.5	1	33.22
#1> a.weight_scale_inv	F32		0.5				
#1> b.weight	F8_E5M2	multiplies F32 128x128	0	1	1	0	
#1> b.weight_scale_inv	F32		1				
#1> c.weight	BF16		3				
#1> d	I64						
#1> e.weight	F32		inf				
#1> tensor              amax  min scale  max scale  saturated  est. SQNR
#1> a.weight             224       0.25        0.5    0.003 %   33.22 dB
#1> a.weight_scale_inv   0.5
#1> b.weight               0          1          1    0.000 %
#1> b.weight_scale_inv     1
#1> c.weight               3
#1> d
#1> e.weight             inf
#1>
#1> FP8: recipe blockwise, format hf, scales float
#1> 7 tensors, 65.6 kB, in 1 file
#1> 65542 parameters, 8.00 bits each
#1> 1  I64          8 B
#1> 3  F32         24 B
#1> 1  BF16         6 B
#1> 1  F8_E4M3  32.8 kB
#1> 1  F8_E5M2  32.8 kB
#1> a.weight            F8_E4M3  [128, 256]  32.8 kB  multiplies F32 128x128
#1> a.weight_scale_inv  F32      [1, 2]          8 B
#1> b.weight            F8_E5M2  [128, 256]  32.8 kB  multiplies F32 128x128
#1> b.weight_scale_inv  F32      [1, 2]          8 B
#1> c.weight            BF16     [3]             6 B
#1> d                   I64      [1]             8 B
#1> e.weight            F32      [2]             8 B
#1>
#1> FP8: recipe blockwise, format hf, scales float
#1> 7 tensors, 65.6 kB, in 1 file
#1> 65542 parameters, 8.00 bits each
#1> 1  I64          8 B
#1> 3  F32         24 B
#1> 1  BF16         6 B
#1> 1  F8_E4M3  32.8 kB
#1> 1  F8_E5M2  32.8 kB
#1>      28 mxfp8 multiplies E8M0 1x32
#1>       8 current multiplies F32 128x128
#1>       8 current multiplies F32 128x256
#1>      12 current multiplies F32 256x128
#1>      20 channelwise multiplies F32 1x128
#1>       8 channelwise multiplies F32 1x256
#1>      28 blockwise multiplies F32 128x128
