#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Weights without elements, of whatever sides, stay without.
python3 - <<'END'
import checkpoint
tensors = {}
for name, shape in (("a", [5, 0]), ("b", [0, 5]), ("c", [1 << 30, 1 << 30, 0]), ("d", [0, 1 << 40, 1 << 40]), ("e", [2, 1])):
    tensors[f"{name}.weight"] = "F8_E4M3", shape, bytes(2 if name == "e" else 0)
    tensors[f"{name}.weight_scale"] = "F32", [1], bytes([0, 0, 128, 63])
checkpoint.write("in.safetensors", tensors)
END
"$FP8CONV" dequantize in.safetensors -o out.safetensors
python3 "$CLI/checkpoint.py" list out.safetensors | cut -f 1-3 >found
printf '%s\tBF16\t%s\n' a.weight 5x0 b.weight 0x5 c.weight 1073741824x1073741824x0 \
	d.weight 0x1099511627776x1099511627776 e.weight 2x1 | diff - found
