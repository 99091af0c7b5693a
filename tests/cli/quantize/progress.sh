#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/per-expert
# A job of a moment: one object, the last.
"$FP8CONV" quantize "$in" -o a --progress json 2>j
json j 'list(j) == ["schema", "done", "total", "seconds", "bytes_per_second", "seconds_left", "shard", "phase"]' \
	'j["done"] == j["total"] == 920576' 'j["shard"] == "model-00002-of-00002.safetensors"'
# A second and a half of waiting for a stream: one more.
(
	sleep 1.5
	cat "$SAMPLES/tiny-moe/fused/model.safetensors"
) | "$FP8CONV" quantize - -o a.safetensors --progress json 2>lines
[ "$(wc -l <lines)" -eq 2 ] || cat lines
"$FP8CONV" quantize "$in" -o b --progress json --quiet
"$FP8CONV" quantize "$in" -o c --progress none
"$FP8CONV" quantize "$in" -o d --progress auto
# The bar is cleared before anything else is written.
(
	sleep 0.5
	cat "$SAMPLES/tiny-moe/fused/model.safetensors"
) | "$FP8CONV" quantize - -o e.safetensors --progress bar 2>bar
[ "$(tail -c 4 bar | od -An -c | tr -d ' \n')" = '\r033[K' ] || od -c bar

mkdir next
cd next
# The summary: asked for, or on a terminal; never with --quiet.
need "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$in" -o a --verbose 2>err
sed 's/^time .*/time/; s/-\?[0-9.]* dB, model.*/N dB, TENSOR/; s,--source .*/per-expert$,--source MODEL,' err
python3 "$CLI/terminal.py" "$FP8CONV" quantize "$in" -o b --progress none >t
cut -c 1-10 t | sed 's/ *$//; /^$/d'
python3 "$CLI/terminal.py" "$FP8CONV" quantize "$in" -o c --quiet
"$FP8CONV" quantize "$in" -o d --quiet --verbose

#1> tensors    26 blockwise, 12 kept
#1> size       921 kB in, 495 kB out
#1> time
#1> worst SQNR N dB, TENSOR
#1> saturated  0 values
#1> output     a
#1> next       fp8conv verify a --source MODEL
#1> tensors
#1> size
#1> time
#1> worst SQNR
#1> saturated
#1> output
#1> next
