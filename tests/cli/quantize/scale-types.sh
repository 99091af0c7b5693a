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
