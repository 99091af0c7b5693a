#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A finished job does nothing when it is run again, and reports what its files hold: the figures of the run that made them.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
figures() {
	python3 -c 'import json, sys; j = json.load(sys.stdin); print(j["saturated"], j["nonfinite"], j["worst"])' <"$1"
}
"$FP8CONV" quantize "$model" -o out --json >first
figures first >figures
snapshot out >before
"$FP8CONV" quantize "$model" -o out --json >second
"$FP8CONV" quantize "$model" -o out --threads 1 --backend reference --max-memory 64M
snapshot out | diff before -
json first '28 < j["worst"]["sqnr_db"] < 35'
json second 'j["tensors"] == {"quantized": 26, "kept": 12}'
figures second | diff figures -
# So does a job that makes one of its files again, whichever that is.
for shard in 1 2; do
	rm out/model-0000$shard-of-00002.safetensors
	"$FP8CONV" quantize "$model" -o out --json >again
	figures again | diff figures -
done
# Where a record has no figures, none are claimed.
sed -i '/"saturated"/d' out/fp8conv-manifest.json
"$FP8CONV" quantize "$model" -o out --json >unknown
json unknown 'j["saturated"] is None and j["nonfinite"] is None'
"$FP8CONV" quantize "$model" -o out --verbose 2>&1 | grep saturated || :
