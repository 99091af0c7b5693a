#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The scales of an FP8 source mean the same in each type that holds them: values that F16 and BF16 hold exactly.
need "python3()"
python3 - <<'EOF'
import json, struct
scales = [2.0 ** (i % 9 - 4) * (1 + i % 3 / 4) for i in range(128)]
codes = bytes((7 * i % 127) | (i % 2 << 7) for i in range(128 * 128))
for dtype, pack in (("F32", "<f"), ("F16", "<e"), ("BF16", "<f")):
    data = b"".join(struct.pack(pack, s)[-2 if dtype == "BF16" else 0:] for s in scales)
    header = json.dumps({"up_proj.weight_scale": {"dtype": dtype, "shape": [128, 1], "data_offsets": [0, len(data)]},
                         "up_proj.weight": {"dtype": "F8_E4M3", "shape": [128, 128],
                                            "data_offsets": [len(data), len(data) + len(codes)]}}).encode()
    with open(dtype + ".safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + data + codes)
EOF
for dtype in F32 F16 BF16; do
	"$FP8CONV" quantize $dtype.safetensors -o out-$dtype.safetensors --requantize
done
cmp out-F32.safetensors out-F16.safetensors
cmp out-F32.safetensors out-BF16.safetensors
