#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes each target, or those that are named, for $SECONDS: from its corpus and from inputs made of the sample checkpoints.
# What is found new stays in $BUILD/fuzz/<target>/; MERGE=1 puts into the corpus what of it reaches new code, smallest first.
set -eu
cd "$(dirname "$0")/../.."
: "${SECONDS:=60}" "${BUILD:=build/fuzz}" "${MERGE:=}"
work=$BUILD/fuzz
mkdir -p "$work"
rm -rf "$work/seeds"
python3 tests/fuzz/seeds.py "$work/seeds"
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's,.*/fuzz_,,; s,\.c$,,')

for target; do
	log=$work/$target.log
	found=$work/$target
	program=$BUILD/tests/fuzz/fuzz_$target
	mkdir -p "$found" "tests/fuzz/corpus/$target"
	if ! "$program" -max_total_time="$SECONDS" -timeout=10 -rss_limit_mb=2048 -max_len=8192 -len_control=20 \
		-dict=tests/fuzz/words.dict -print_final_stats=1 -artifact_prefix="$work/$target-" \
		"$found" "tests/fuzz/corpus/$target" "$work/seeds/$target" >"$log" 2>&1; then
		tail -n 40 "$log"
		echo "make fuzz: $target failed: its input is in $work"
		exit 1
	fi
	echo "fuzz $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions," \
		"$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log") a second, nothing found"
	if [ -n "$MERGE" ]; then
		rm -rf "$work/merged"
		mkdir "$work/merged"
		"$program" -merge=1 -use_counters=0 -max_len=8192 "$work/merged" "tests/fuzz/corpus/$target" "$work/seeds/$target" "$found" \
			>"$log" 2>&1
		rm -rf "tests/fuzz/corpus/$target"
		mv "$work/merged" "tests/fuzz/corpus/$target"
	fi
done
