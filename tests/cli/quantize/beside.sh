#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# An output below the model is no auxiliary file of it; a stream into a folder becomes a model.
need "$SAMPLES/tiny-moe"
cp -r "$SAMPLES/tiny-moe/fused" m
"$FP8CONV" quantize m -o m/fp8
"$FP8CONV" quantize m -o m/mx --recipe mxfp8
find m/fp8 m/mx -mindepth 1 -type d
cat m/model.safetensors | "$FP8CONV" quantize - -o streamed
cmp streamed/model.safetensors m/fp8/model.safetensors
fails 2 " quantize: option '--manifest' requires files as input, not '-'" quantize - -o other --manifest <m/model.safetensors
