#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A recipe that is given takes the place of the one detected: silence where it is the one, with its numbers; else each weight.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
check() {
	"$FP8CONV" quantize "$model" -o out "$@" || return
	"$FP8CONV" verify out --source "$model" "$@"
	rm -rf out
}
check --recipe blockwise
check --recipe blockwise --scale-fmt float --scale-arith deepseek
check --recipe blockwise --amax-epsilon 1 --margin 1
check --recipe mxfp8 --mx-scale floor
check --recipe mxfp8 --fp8-format e5m2
check --recipe current
check --recipe current --margin 2 --fp8-format e5m2
check --recipe channelwise --scale-arith deepgemm

"$FP8CONV" quantize "$model" -o out
wrong() {
	"$FP8CONV" verify out --source "$model" "$@" --json >j
	echo "$*: $?, $(python3 -c '
import collections, json
j = json.load(open("j"))
print(dict(sorted(collections.Counter(p["kind"] for p in j["problems"]).items())), len(j["weights"]), "weights")')"
}
wrong --recipe channelwise
wrong --recipe blockwise --fp8-format e5m2
wrong --recipe blockwise --scale-fmt float
wrong --recipe blockwise --amax-epsilon 100
"$FP8CONV" verify out --source "$model" --recipe channelwise >lines
head -n 1 lines

fails 2 " verify: option '--recipe' requires '--source'" verify out --recipe blockwise
fails 2 " verify: option '--margin' requires '--recipe' and '--source'" verify out --source "$model" --margin 2
fails 2 " verify: *unknown recipe 'blokwise' (did you mean 'blockwise'?)" verify out --source "$model" --recipe blokwise
fails 2 " verify: option '--mx-scale' does not apply to recipe 'blockwise'*" verify out --source "$model" --recipe blockwise --mx-scale up

mkdir next
cd next
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

#1> --recipe channelwise: 1, {'scale-mismatch': 28} 28 weights
#1> --recipe blockwise --fp8-format e5m2: 1, {'code-mismatch': 28} 28 weights
#1> --recipe blockwise --scale-fmt float: 1, {'code-mismatch': 28, 'scale-mismatch': 28} 28 weights
#1> --recipe blockwise --amax-epsilon 100: 1, {'code-mismatch': 28, 'scale-mismatch': 28} 28 weights
#1> model.safetensors: scale-mismatch: 'model.layers.0.mlp.down_proj.weight_scale_inv' is for tiles of 128 x 128, but recipe 'channelwise' has 1 x whole
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
