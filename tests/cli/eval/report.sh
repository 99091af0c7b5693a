#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What eval says besides its numbers: notes, and the summary.
need "$SAMPLES/tiny-moe/per-expert" "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-moe/per-expert
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" quantize "$model" -o out

"$FP8CONV" eval out --data ids.jsonl >plain 2>err
[ -s err ] && cat err
"$FP8CONV" eval out --data ids.jsonl --verbose >text 2>err
diff plain text
grep -qx 'tokens     12, [0-9]* per second' err && grep -qx 'time       .*, peak memory [0-9]* MiB' err &&
	[ "$(wc -l <err)" = 2 ] || cat err
"$FP8CONV" eval out --data ids.jsonl --verbose --quiet >text 2>err
[ -s err ] && cat err
for options in "" --dry-run; do
	# shellcheck disable=SC2086
	"$FP8CONV" eval out --data ids.jsonl --passes 3 $options >text 2>err
	echo "fp8conv eval: note: the data is enough for 2 of 3 sequences" | cmp - err
done
"$FP8CONV" eval out --data ids.jsonl --passes 3 --quiet >text 2>err
[ -s err ] && cat err
printf 'a text, \377 and more of it' >bad.txt
"$FP8CONV" eval "$SAMPLES/tiny-llama" --data bad.txt --seq-len 4 >text 2>err
echo "fp8conv eval: note: 'bad.txt' is not UTF-8 at byte 8: invalid bytes are read as U+FFFD" | cmp - err
