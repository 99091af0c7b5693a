#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make demo`: builds, with a line a second, then does the whole job on a small, really trained model.
#
# demo.sh ARGUMENT...: the arguments of `make all`.  FP8CONV: the program that it makes.
set -eu
cd "$(dirname "$0")/.."
model=sample_checkpoints/tiny-llama
out=build/demo
log=build/demo.log
rm -rf "$out"
mkdir -p "$out"

# Commands are bold on a terminal, where a line of the build is written over the one before.
bold='' plain='' end='\n'
[ ! -t 1 ] || bold=$(printf '\033[1m') plain=$(printf '\033[0m') end='\r'

build() {
	total=$(make -n all "$@" 2>"$log" | grep -cE 'echo "  (CC|NVCC) ' || true)
	make all "$@" >"$log" 2>&1 &
	job=$!
	trap 'kill "$job" 2>/dev/null; exit 130' INT TERM
	while kill -0 "$job" 2>/dev/null; do
		[ "$total" -eq 0 ] || printf "building: %s of %s files$end" "$(grep -cE '^  (CC|NVCC)' "$log")" "$total"
		sleep 1
	done
	trap - INT TERM
	wait "$job" || {
		tail -n 30 "$log"
		exit 1
	}
	printf 'built %s\n' "$FP8CONV"
}

# Prints a command as it can be typed, on lines of 80 columns.
show() {
	printf '\n%s' "$bold"
	echo "$ $*" | fold -s -w 74 | sed '$!s/$/\\/; 1!s/^/    /'
	printf '%s' "$plain"
}

say() {
	show "$@"
	"$@"
}

build "$@"
say "$FP8CONV" quantize "$model" -o "$out/fp8" --target vllm --verbose
show "$FP8CONV" inspect "$out/fp8" "| cut -f 1-3 | grep layers.0.self_attn.q_proj"
"$FP8CONV" inspect "$out/fp8" | cut -f 1-3 | grep layers.0.self_attn.q_proj
say "$FP8CONV" verify "$out/fp8" --source "$model" --target vllm

# Any text does to compare an output with its source.
cp README.md "$out/text.txt"
show "$FP8CONV" eval "$out/fp8" --source "$model" --data "$out/text.txt" --json --verbose ">" "$out/eval.json"
"$FP8CONV" eval "$out/fp8" --source "$model" --data "$out/text.txt" --json --verbose >"$out/eval.json"
say "$FP8CONV" report "$out/fp8" --source "$model" --eval "$out/eval.json" -o "$out/fp8" --verbose
printf '\nOpen %s in a browser.\n' "$out/fp8/report.html"
echo 'The next step with a model of your own: vllm serve OUT'
