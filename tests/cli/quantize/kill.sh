#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
