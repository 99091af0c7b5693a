#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Codes that differ are read again by the rules of the other arithmetics: the total grows with them.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out || exit 1
"$FP8CONV" verify out --source "$model" --progress=json 2>same
rm out/fp8conv-manifest.json
python3 - <<'END'
import checkpoint
file = "out/model-00001-of-00002.safetensors"
name = next(name for name, (dtype, _, _) in checkpoint.read(file).items() if dtype == "F8_E4M3")
for byte in 0, 1:
    checkpoint.flip(file, name, byte)
END
"$FP8CONV" verify out --source "$model" --progress=json 2>differ >problems
echo "status $?, $(grep -c code-mismatch problems) of $(wc -l <problems) problems"
python3 - <<'END'
import json

same, differ = ([json.loads(line) for line in open(name)] for name in ("same", "differ"))
for line in same + differ:
    if line["done"] > line["total"]:
        print("past its total:", line)
if differ[-1]["done"] != differ[-1]["total"] or differ[-1]["total"] <= same[-1]["total"]:
    print("at the end:", same[-1], differ[-1])
END

#1> status 1, 1 of 1 problems
