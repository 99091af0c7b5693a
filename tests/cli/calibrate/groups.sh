#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# One thread takes several sequences through the experts of a layer together; twelve threads take one each.  Both give the
# same bytes: of calibrate, and with one model or two of eval.
need "python3()"
python3 "$CLI/tiny.py" ids 40 1 33 7 40 25 2 39 40 40 11 40 >ids.jsonl
data="--data ids.jsonl --seq-len 40 --quiet"

# both OPTION...: the two ways.
both() {
	for threads in 1 12; do
		# shellcheck disable=SC2086
		"$FP8CONV" "$@" $data --threads $threads -o $threads.amax
	done
	cmp 1.amax 12.amax
	rm 1.amax 12.amax
}

# measure OPTION...: eval prints the same but for time and memory.
measure() {
	for threads in 1 12; do
		# shellcheck disable=SC2086
		"$FP8CONV" eval out "$@" $data --threads $threads --json |
			sed 's/"\(seconds\|peak_memory_bytes\)": [0-9.e+-]*//g' >$threads.json
	done
	cmp 1.json 12.json
}

for arch in qwen3_moe gpt_oss deepseek_v3 nemotron_h llama4 granitemoehybrid kimi_linear bailing_hybrid; do
	python3 "$CLI/tiny.py" make $arch model
	"$FP8CONV" quantize model -o out --recipe channelwise --quiet
	both calibrate model
	measure
	measure --source model
	case $arch in
	deepseek_v3 | nemotron_h | gpt_oss) both calibrate model --fp8-forward --recipe delayed --batch 6 2>notes ;;
	esac
	rm -rf model out
done
