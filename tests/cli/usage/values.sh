#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# value OPTION VALUE MESSAGE: the value must be refused so, before anything is read.
value() {
	fails 2 " quantize: option '$1': '$2' is $3" quantize in -o out "$1=$2"
	fails 2 " quantize: option '$1': '$2' is $3" quantize "$1" "$2" in -o out
}
threads='not a number from 1 to 1024'
for bad in 0 1025 -1 +1 1.0 1e5 1e 0x10 ' 1' '1 ' 1x '' one 99999999999999999999 18446744073709551617; do
	value --threads "$bad" "$threads"
	value --tp "$bad" "$threads"
done
size='not a size (bytes, or a number with K, M, G or T: 512M, 1.5G)'
for bad in 0 0K 0KB -1 16384T 1TBB 1B 1iB 1Ki 1KBB 1kib2 1.5 1,5G 0x10 0x1p4 inf nan .5G M '' ' 1M' '1 M' 1MM 17179869184G 18446744073709551616 99999999999999999999999; do
	value --max-memory "$bad" "$size"
	value --max-shard-size "$bad" "$size"
done
value --target vlm "not one of vllm, sglang, trtllm, transformers (did you mean 'vllm'?)"
value --target llama.cpp 'not one of vllm, sglang, trtllm, transformers'
value --target '' 'not one of vllm, sglang, trtllm, transformers'
value --target 'vllm|sglang' 'not one of vllm, sglang, trtllm, transformers'
value --fp8-format e3m4 "not one of e4m3, e5m2 (did you mean 'e4m3'?)"
value --scale-fmt ue8m1 "not one of ue8m0, float (did you mean 'ue8m0'?)"
value --scale-arith deepseak "not one of te, deepseek, deepgemm (did you mean 'deepseek'?)"
value --mx-scale floot "not one of up, floor, even (did you mean 'floor'?)"
value --on-nonfinite explode 'not one of error, saturate, skip'
value --on-nonfinite sturate "not one of error, saturate, skip (did you mean 'saturate'?)"
value --progress fast 'not one of auto, bar, json, none'
value --progress jsn "not one of auto, bar, json, none (did you mean 'json'?)"
for bad in abc =mxfp8 =skip abc= =; do
	value --tensor "$bad" 'not RE=RECIPE or RE=skip'
done
for bad in 0/2 3/2 1/0 1 1/ /2 1/2/3 -1/2 1/2x 1/1000001 end '' 'finish '; do
	value --part "$bad" "not I/N with I from 1 to N, 'auto' or 'finish'"
done
[ -z "$(ls)" ] || ls
# Sizes are binary, however they are written.
need "$SAMPLES/tiny-llama"
plan() {
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" --dry-run --json --threads 1 --max-memory "$1"
}
fails 2 " quantize: option '--output': '~/x' would be in a directory named '~', *: give '--output ~/x', or \$HOME" \
	quantize "$SAMPLES/tiny-llama" "--output=~/x"
plan 29360128 >bytes
plan 28672K | cmp - bytes
for size in 28M 28m 28MB 28mb 28MiB 28mib 0.02734375G 2.8e1M; do plan $size | cmp - bytes; done
! plan 28000000 | cmp -s - bytes || echo "--max-memory 28000000 has the plan of 28M"
