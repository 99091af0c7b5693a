#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Experts that stay in one tensor have one scale of inputs: of the largest input of any of them, in any pass.
need "python3()"
python3 "$CLI/tiny.py" make step3p5 model
python3 "$CLI/tiny.py" ids 40 7 33 40 >ids.jsonl
"$FP8CONV" calibrate model --data ids.jsonl --seq-len 40 --histogram --quiet -o s.amax
"$FP8CONV" quantize model -o out --recipe delayed --calibration s.amax --uncovered group-max --quiet
"$FP8CONV" quantize model -o most --recipe delayed --calibration s.amax --amax-algo percentile=100 --uncovered group-max --quiet
python3 - <<'END'
import re
from checkpoint import read, unpack


def values(path):
    return {name: unpack(dtype, data) for name, (dtype, _, data) in read(path).items() if dtype == "F32"}


sites = {name.removesuffix(".amax_history"): row for name, row in values("s.amax").items() if name.endswith(".amax_history")}
for folder in ("out", "most"):
    scales = {name: row[0] for name, row in values(folder).items() if ".moe." in name and name.endswith("input_scale")}
    for name, scale in scales.items():
        stack, part = re.fullmatch(r"(.*\.moe)\.(\w+)\.input_scale", name).groups()
        found = [row[0::3] for site, row in sites.items() if re.fullmatch(rf"{re.escape(stack)}\.experts\.\d+\.{part}", site)]
        wanted = max(map(max, found)) / 448
        if not found or abs(scale / wanted - 1) > (1e-6 if folder == "out" else 0.07):
            print(folder, name, scale, wanted, len(found))
    print(folder, len(scales))
END

#1> out 9
#1> most 9
