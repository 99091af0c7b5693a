#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Each architecture that calibrate runs goes the whole way: calibrate, also in FP8, compensated rounding, static scales, those
# of caches too, verify, eval.
need "python3()"
python3 "$CLI/tiny.py" ids 40 7 33 40 >ids.jsonl
data="--data ids.jsonl --seq-len 40 --quiet"
python3 "$CLI/tiny.py" list >models
# Rows of families name some architectures by another model_type too.
"$FP8CONV" families | sed -n 's/\t.*\teval$//p' | grep -Fx -f models >archs
diff models archs

in_fp8() {
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate model $data -o fp8.amax --fp8-forward --recipe current --json >fp8.json
	json fp8.json "abs(j['perplexity'] / json.load(open('model.json'))['perplexity'] - 1) < 0.1"
	rm fp8.amax fp8.json model.json
}

whole_way() {
	python3 "$CLI/tiny.py" make "$1" model
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate model $data -o model.amax --json >model.json
	in_fp8
	# shellcheck disable=SC2086
	"$FP8CONV" quantize model -o compensated --recipe channelwise --rounding compensated $data
	"$FP8CONV" quantize model -o static --recipe delayed --calibration model.amax --kv-cache --uncovered group-max --quiet
	caches=""
	for made in compensated static; do
		"$FP8CONV" verify $made --source model --quiet
		# shellcheck disable=SC2086
		"$FP8CONV" eval $made --source model $data $caches --json >eval.json
		json eval.json "0 < j['kld']['mean'] < 0.2" "j['tokens'] > 100"
		caches=--kv-cache
	done
	rm -rf model model.amax compensated static eval.json
}

while read -r arch; do
	whole_way "$arch" >said 2>&1
	sed "s/^/$arch: /" said
done <archs

mkdir next
cd next
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
