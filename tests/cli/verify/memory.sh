#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Less memory finds the same; too little is said before anything is read.
need "$SAMPLES/tiny-llama"
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
"$FP8CONV" quantize model -o out
size=$(stat -c %s model/model.safetensors)
printf '\001\002\003' | dd of=model/model.safetensors bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
"$FP8CONV" verify out --source model --json >wanted
for memory in 1M 2M 64M; do
	"$FP8CONV" verify out --source model --json --max-memory $memory --threads 2 >j
	diff wanted j
done
json wanted 'len(j["problems"]) > 0'
fails 2 " verify: option '--max-memory' leaves 51200 bytes for each thread, but a row of tiles of 'model.layers.0.mlp.down_proj.weight' needs 360448: increase --max-memory or reduce --threads" \
	verify out --source model --max-memory 100K --threads 2
"$FP8CONV" verify out --max-memory 200K --threads 2
