#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Experts come out one by one, however they went in.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o a
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o b
python3 "$CLI/checkpoint.py" list a >a.list
python3 "$CLI/checkpoint.py" list b | diff a.list -
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused-transposed" -o c
python3 "$CLI/checkpoint.py" list c | grep 'experts.*weight	' | cut -f 1-3

#1> language_model.model.layers.1.feed_forward.experts.0.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.0.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.0.up_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.1.up_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.down_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.gate_proj.weight	F8_E4M3	128x128
#1> language_model.model.layers.1.feed_forward.experts.2.up_proj.weight	F8_E4M3	128x128
