#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Another job in the same place is refused until --restart, and what is there stays as it was.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out
"$FP8CONV" quantize "$model" -o wanted --recipe mxfp8
snapshot out >before
for options in '--recipe mxfp8' '--scale-fmt float' '--tensor layers.0=skip' '--exclude k_proj' '--format compressed-tensors' \
	'--fp8-format e5m2' '--margin 1' '--on-nonfinite saturate'; do
	case $options in *margin*) options="$options --scale-fmt float" ;; esac
	# shellcheck disable=SC2086
	fails 2 " quantize: *'out*" quantize "$model" -o out $options
done
fails 2 " quantize: *'out*" quantize "$SAMPLES/tiny-moe/fused" -o out
snapshot out | diff before -
"$FP8CONV" quantize "$model" -o out --recipe mxfp8 --restart
same wanted out
# With it too, weights of another job that this one would not replace are refused: engines would load them.
snapshot out >before
fails 2 " quantize: 'out' contains 'model-00001-of-00002.safetensors' from another job: remove it, or choose another output" \
	quantize "$SAMPLES/tiny-moe/fused" -o out --restart
snapshot out | diff before -

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
