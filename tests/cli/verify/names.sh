#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names of scales: each engine looks for its own (fp8.py of vLLM 0.32 and SGLang 0.5.23, finegrained_fp8.py of transformers 5.24).
# SGLang's class of Llama renames transformers' names (llama.py), and so loads no scale of MXFP8: not-loaded.
. "$CLI/lib.sh"
need "$SAMPLES/tiny-llama"
source=$SAMPLES/tiny-llama
python3 "$CLI/amax.py" make "$source" a.amax

for recipe in current delayed mxfp8; do
	for made in any vllm transformers; do
		set -- --recipe $recipe --format hf
		[ $recipe != delayed ] || set -- "$@" --calibration a.amax
		[ $made = any ] || set -- "$@" --target $made
		"$FP8CONV" quantize "$source" -o out --restart -q "$@" 2>/dev/null || echo "quantize $*: $?"
		for target in vllm sglang transformers; do
			"$FP8CONV" verify out --target $target >said 2>&1
			echo "$recipe for $made in $target: $? $(grep -c scale-name said)"
			[ $made != any ] || grep scale-name said
		done
	done
done
