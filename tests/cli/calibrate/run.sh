#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
# One way through: a plan, a history, what is said of it; the same bytes however it was come by.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
python3 -c "
for i in range(400):
    print('The', i, 'th line of a text that a small model reads, word by word.')" >text.txt
set -- "$model" --data text.txt --seq-len 64 --progress none
"$FP8CONV" calibrate "$@" --dry-run --json --passes 3 >plan.json
json plan.json "j['architecture'] == 'llama'" "j['passes'] == 3" "j['tokens'] == 192" "len(j['input_ids']) == 3" \
	"all(len(s) == 64 for s in j['input_ids'])" "j['memory_bytes'] > 0"
[ ! -e s.amax ] || echo "a dry run wrote"
"$FP8CONV" calibrate "$@" --passes 6 -o s.amax --json >told.json
json told.json "j['passes'] == 6" "j['tokens'] == 384" "len(j['nll_per_pass']) == 6" "1 < j['perplexity'] < 5000" \
	"j['uncovered'] == []" "j['tokens_per_second'] > 0"
"$FP8CONV" inspect s.amax --json >s.json
json s.json "j['kind'] == 'amax'" "any(s['name'] == 'model.layers.0.mlp.down_proj' for s in j['sites'])"

# Drawn sequences: those that a shuffle told again draws from all of the data.
for length in 64 512; do
	"$FP8CONV" calibrate "$@" --seq-len $length --dry-run --json --passes 1000 --quiet >all.json
	"$FP8CONV" calibrate "$@" --seq-len $length --dry-run --json --passes 3 --batch 2 --seed 7 >drawn.json
	python3 - <<-'EOF'
	import json
	sequences, state = json.load(open("all.json"))["input_ids"], 7
	for i in range(len(sequences) - 1, 0, -1):
	    state = (state + 0x9E3779B97F4A7C15) % 2**64
	    z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
	    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
	    j = (z ^ z >> 31) % (i + 1)
	    sequences[i], sequences[j] = sequences[j], sequences[i]
	if json.load(open("drawn.json"))["input_ids"] != sequences[:6]:
	    print("--seed drew others")
	EOF
done

# The same of one thread, in two goes, and a pass at a time.
"$FP8CONV" calibrate "$@" --passes 6 -o one.amax --threads 1
cmp s.amax one.amax
"$FP8CONV" calibrate "$@" --passes 2 -o two.amax
"$FP8CONV" calibrate "$@" --passes 6 -o two.amax --resume
cmp s.amax two.amax
"$FP8CONV" calibrate "$@" --passes 6 -o two.amax --resume --json >again.json
json again.json "j['nll_per_pass'] == []" "j['perplexity'] is None" "j['passes'] == 6"
cmp s.amax two.amax

# An output that is there is not lost by accident, nor mixed with another.
fails 2 " calibrate: 's.amax' exists: use --resume to continue it, or --restart to start over" calibrate "$@" -o s.amax
fails 3 " calibrate: 's.amax' holds 6 passes, but only 2 are requested: use --restart to start over" \
	calibrate "$@" -o s.amax --passes 2 --resume
fails 3 " calibrate: 's.amax' was made with another precision (bf16, now f32): *" \
	calibrate "$@" -o s.amax --precision f32 --resume
sed 's/line/lime/' text.txt >other.txt
fails 3 " calibrate: 's.amax' holds 6 passes over data that differs from 'other.txt': *" \
	calibrate "$model" --data other.txt --seq-len 64 --passes 6 -o s.amax --resume
"$FP8CONV" calibrate "$@" --passes 1 -o s.amax --restart
"$FP8CONV" inspect s.amax --json >s.json
json s.json "all(s['passes'] == 1 for s in j['sites'])"

# A plan counts the modules of the history, experts too.
moe=$SAMPLES/tiny-moe/per-expert
need "$moe"
printf '{"input_ids": [1, 2, 3]}\n' >ids.jsonl
"$FP8CONV" calibrate "$moe" --data ids.jsonl --dry-run --json >plan.json
"$FP8CONV" calibrate "$moe" --data ids.jsonl --quiet -o moe.amax
"$FP8CONV" inspect moe.amax --json >moe.json
planned=$(python3 -c 'import json; print(json.load(open("plan.json"))["modules"])')
json moe.json "sum(s['kind'] == 'module' for s in j['sites']) == $planned"

mkdir "$top/interrupted"
cd "$top/interrupted"
# A signal, or a kill, keeps whole passes; the same command with --resume ends with the same bytes.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
python3 -c "
import random
random.seed(1)
for i in range(20000):
    print(random.choice(['a word', 'some more', 'and then', 'the end', 'of it']), i)" >text.txt
# So little memory that what is there is saved often.
set -- "$model" --data text.txt --seq-len 256 --passes 60 --progress none --threads 1 --max-memory 6M
"$FP8CONV" calibrate "$@" -o whole.amax
for signal in TERM INT KILL; do
	env --default-signal=TERM,INT "$FP8CONV" calibrate "$@" -o s.amax 2>err &
	job=$!
	until [ -e s.amax ] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
	kill -$signal $job 2>/dev/null
	wait $job 2>/dev/null
	status=$?
	case $status-$signal in
	143-TERM | 130-INT) grep -q "^fp8conv calibrate: interrupted after [0-9]* of 60 passes, which are in 's.amax' (lost: [0-9]* s of work): run the same command with --resume to continue$" err || cat err ;;
	0-* | 137-KILL) ;;
	*) echo "$signal: exit status $status" ;;
	esac
	if [ $status -ne 0 ] && [ -e s.amax ]; then
		"$FP8CONV" quantize "$model" --recipe delayed --calibration s.amax --dry-run --json >j 2>err
		json j '"calibration-unfinished" in [n["kind"] for n in j["notes"]]'
		grep -qx "fp8conv quantize: note: 's.amax' holds [0-9]* of 60 passes: the calibration was interrupted, continue it with --resume" err || cat err
		"$FP8CONV" merge s.amax whole.amax -o both.amax
		"$FP8CONV" quantize "$model" --recipe delayed --calibration both.amax --dry-run --json 2>err >j
		grep -q "of 120 passes: the calibration was interrupted" err || cat err
		rm -f both.amax
	fi
	"$FP8CONV" calibrate "$@" -o s.amax --resume
	cmp whole.amax s.amax
	rm -f s.amax .*.partial
done
