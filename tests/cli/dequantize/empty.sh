#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Weights without elements, of whatever sides, stay without.
python3 - <<'END'
import json
header, at = {}, 0
for name, shape in (("a", [5, 0]), ("b", [0, 5]), ("c", [1 << 30, 1 << 30, 0]), ("d", [0, 1 << 40, 1 << 40]), ("e", [2, 1])):
    n = 2 if name == "e" else 0
    header[f"{name}.weight"] = {"dtype": "F8_E4M3", "shape": shape, "data_offsets": [at, at + n]}
    header[f"{name}.weight_scale"] = {"dtype": "F32", "shape": [1], "data_offsets": [at + n, at + n + 4]}
    at += n + 4
text = json.dumps(header).encode()
open("in.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + bytes(at))
END
"$FP8CONV" dequantize in.safetensors -o out.safetensors
python3 "$CLI/checkpoint.py" list out.safetensors | cut -f 1-3 >found
printf '%s\tBF16\t%s\n' a.weight 5x0 b.weight 0x5 c.weight 1073741824x1073741824x0 \
	d.weight 0x1099511627776x1099511627776 e.weight 2x1 | diff - found
