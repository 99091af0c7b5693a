#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# One line for each problem, exit status 1; against another model, codes, scales and copies differ.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out || exit 1
sed -i 's/"activation_scheme": "dynamic"/"activation_scheme": "maybe"/' out/config.json
sed -i 's/"total_size": /"total_size": 1/' out/model.safetensors.index.json
"$FP8CONV" verify out >lines
echo "status $?, $(wc -l <lines) lines"
cut -d: -f1,2 lines
"$FP8CONV" verify out --json >j
json j 'not j["ok"]' '{p["kind"] for p in j["problems"]} == {"config-key", "index-total-size"}' 'j["weights"] == []'
cp -r "$model" other
printf 'x' | dd of=other/model-00001-of-00002.safetensors bs=1 seek=200000 conv=notrunc 2>/dev/null
"$FP8CONV" verify out --source other --json >j
echo "status $?"
json j '{p["kind"] for p in j["problems"]} - {"config-key", "index-total-size"} <= {"code-mismatch", "scale-mismatch", "tensor-changed"}' \
	'len(j["problems"]) >= 3'

#1> status 1, 2 lines
#1> model.safetensors.index.json: index-total-size
#1> config.json: config-key
#1> status 1
