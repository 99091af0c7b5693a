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
