#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# GPT-OSS multiplies gate and up of an expert as one matrix, so that a history has one amax for both: it stands for each,
# as they share input and scale.  Of experts that are tensors of their own it does not.
need "$SAMPLES/tiny-moe"
python3 "$CLI/amax.py" make "$SAMPLES/tiny-moe/fused" apart.amax passes=3
cat >join.py <<'END'
import struct, sys
import amax
metadata, tensors = amax.read(sys.argv[1])
together = {}
for name, (dtype, shape, data) in tensors.items():
    to = name.replace("gate_proj", "gate_up_proj").replace(".up_proj", ".gate_up_proj")
    if to in together and dtype == "F32":
        pairs = zip(*(struct.unpack(f"<{len(d) // 4}f", d) for d in (data, together[to][2])))
        data = struct.pack(f"<{len(data) // 4}f", *map(max, pairs))
    together[to] = (dtype, shape, data)
if len(tensors) - len(together) < 4:
    print("no gate and up to join")
amax.write(sys.argv[2], metadata, together)
END
python3 join.py apart.amax together.amax
for recipe in delayed current; do
	for history in apart together; do
		"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o $recipe-$history --recipe $recipe --calibration $history.amax
	done
	same $recipe-apart $recipe-together
done
python3 "$CLI/amax.py" make "$SAMPLES/tiny-moe/per-expert" apart.amax passes=3
python3 join.py apart.amax together.amax
fails 3 " quantize: module 'model.layers.0.mlp.experts.0.gate_proj' is not in 'together.amax': the calibration did not cover it" \
	quantize "$SAMPLES/tiny-moe/per-expert" -o x --recipe delayed --calibration together.amax
