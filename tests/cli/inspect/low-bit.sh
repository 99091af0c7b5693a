#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
