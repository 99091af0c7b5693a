#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A signal, or a kill, keeps whole passes; the same command with --resume ends with the same bytes.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
python3 -c "
import random
random.seed(1)
for i in range(20000):
    print(random.choice(['a word', 'some more', 'and then', 'the end', 'of it']), i)" >text.txt
# So little memory that what is there is saved often.
set -- "$model" --data text.txt --seq-len 256 --passes 200 --progress none --threads 1 --max-memory 6M
"$FP8CONV" calibrate "$@" -o whole.amax
for signal in TERM INT KILL; do
	env --default-signal=TERM,INT "$FP8CONV" calibrate "$@" -o s.amax 2>err &
	job=$!
	until [ -e s.amax ] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
	kill -$signal $job 2>/dev/null
	wait $job 2>/dev/null
	status=$?
	case $status-$signal in
	143-TERM | 130-INT) grep -q "^fp8conv calibrate: interrupted after [0-9]* of 200 passes, which are in 's.amax': run the same command with --resume to continue$" err || cat err ;;
	0-* | 137-KILL) ;;
	*) echo "$signal: exit status $status" ;;
	esac
	if [ $status -ne 0 ] && [ -e s.amax ]; then
		"$FP8CONV" quantize "$model" --recipe delayed --calibration s.amax --dry-run --json >j 2>err
		json j '"calibration-unfinished" in [n["kind"] for n in j["notes"]]'
		grep -qx "fp8conv quantize: note: 's.amax' holds [0-9]* of 200 passes: the calibration was interrupted, continue it with --resume" err || cat err
		"$FP8CONV" merge s.amax whole.amax -o both.amax
		"$FP8CONV" quantize "$model" --recipe delayed --calibration both.amax --dry-run --json 2>err >j
		grep -q "of 400 passes: the calibration was interrupted" err || cat err
		rm -f both.amax
	fi
	"$FP8CONV" calibrate "$@" -o s.amax --resume
	cmp whole.amax s.amax
	rm -f s.amax .*.partial
done
