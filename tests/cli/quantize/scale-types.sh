#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The scales of an FP8 source mean the same in each type that holds them: values that F16 and BF16 hold exactly.
need "python3()"
python3 - <<'EOF'
import checkpoint
scales = [2.0 ** (i % 9 - 4) * (1 + i % 3 / 4) for i in range(128)]
codes = bytes((7 * i % 127) | (i % 2 << 7) for i in range(128 * 128))
for dtype in "F32", "F16", "BF16":
    checkpoint.write(dtype + ".safetensors", {"up_proj.weight_scale": (dtype, [128, 1], checkpoint.pack(dtype, scales)),
                                              "up_proj.weight": ("F8_E4M3", [128, 128], codes)})
EOF
for dtype in F32 F16 BF16; do
	"$FP8CONV" quantize $dtype.safetensors -o out-$dtype.safetensors --requantize
done
cmp out-F32.safetensors out-F16.safetensors
cmp out-F32.safetensors out-BF16.safetensors

mkdir next
cd next
# Which amax of the history counts, by the formulas; margins; the scales of weights and caches, which have no histogram.
need "$SAMPLES/tiny-llama"
amax() { python3 "$CLI/amax.py" "$@"; }
model=$SAMPLES/tiny-llama
amax make "$model" s.amax passes=3 histogram=1
for algo in max most-recent mse percentile=100 percentile=99 percentile=99.99999 percentile=50 percentile=0.000001; do
	"$FP8CONV" quantize "$model" -o out --recipe delayed --calibration s.amax --kv-cache --amax-algo $algo
	amax scales "$model" s.amax out algo=$algo
	"$FP8CONV" verify out --source "$model"
	"$FP8CONV" inspect out | cut -f 1 | grep -c _scale$ | grep -qx 64 || echo "$algo: not 64 scales"
	cksum <out/model.safetensors >>all
	rm -rf out
done
# They are not all the same; percentile=100 is max.
[ "$(sort -u all | wc -l)" -ge 6 ] || sort all
for margin in 0 2 7; do
	"$FP8CONV" quantize "$model" -o out --recipe delayed --calibration s.amax --margin $margin --kv-cache
	amax scales "$model" s.amax out margin=$margin
	"$FP8CONV" verify out --source "$model"
	rm -rf out
done
# `current` takes its weight scales from the weights, and the static ones of its inputs from the history.
"$FP8CONV" quantize "$model" -o out --recipe current --calibration s.amax --amax-algo most-recent
amax scales "$model" s.amax out algo=most-recent
"$FP8CONV" inspect out --json >j
json j 'j["recipe"] == "delayed"' 'sum(t["name"].endswith(".input_scale") for t in j["tensors"]) == 28'
# Scales of the cache alone, beside whatever the weights have.
"$FP8CONV" quantize "$model" -o kv --recipe channelwise --calibration s.amax --kv-cache
amax scales "$model" s.amax kv 2>/dev/null | grep -v weight_scale
"$FP8CONV" verify kv
"$FP8CONV" inspect kv | cut -f 1 | grep -c 'input_scale$'
exit 0

#1> 0
