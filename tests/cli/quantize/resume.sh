#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What is missing is made again, what is there is left alone.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
shard=model-00002-of-00002.safetensors
"$FP8CONV" quantize "$model" -o wanted
cp -a wanted out
rm out/config.json out/$shard
before=$(stat -c '%i %Y' out/model-00001-of-00002.safetensors)
"$FP8CONV" quantize "$model" -o out
same wanted out
[ "$before" = "$(stat -c '%i %Y' out/model-00001-of-00002.safetensors)" ] || echo "a finished file was written again"
# A file that was cut short since is not taken for finished.
truncate -s -1 out/$shard
rm out/config.json
"$FP8CONV" quantize "$model" -o out
same wanted out
# Without its record it is somebody else's.
rm out/fp8conv-manifest.json
snapshot out >before
fails 2 " quantize: *'out'*--restart*" quantize "$model" -o out
snapshot out | diff before -
"$FP8CONV" quantize "$model" -o out --restart
same wanted out

mkdir next
cd next
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
