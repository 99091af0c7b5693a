#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every recipe in every format that can say it, on the trained model: quality, configuration, tokenizer.
need "$SAMPLES/tiny-llama/config.json"
model=$SAMPLES/tiny-llama
python3 "$CLI/amax.py" make "$model" s.amax
"$FP8CONV" formats | while read -r format recipe engines; do
	calibration=
	[ "$recipe" = delayed ] && calibration="--calibration s.amax"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize "$model" -o out --recipe "$recipe" --format "$format" $calibration --json >j || continue
	json j '30 < j["worst"]["sqnr_db"] < 34' 'j["tensors"]["quantized"] == 28' 'j["saturated"] == j["nonfinite"] == 0'
	for file in "$model"/tokenizer*.json "$model"/generation_config.json; do
		[ ! -e "$file" ] || cmp "$file" "out/${file##*/}"
	done
	python3 - out "$format" <<'END'
import json, sys
config = json.load(open(sys.argv[1] + "/config.json"))["quantization_config"]
method = config["quant_method"]
if method not in {"hf": ("fp8", "mxfp8"), "compressed-tensors": ("compressed-tensors",), "modelopt": ("modelopt",)}[sys.argv[2]]:
    print(sys.argv[2], method)
END
	rm -rf out
done

#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
