#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A signal ends the job with 128 + its number, one line, and nothing of the job is left.
need "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/fused/model.safetensors
mkdir tmp
TMPDIR=$PWD/tmp
export TMPDIR
mkfifo pipe
for signal in TERM:143 HUP:129; do
	(
		head -c 1000 "$in"
		exec sleep 600
	) >pipe &
	feeder=$!
	# Whoever runs the tests may ignore SIGHUP.
	env --default-signal=HUP,TERM "$FP8CONV" quantize - -o out.safetensors <pipe 2>err &
	job=$!
	# It reads: what has come so far is in a file without a name.
	until ls -l /proc/$job/fd 2>/dev/null | grep -q "$TMPDIR/" || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
	kill -"${signal%:*}" $job
	wait $job
	[ $? -eq "${signal#*:}" ] || echo "${signal%:*}: not ${signal#*:}"
	[ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: ' err || cat err
	kill $feeder
	wait $feeder 2>/dev/null
done
find . -name '*safetensors*'
find tmp -mindepth 1
# One that is ignored stays ignored.
(
	trap '' HUP
	(
		cat "$in"
		sleep 1
	) | exec "$FP8CONV" quantize - -o out.safetensors &
	job=$!
	sleep 0.3
	kill -HUP $job
	wait $job || echo "nohup: $?"
)
ls -- *.safetensors

mkdir next
cd next
unset TMPDIR
# Ended at any moment, in the hard way or by a signal: what has its final name is whole, and the same command continues.
python3 "$CLI/checkpoint.py" big in 4 6
"$FP8CONV" quantize --progress none in -o wanted
for signal in KILL TERM HUP; do
	for moment in 0.01 0.05 0.2; do
		"$FP8CONV" quantize --progress none in -o out --threads 1 --backend reference 2>err &
		job=$!
		sleep $moment
		kill -$signal $job 2>/dev/null
		wait $job 2>/dev/null
		status=$?
		case $status-$signal in
		0-* | 137-KILL | 143-TERM | 129-HUP) ;;
		*) echo "$signal after $moment s: exit status $status" ;;
		esac
		[ $status -ne 0 ] || [ -e out/config.json ] || echo "done without config.json"
		[ ! -e out ] || find out -type f ! -name '.*' ! -name fp8conv-manifest.json | while read -r file; do
			cmp "$file" "wanted/${file#out/}"
		done
		if [ $signal != KILL ] && [ $status -ne 0 ]; then
			[ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: ' err || cat err
			[ ! -e out ] || find out -name '.*.partial'
		fi
		"$FP8CONV" quantize --progress none in -o out
		same wanted out
		find out -name '.*.partial'
		rm -rf out
	done
done

#1> out.safetensors
