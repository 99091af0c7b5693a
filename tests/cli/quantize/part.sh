#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Parts make the whole, in any order; whoever is last writes the end.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o wanted
for order in '1 2' '2 1'; do
	for part in $order; do
		[ ! -e out/config.json ] || echo "config.json is there before the last part"
		"$FP8CONV" quantize "$model" -o out --part "$part/2"
	done
	same wanted out
	rm -rf out
done
"$FP8CONV" quantize "$model" -o out --part 1/2
fails 2 " quantize: 1 of 2 shards*" quantize "$model" -o out --part finish
"$FP8CONV" quantize "$model" -o out --part 2/2
"$FP8CONV" quantize "$model" -o out --part finish
same wanted out
rm -rf out
for part in 1 2 3 4 5; do
	"$FP8CONV" quantize "$model" -o out --part $part/5
done
same wanted out
rm -rf out
# All at once.
for part in 1 2; do
	"$FP8CONV" quantize "$model" -o out --part $part/2 &
done
wait
same wanted out
fails 2 " quantize: *" quantize "$model" -o - --part 1/2
