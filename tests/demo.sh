#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make demo`: the main job on a small, really trained model.
set -eu
cd "$(dirname "$0")/.."
model=sample_checkpoints/tiny-llama
out=build/demo
rm -rf "$out"
mkdir -p "$out"

# Commands are bold on a terminal.
bold= plain=
[ ! -t 1 ] || bold=$(printf '\033[1m') plain=$(printf '\033[0m')

say() {
	printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
	"$@"
}

# show COMMAND...: of its output, the weight of one module and its scale.
show() {
	printf '\n%s$ %s | grep layers.0.self_attn.q_proj%s\n' "$bold" "$*" "$plain"
	"$@" | grep layers.0.self_attn.q_proj
}

say "$FP8CONV" quantize "$model" --dry-run
for recipe in blockwise channelwise mxfp8; do
	say "$FP8CONV" quantize "$model" -o "$out/$recipe" --recipe "$recipe" --verbose
	show "$FP8CONV" inspect "$out/$recipe"
done
printf '\nThe FP8 checkpoints lie in %s.\n' "$out"
