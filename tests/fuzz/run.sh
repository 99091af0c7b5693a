#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes each target, or those that are named, for $SECONDS: from its corpus and from inputs made of the sample checkpoints.
# The corpus of a target is its folder of corpus.tar.  New inputs stay in $BUILD/fuzz/<target>/; MERGE=1 makes the folder again
# of the smallest inputs, old and new, that reach all the code that these reach.
set -eu
cd "$(dirname "$0")/../.."
: "${SECONDS:=60}" "${BUILD:=build/fuzz}" "${MERGE:=}"
work=$BUILD/fuzz
mkdir -p "$work"
rm -rf "$work/seeds" "$work/corpus"
mkdir "$work/corpus"
tar -C "$work/corpus" -xf tests/fuzz/corpus.tar
python3 tests/fuzz/seeds.py "$work/seeds"
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's,.*/fuzz_,,; s,\.c$,,')

for target; do
	log=$work/$target.log
	found=$work/$target
	program=$BUILD/tests/fuzz/fuzz_$target
	corpus=$work/corpus/$target
	mkdir -p "$found" "$corpus" "$work/seeds/$target"
	if ! "$program" -max_total_time="$SECONDS" -timeout=10 -rss_limit_mb=2048 -max_len=8192 -len_control=20 \
		-dict=tests/fuzz/words.dict -print_final_stats=1 -artifact_prefix="$work/$target-" \
		"$found" "$corpus" "$work/seeds/$target" >"$log" 2>&1; then
		tail -n 40 "$log"
		echo "make fuzz: $target failed: its input is in $work"
		exit 1
	fi
	echo "fuzz $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions," \
		"$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log") a second, nothing found"
	if [ -n "$MERGE" ]; then
		rm -rf "$work/merged"
		mkdir "$work/merged"
		"$program" -merge=1 -use_counters=0 -max_len=8192 "$work/merged" "$corpus" "$work/seeds/$target" "$found" >"$log" 2>&1
		rm -rf "$corpus"
		mv "$work/merged" "$corpus"
		(cd "$work/corpus" && find * -type f) | LC_ALL=C sort | tar -C "$work/corpus" -T - --format=ustar --mode=0644 \
			--mtime=@0 --owner=0 --group=0 --numeric-owner -cf tests/fuzz/corpus.tar # same inputs, same bytes
	fi
done
