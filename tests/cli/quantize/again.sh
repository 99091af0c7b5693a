#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# --manifest: the SHA-256 of every file, as sha256sum has it.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --manifest
for file in "$SAMPLES"/tiny-moe/per-expert/*.safetensors out/*.safetensors out/config.json; do
	grep -q "$(sha256sum "$file" | cut -d ' ' -f 1)" out/fp8conv-manifest.json || echo "not the hash of $file"
done
snapshot out >before
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --manifest
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out
snapshot out | diff before -
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o plain
same plain out
fails 2 " quantize: *--manifest*" quantize "$SAMPLES/tiny-moe/fused" -o x.safetensors --manifest

mkdir next
cd next
# A finished job does nothing when it is run again.  What it did not measure it does not claim: figures of rounding are
# null unless one run wrote all files.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out --json >first
snapshot out >before
"$FP8CONV" quantize "$model" -o out --json >second
"$FP8CONV" quantize "$model" -o out --threads 1 --backend reference --max-memory 64M
snapshot out | diff before -
json first '28 < j["worst"]["sqnr_db"] < 35'
json second 'j["tensors"] == {"quantized": 26, "kept": 12}'
json first 'j["saturated"] == 0 and j["nonfinite"] == 0'
unknown='j["saturated"] is None and j["nonfinite"] is None and j["worst"] == {"tensor": None, "sqnr_db": None}'
json second "$unknown"
# Nor does a job that makes one of its files again, or a part.
rm out/model-00001-of-00002.safetensors
"$FP8CONV" quantize "$model" -o out --json >again
json again "$unknown"
"$FP8CONV" quantize "$model" -o parts --part 1/2 --json >part
json part "$unknown"
"$FP8CONV" quantize "$model" -o out --verbose 2>&1 | grep -E 'saturated|SQNR' || :

mkdir then
cd then
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
