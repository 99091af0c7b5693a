#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Nothing is wrong with what quantize wrote, by itself and against the model; the arithmetic has its name.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
python3 "$CLI/amax.py" make "$model" s.amax
"$FP8CONV" formats | while read -r format recipe engines; do
	calibration=
	[ "$recipe" = delayed ] && calibration="--calibration s.amax"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize "$model" -o out --recipe "$recipe" --format "$format" $calibration || continue
	"$FP8CONV" verify out
	"$FP8CONV" verify out --source "$model" --json >j
	json j "j['ok'] and not j['problems'] and j['recipe'] == '$recipe' and j['format'] == '$format'" \
		"j['arithmetic'] == {'blockwise': 'power of two', 'mxfp8': 'mx round up'}.get('$recipe', 'te')" \
		'len(j["weights"]) == 26 and all(30 < w["sqnr_db"] < 33 for w in j["weights"])'
	rm -rf out
done

#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
