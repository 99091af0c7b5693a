#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Weights whose scale is 1 by an amax of 448: below 2^-10 they become zero, at 2^-10, a tie, too.
python3 - <<'END'
import math
import random
import struct
import checkpoint
small = [2 ** -11, -2 ** -10, 2 ** -10 * 1.25, 0, -0.0, 448, 300, -1.03125]
values = [v for v in small for _ in range(128 * 128 // 8)]
checkpoint.write("model.safetensors", {"model.layers.0.mlp.down_proj.weight": ("BF16", [128, 128], checkpoint.pack("BF16", values)),
                                       "model.norm.weight": ("BF16", [128], bytes(256))})
def histogram(counts):
    bins = [[0, 0] for _ in range(2048)]
    for value, n in counts:
        bins[struct.unpack("<I", struct.pack("<f", value))[0] >> 20][0] += n
    return ("U64", [2048, 2], struct.pack("<4096Q", *(n for pair in bins for n in pair)))
def history(path, counts, most):
    checkpoint.write(path, {"a.histogram": histogram(counts), "a.tokens": ("I64", [1], struct.pack("<q", 4)),
                            "a.amax_history": ("F32", [1, 3], struct.pack("<3f", most, 1, 1))},
                     {"format": "pt", "fp8conv_amax": "1", "model": "0" * 32, "data": "0" * 32, "tokens": "4", "seq_len": "4",
                      "precision": "f32", "backend": "cpu", "tool": "test", "passes": "1", "amax_history_len": "1024"}, 8)
history("s.amax", [(2 ** -11, 100), (0, 300), (440, 500), (448, 100)], 448)
history("inf.amax", [(1, 100)], math.inf)
END
"$FP8CONV" inspect model.safetensors --stats --recipe current >out || exit
# 300 becomes 288, 1.03125 becomes 1, and 1.25 * 2^-10 the least code, 2^-9.
python3 - <<'END'
import math
name, n, underflow, overflow, sqnr = open("out").read().rstrip("\n").split("\t")
signal = 2 ** -22 + 2 ** -20 + (2 ** -10 * 1.25) ** 2 + 448 ** 2 + 300 ** 2 + 1.03125 ** 2
noise = 2 ** -22 + 2 ** -20 + (2 ** -10 * 0.75) ** 2 + 12 ** 2 + 0.03125 ** 2
print(name, n, underflow, overflow, abs(float(sqnr) - 10 * math.log10(signal / noise)) < 1e-6)
END
"$FP8CONV" inspect model.safetensors --stats --recipe current --json >j
json j '(j["kind"], j["loss_recipe"], len(j["losses"]), j["losses"][0]["underflow_percent"]) == ("checkpoint", "current", 1, 25)' \
	'[t["stats"]["amax"] for t in j["tensors"]] == [448, 0]'
"$FP8CONV" inspect s.amax --recipe delayed | cut -f 1-4
# The upper edge of the bin of 2^-11, below which 400 of 1000 lie, has the largest code: all else is beyond it.
"$FP8CONV" inspect s.amax --recipe delayed --amax-algo percentile=40 | cut -f 1-4
"$FP8CONV" inspect s.amax --recipe current --json >j
json j '(j["kind"], j["loss_recipe"], j["losses"][0]["underflow_percent"], len(j["sites"])) == ("amax", "current", 10, 1)'
# 418, 422 .. 446 stand for the 500; they are 2, 6, 10, 14, 14 .. 2 from 416 or 448: 84 is the mean of the squares.
python3 "$CLI/terminal.py" "$FP8CONV" inspect s.amax --recipe current

for arguments in "model.safetensors --recipe current" "- --stats --recipe current" "model.safetensors --stats --recipe delayed" \
	"model.safetensors --stats --amax-algo max" "model.safetensors --stats --recipe current --amax-algo max" \
	"s.amax --recipe blockwise" "s.amax --amax-algo max" "s.amax --recipe delayed --amax-algo least" \
	"inf.amax --recipe delayed" "$SAMPLES/amax/tiny-llama-1.amax --recipe delayed"; do
	# shellcheck disable=SC2086
	"$FP8CONV" inspect $arguments <model.safetensors 2>&1 | sed "s,$SAMPLES,SAMPLES,"
done

# Blocks at the edges are partial, as with quantize --ragged.
python3 - <<'END'
import checkpoint
checkpoint.write("ragged.safetensors", {"model.layers.0.mlp.up_proj.weight": ("BF16", [200, 136], checkpoint.pack("BF16", [1.03125] * 200 * 136))})
END
"$FP8CONV" inspect ragged.safetensors --stats --recipe blockwise | cut -f 1-4
"$FP8CONV" inspect ragged.safetensors --stats --recipe mxfp8
#1> model.layers.0.mlp.down_proj.weight 16384 25 0 True
#1> a	1000	10	0
#1> a	1000	0	60
#1> tensor  values  underflow  overflow      SQNR
#1> a         1000   10.000 %   0.000 %  34.31 dB
#1> fp8conv inspect: option '--recipe' of a model requires '--stats', which reads all values
#1> fp8conv inspect: option '--recipe' reads the model twice: give its path, not '-'
#1> fp8conv inspect: option '--recipe': 'delayed' rounds weights as 'current' does: take that, or give an amax history, whose inputs it rounds
#1> fp8conv inspect: option '--amax-algo' requires '--recipe' and an amax history
#1> fp8conv inspect: option '--amax-algo' requires '--recipe' and an amax history
#1> fp8conv inspect: option '--recipe': 'blockwise' has scales of parts of an input, and a histogram has only its values: take current or delayed
#1> fp8conv inspect: option '--amax-algo' requires '--recipe' and an amax history
#1> fp8conv inspect: option '--amax-algo': 'least' is not max, most-recent, mse or percentile=P with P above 0 and up to 100, of at most 6 decimals
#1> fp8conv inspect: amax of x of module 'a' in 'inf.amax' is infinite: it overflowed in the forward pass
#1> fp8conv inspect: option '--recipe' needs histograms, and module 'model.layers.0.mlp.down_proj' in 'SAMPLES/amax/tiny-llama-1.amax' has none: calibrate with --histogram
#1> model.layers.0.mlp.up_proj.weight	27200	0	0
#2> fp8conv inspect: nothing to quantize: the only tensor, 'model.layers.0.mlp.up_proj.weight', is kept: 136 columns are not a multiple of 32; --recipe channelwise accepts any shape
#exit 2
