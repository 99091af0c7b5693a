#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A source that lacks a tensor is converted, and a note names it; a dry run says the same.
python3 "$CLI/tiny.py" make llama m
python3 -c '
import checkpoint
tensors = checkpoint.read("m")
del tensors["model.layers.1.self_attn.o_proj.weight"]
checkpoint.write("m/model.safetensors", tensors)'
"$FP8CONV" quantize m -o out --recipe channelwise --dry-run >plan
"$FP8CONV" quantize m -o out --recipe channelwise

#2> fp8conv quantize: note: the source is incomplete: 'model.layers.1.self_attn.o_proj.weight' is missing, but 2 layers else like it, as 0, have it
#2> fp8conv quantize: note: the source is incomplete: 'model.layers.1.self_attn.o_proj.weight' is missing, but 2 layers else like it, as 0, have it
