#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Of a model with a branch for images the language model runs, and a note counts what does not.
need "python3()"
python3 "$CLI/tiny.py" ids 70 70 >ids.jsonl
data="--data ids.jsonl --seq-len 70"
python3 "$CLI/tiny.py" make qwen3_vl model
n=$(python3 "$CLI/checkpoint.py" list model | cut -f 1 | grep -c '\.visual\.')
[ "$n" -gt 10 ] || echo "the model has $n tensors of its tower"
note="note: only text is read: the branches for images or audio ($n tensors) are not run"
# said COMMAND: compares the note on standard error.
said() {
	grep images err >found
	diff found - <<-END
		fp8conv $1: $note
	END
}
# shellcheck disable=SC2086
{
	"$FP8CONV" calibrate model $data -o model.amax 2>err
	said calibrate
	"$FP8CONV" quantize model -o out --recipe channelwise --rounding compensated $data 2>err
	said quantize
	"$FP8CONV" eval out --source model $data --json >eval.json 2>err
	said eval
	"$FP8CONV" sensitivity model --recipe channelwise $data -o model.kld 2>err
	said sensitivity
	"$FP8CONV" quantize model -o plain --recipe channelwise 2>err
	grep images err
	"$FP8CONV" eval out $data --quiet --json >eval.json 2>err
	cat err
}
# The history has no tensor of the tower.
! python3 "$CLI/checkpoint.py" list model.amax | grep visual
