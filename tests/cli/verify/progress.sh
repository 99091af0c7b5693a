#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Codes that differ are read again by the rules of the other arithmetics: the total grows with them.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out || exit 1
"$FP8CONV" verify out --source "$model" --progress=json 2>same
python3 - out/model-00001-of-00002.safetensors <<'END'
import json
import sys

file = open(sys.argv[1], "r+b")
n = int.from_bytes(file.read(8), "little")
begin = next(t["data_offsets"][0] for t in json.loads(file.read(n)).values() if t.get("dtype") == "F8_E4M3")
for at in 8 + n + begin, 8 + n + begin + 1:
    file.seek(at)
    code = file.read(1)[0]
    file.seek(at)
    file.write(bytes([code ^ 1]))
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
