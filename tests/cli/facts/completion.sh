#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
for shell in bash zsh fish; do
	"$FP8CONV" completion $shell >c.$shell || echo "$shell: $?"
	command -v $shell >/dev/null || continue
	$shell -n c.$shell || echo "$shell: $?"
done
# What the program answers them, whatever the shell.
asked() {
	word=$1
	shift
	"$FP8CONV" completion words "$@" | cut -f 1 | grep -qx -- "$word" || echo "$word is not offered after: $*"
}
for word in help quantize inspect recipes formats families version; do
	asked $word ''
done
asked inspect help ''
asked --preserve-high-precision quantize --p
asked mxfp8 quantize --recipe ''
asked --recipe=mxfp8 quantize --recipe=
asked compressed-tensors repack --format = ''
asked saturate quantize --on-nonfinite =
asked : quantize ''
asked : quantize -o ''
asked : quantize --tensor a = ''
asked :.amax quantize --calibration ''
asked :.amax merge ''
asked :.json sensitivity --from ''
for line in 'version ' 'quantize --tp ' 'help inspect ' 'unknown ' 'completion '; do
	"$FP8CONV" completion words ${line% } ''
done
fails 2 " completion: shell 'tcsh' is not one of bash|zsh|fish" completion tcsh
fails 2 " completion: SHELL is missing (fp8conv completion bash|zsh|fish)" completion
# Where '=' is no word break of bash, the option comes with its value.
PATH=$(dirname "$FP8CONV"):$PATH bash -c '
. ./c.bash
COMP_WORDS=(fp8conv quantize --recipe=bl) COMP_CWORD=2
_fp8conv fp8conv --recipe=bl quantize
echo "${COMPREPLY[*]}"'

#1> --recipe=blockwise
