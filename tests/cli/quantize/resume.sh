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
