#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# An output against its low-bit source: every code by its arithmetic, and as many inexact values as `quantize` counted.
check() {
	python3 "$CLI/low_bit.py" "$2" "$1" in
	"$FP8CONV" quantize in -o out --recipe "$3" --requantize --quiet --json >made
	"$FP8CONV" verify out --source in --json >j
	python3 - "$@" <<-'END'
		import json, sys
		made, j = (json.load(open(name)) for name in ("made", "j"))
		counts = [{key: value for key, value in o["low_bit"].items() if key != "first"} for o in (made, j)]
		if not j["ok"] or counts[0] != counts[1] or (j["low_bit"]["first"] is None) != (counts[0]["changed"] == 0):
		    print(sys.argv[1:], counts, j["problems"][:3])
	END
}
for packing in $(python3 "$CLI/low_bit.py" packings); do
	check "$packing" finite blockwise
	rm -rf in out
done
check ct-mxfp4 wide blockwise
rm -rf in out
# Scales that are far above 1 multiply, here as there.
check ct-mxfp4 high blockwise
rm out/fp8conv-manifest.json
"$FP8CONV" verify out
rm -rf in out
check ct-nvfp4 finite current
rm -rf in out

# A code that is changed, and another source.
check gpt-oss finite mxfp8
rm out/fp8conv-manifest.json
python3 "$CLI/checkpoint.py" flip out/model.safetensors model.layers.0.mlp.experts.1.up_proj.weight 7
"$FP8CONV" verify out --source in --json >j
[ $? = 1 ] || echo "a changed code is not found"
json j '[(p["kind"], p["tensor"]) for p in j["problems"]] == [("code-mismatch", "model.layers.0.mlp.experts.1.up_proj.weight")]' \
	'j["low_bit"]["changed"] == 1' 'j["low_bit"]["first"] == "model.layers.0.mlp.experts.1.up_proj.weight"'
