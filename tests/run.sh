#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of `make check` and ends with one line.  BUILD: where the program and its tests were built; SANITIZE: what with;
# SANITIZED: another build, with sanitizers: where they say something, suites run in that one and not in BUILD; SUITES: a pattern
# of lines of suites(), others are skipped.  Skipped tests are counted in the last line.
set -u
cd "$(dirname "$0")/.." || exit 2
SAMPLES=$PWD/sample_checkpoints
TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS-}"
# LeakSanitizer of gcc 12 guesses where a loaded library (oneDNN) keeps what is local to a thread, at times
# wrongly, and then crashes itself: "DTLS 5 at 0x266", "Tracer caught signal 11".
ASAN_OPTIONS="intercept_tls_get_addr=0:${ASAN_OPTIONS-}"
export SAMPLES TSAN_OPTIONS ASAN_OPTIONS
# A test that calls make gives it flags and variables of its own, not of the make that runs this.
unset MAKEFLAGS MAKEOVERRIDES MFLAGS MAKELEVEL

# suites BUILD: a line for each, its name and its command.
suites() {
	built "$1" | sed "s,^[^ ]* ,&env BUILD=$1 FP8CONV=$(realpath "$1")/fp8conv ,"
}

built() {
	echo "fault sh tests/fault/run.sh"
	echo "remote python3 tests/remote/run.py"
	echo "families python3 tests/families/check.py"
	echo "families/invented python3 tests/families/invented.py"
	for name in $(dirname tests/cli/*/*.sh | sort -u | xargs -n 1 basename); do
		echo "cli/$name sh tests/cli/run.sh /$name/"
	done
	for runner in tests/library.sh tests/simt/run.sh tests/docs/run.sh tests/layers.sh tests/style.sh tests/budget.sh tests/build.sh tests/release.sh; do
		echo "$(echo "$runner" | sed 's,tests/,,; s,/run.sh,,; s,\.sh,,') sh $runner"
	done
	echo "gpu env OUT=$1/tests/gpu PROGRAMS=$1 sh tests/gpu.sh sanitize files" # the unit tests below have parity
	for source in tests/unit/test_*.c; do
		test=$(basename "$source" .c)
		echo "unit/$test $1/tests/unit/$test"
	done
	for test in "$1"/simt/test_*; do
		[ "${test##*.}" = d ] || echo "simt/$(basename "$test") $test"
	done
	for source in tests/fuzz/fuzz_*.c; do
		target=$(basename "$source" .c)
		echo "fuzz/$target $1/tests/fuzz/$target tests/fuzz/corpus.tar ${target#fuzz_}"
	done
}

# Where sanitizers say nothing: suites that read sources and pages, or look at addresses, at memory and at what a compiler made.
plain='^(remote|families.*|library|simt|simt/test_counts|docs|layers|style|budget|build|release|gpu|cli/program|unit/test_page_heap) '

# all: each suite once, in the build that it belongs to.
all() {
	if [ "${SANITIZE-}${SANITIZED-}" ]; then
		suites "${SANITIZED:-$BUILD}" | grep -vE "$plain"
		[ -z "${SANITIZED-}" ] || suites "$BUILD" | grep -E "$plain"
	else
		suites "$BUILD"
	fi
}

# chosen: the suites to run, the longest first.
longest='^(fault|simt/test_counts|remote|cli/quantize|cli/calibrate|simt/test_gpu_calibrate) '
chosen() {
	all | grep -E "${SUITES:-.}" | grep -E "$longest"
	all | grep -E "${SUITES:-.}" | grep -vE "$longest"
}

# One more at once than there are processors, for some wait for a disk or a server; of each stays its log, its exit status and
# its time.
logs=$BUILD/tests/logs
rm -rf "$logs"
mkdir -p "$logs"
export logs
# shellcheck disable=SC2016
chosen | xargs -L 1 -P "$(($(nproc) + 1))" sh -c '
	log=$logs/$(echo "$0" | tr / _)
	began=$(date +%s)
	"$@" >"$log.log" 2>&1 </dev/null
	echo $? >"$log.status"
	echo "$(($(date +%s) - began)) s: $0" >"$log.time"'

passed=0
failed=0
skipped=0
for name in $(chosen | cut -d " " -f 1); do
	log=$logs/$(echo "$name" | tr / _)
	if [ "$(cat "$log.status" 2>/dev/null)" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $name ($log.log):"
		tail -n 40 "$log.log"
	fi
	found=$(grep -c '^SKIPPED' "$log.log")
	if [ "${found:-0}" -gt 0 ]; then
		skipped=$((skipped + found))
		grep '^SKIPPED' "$log.log"
	fi
done

for name in ${SUITES:+$(all | grep -vE "$SUITES" | cut -d " " -f 1)}; do
	skipped=$((skipped + 1))
	echo "SKIPPED $name: SUITES does not match it"
done

echo "the longest suites:"
cat "$logs"/*.time | sort -rn | head -n 8
echo "make check: $passed suites passed, $failed failed, $skipped tests skipped"
[ "$failed" -eq 0 ]
