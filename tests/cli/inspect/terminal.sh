#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-moe"
python3 "$CLI/terminal.py" "$FP8CONV" inspect "$SAMPLES/tiny-moe/fused" >t
sed -n 1,3p t
grep 'layers.0.mlp.gate.weight\|layers.0.mlp.experts.gate_up' t

#1> not FP8
#1> 24 tensors, 921 kB, in 1 file
#1> 460288 parameters, 16.00 bits each
#1> model.layers.0.mlp.experts.gate_up_proj         BF16  [3, 256, 128]   197 kB
#1> model.layers.0.mlp.gate.weight                  BF16  [3, 128]         768 B
