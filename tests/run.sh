#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of `make check` and ends with one line.  FP8CONV: the program; BUILD: where the unit tests were built.
# Skipped tests are counted in that line.
set -u
cd "$(dirname "$0")/.." || exit 2
SAMPLES=$PWD/sample_checkpoints
export SAMPLES FP8CONV

passed=0
failed=0
skipped=0

# suite NAME COMMAND...: its exit status decides; lines that begin with SKIPPED are counted.
suite() {
	name=$1
	shift
	log=$BUILD/tests/$(echo "$name" | tr '/ ' '__').log
	mkdir -p "$(dirname "$log")"
	if "$@" >"$log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $name ($log):"
		tail -n 40 "$log"
	fi
	found=$(grep -c '^SKIPPED' "$log")
	if [ "$found" -gt 0 ]; then
		skipped=$((skipped + found))
		grep '^SKIPPED' "$log"
	fi
}

for source in tests/unit/test_*.c; do
	test=$(basename "$source" .c)
	suite "unit/$test" "$BUILD/tests/unit/$test"
done
for test in "$BUILD"/simt/test_*; do
	[ "${test##*.}" = d ] || suite "simt/$(basename "$test")" "$test"
done
for source in tests/fuzz/fuzz_*.c; do
	target=$(basename "$source" .c)
	suite "fuzz/$target" "$BUILD/tests/fuzz/$target" "tests/fuzz/corpus/${target#fuzz_}"
done
for runner in tests/layers.sh tests/cli/run.sh tests/fault/run.sh tests/simt/run.sh tests/docs/run.sh; do
	suite "$(echo "$runner" | sed 's,tests/,,; s,/run.sh,,')" sh "$runner"
done

echo "make check: $passed suites passed, $failed failed, $skipped tests skipped"
[ "$failed" -eq 0 ]
