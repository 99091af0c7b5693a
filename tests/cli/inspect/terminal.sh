#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-moe"
python3 "$CLI/terminal.py" "$FP8CONV" inspect "$SAMPLES/tiny-moe/fused" >t
sed -n 1,3p t
grep 'layers.0.mlp.gate.weight\|layers.0.mlp.experts.gate_up' t
