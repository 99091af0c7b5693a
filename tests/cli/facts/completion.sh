#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
for shell in bash zsh fish; do
	"$FP8CONV" completion $shell >c.$shell || echo "$shell: $?"
	for word in quantize inspect recipes formats families version preserve-high-precision mxfp8 compressed-tensors saturate; do
		grep -q -- "$word" c.$shell || echo "$shell does not know $word"
	done
	command -v $shell >/dev/null || continue
	$shell -n c.$shell || echo "$shell: $?"
done
fails 2 " completion: shell 'tcsh' is not one of bash|zsh|fish" completion tcsh
fails 2 " completion: SHELL is missing (fp8conv completion bash|zsh|fish)" completion
# Where '=' is no word break of bash, the option comes with its value.
bash -c '
. ./c.bash
COMP_WORDS=(fp8conv quantize --recipe=bl) COMP_CWORD=2
_fp8conv fp8conv --recipe=bl quantize
echo "${COMPREPLY[*]}"'

#1> --recipe=blockwise
