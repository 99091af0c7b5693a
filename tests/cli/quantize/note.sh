#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Where most had to be kept, a note says so: on standard error, once, and not with --quiet.
python3 "$CLI/checkpoint.py" make in.safetensors \
	model.layers.0.self_attn.o_proj.weight=BF16:96x96 model.layers.0.mlp.down_proj.weight=BF16:96x96 \
	model.layers.1.self_attn.o_proj.weight=BF16:96x96 model.layers.1.mlp.down_proj.weight=BF16:128x128
"$FP8CONV" quantize in.safetensors -o a.safetensors 2>err
[ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: note: .*3 of .*4 ' err || cat err
"$FP8CONV" quantize in.safetensors -o b.safetensors --quiet
"$FP8CONV" quantize in.safetensors -o c.safetensors --dry-run --json >j 2>err
[ "$(wc -l <err)" -eq 1 ] || cat err
json j 'j["totals"]["quantized"] == 1'
# Where nothing is left to quantize it is an error.
fails 2 " quantize: nothing to quantize*" quantize in.safetensors -o d.safetensors --exclude 1.mlp
