#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every way to ask gives the same text, and every command that is listed has one.
commands=$("$FP8CONV" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
[ "$(echo $commands)" = "calibrate merge sensitivity dequantize quantize repack eval inspect report verify families formats recipes version" ] || echo "listed are: $commands"
for command in $commands; do
	"$FP8CONV" help "$command" >a || echo "help $command: $?"
	"$FP8CONV" "$command" --help >b || echo "$command --help: $?"
	"$FP8CONV" "$command" -h >c || echo "$command -h: $?"
	cmp a b
	cmp a c
	head -n 1 a | grep -q "^Usage: fp8conv $command \[OPTION...\]" || head -n 1 a
	grep -q '^  -h, --help' a || echo "$command: no --help"
	[ "$(wc -L <a)" -le 100 ] || echo "$command: wider than 100"
done
# Help wins over what stands behind it, and not over what stands in front.
"$FP8CONV" quantize --help --frobnicate >/dev/null
fails 2 " quantize: unknown option '--frobnicate' (see 'fp8conv quantize --help')" quantize --frobnicate --help
