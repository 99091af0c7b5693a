#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The GPU's kernels on a GPU, in 8 minutes: builds, holds them against the reference, lets compute-sanitizer look at small shapes,
# converts checkpoints by --backend cuda and compares with --backend cpu, measures, and ends with a table.
# Where there is no GPU it says SKIPPED and that is all; with FP8CONV_EXPECT_GPU=1 what is skipped has failed.
#
#	gpu.sh [parity] [sanitize] [files] [bench]	these steps; all without arguments
#
# PROGRAMS: a build folder that is there, nothing is built.  PARITY: the tests of parity, from the Makefile
# if not given.  OUT: where logs go.  MODEL: arguments of bench/model.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${OUT:=build/gpu/logs}" "${MODEL:=-l 4 -h 1024 -i 4096}" "${FP8CONV_EXPECT_GPU:=0}"
programs=${PROGRAMS:-build/gpu}
steps=" ${*:-parity sanitize files bench} "
begin=$(date +%s)
TOTAL=475
failed=0

# skip WHAT WHY: a line that tests/run.sh counts.
skip() {
	echo "SKIPPED $1: $2"
	[ "$FP8CONV_EXPECT_GPU" != 1 ] || failed=$((failed + 1))
}

skip_all() {
	for step in $steps; do
		skip "gpu/$step" "$1"
	done
	exit $((failed > 0))
}

of_gpu() {
	nvidia-smi -i 0 --query-gpu="$1" --format=csv,noheader 2>/dev/null
}

# step LOG NAME SECONDS COMMAND...: within its own time, and what is left of all; a line of the table.
step() {
	log=$OUT/$1.log
	name=$2
	limit=$3
	shift 3
	since=$(date +%s)
	left=$((begin + TOTAL - since))
	[ "$left" -ge "$limit" ] || limit=$left
	echo "$name: $*" >>"$log"
	status=124
	if [ "$limit" -gt 0 ]; then
		timeout -k 5 "$limit" "$@" >>"$log" 2>&1 </dev/null
		status=$?
	fi
	case $status in
	0) state=ok ;;
	124 | 137) state="NO TIME LEFT" ;;
	*) state="FAILED, exit status $status" ;;
	esac
	printf '%-44s %4d s  %s\n' "$name" $(($(date +%s) - since)) "$state" >>"$OUT/table.txt"
	[ "$status" -ne 0 ] || return 0
	failed=$((failed + 1))
	echo "$name: $state ($log):"
	tail -n 20 "$log"
	return 1
}

wanted() {
	case $steps in *" $1 "*) ;; *) return 1 ;; esac
}

build() {
	capability=$(of_gpu compute_cap | tr -d .)
	[ "$capability" != 90 ] || capability=90a
	step build build 240 make "-j$(nproc)" BUILD="$programs" CUDA=1 ${capability:+SM="$capability"} gpu-targets
}

parity() {
	[ -n "${PARITY:=$(make -s --no-print-directory print-parity CUDA=0)}" ] || failed=$((failed + 1))
	for test in $PARITY; do
		step parity "parity: $test" 60 "$programs/tests/unit/$test"
	done
	if grep 'SKIPPED: backend cuda' "$OUT/parity.log"; then
		failed=$((failed + 1))
	fi
}

# sanitize_with TOOL: fused operations, updates, a forward pass's, and casts of the smallest matrices.
sanitize_with() {
	for test in test_cast_transpose test_static_amax; do
		step "$1" "$1: $test" 45 "$sanitizer" --tool "$1" --error-exitcode 9 "$programs/tests/unit/$test"
	done
	products="test_executor_products test_executor_gram"
	[ "$1" = memcheck ] || products= # whose kernels are a library's
	for test in test_executor test_executor_rows test_executor_attention test_executor_keys test_executor_streams \
		$products; do
		step "$1" "$1: $test" 30 "$sanitizer" --tool "$1" --error-exitcode 9 "$programs/tests/unit/$test" small
	done
	for recipe in blockwise mxfp8 current channelwise; do
		format=
		[ $recipe != channelwise ] || format="--format compressed-tensors"
		ragged=
		[ $recipe != blockwise ] || ragged=--ragged
		# shellcheck disable=SC2086
		step "$1" "$1: quantize, $recipe" 15 "$sanitizer" --tool "$1" --error-exitcode 9 "$programs/fp8conv" quantize \
			sample_checkpoints/odd-shapes -o "$scratch/$1-$recipe" --backend cuda --threads 1 --quiet \
			--on-nonfinite saturate --recipe $recipe $format $ragged
	done
	step "$1" "$1: dequantize" 15 "$sanitizer" --tool "$1" --error-exitcode 9 "$programs/fp8conv" dequantize \
		"$scratch/$1-blockwise" -o "$scratch/$1-back" --backend cuda --threads 1 --quiet
}

sanitize() {
	sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
	if [ -z "$sanitizer" ]; then
		skip gpu/sanitize "no compute-sanitizer"
	elif "$sanitizer" "$programs/fp8conv" version 2>&1 | grep -q "Device not supported"; then
		skip gpu/sanitize "compute-sanitizer does not support this device, or its virtual machine"
	else
		sanitize_with memcheck
		sanitize_with racecheck
	fi
}

files() {
	# shellcheck disable=SC2086
	step files "files: a model" 30 "$programs/bench/model" $MODEL "$scratch/model" || return
	command -v python3 >/dev/null || skip gpu/files/calibrate "no python3, which compares histories"
	step files "files: the same bytes as the CPU's" 120 env BUILD="$programs" PROGRAM="$programs/fp8conv" \
		MORE="$scratch/model" sh tests/simt/run.sh
}

measure() {
	if [ ! -x "$programs/bench/gpu" ] || ! command -v python3 >/dev/null; then
		skip gpu/bench "no python3, which bench/run.py is written in, or no bench/gpu"
		return
	fi
	result=bench/results/$(of_gpu name | tr '[:upper:] ' '[:lower:]-').json
	step bench bench 240 python3 bench/run.py --build "$programs" --only gpu --output "$result" && cp "$result" "$OUT"
	cat "$OUT/bench.log" >>"$OUT/table.txt"
}

if [ -z "${PROGRAMS:-}" ] && ! nvidia-smi -L >/dev/null 2>&1; then
	skip_all "no NVIDIA GPU (nvidia-smi -L)"
fi
mkdir -p "$OUT" && rm -f "$OUT"/*.log "$OUT/table.txt" || exit 2
if [ -z "${PROGRAMS:-}" ] && ! build; then
	exit 1
fi
backend=$("$programs/fp8conv" version | grep '^backend.cuda: ' | tr '\t' ' ')
case $backend in
*"cuda: usable"*) ;;
*) skip_all "${backend:-built without CUDA}" ;;
esac
products=$("$programs/fp8conv" version | grep '^calibrate.cuda: ' | tr '\t' ' ')
case $products in
*cuBLASLt\ [0-9]*) ;;
*) skip gpu/products "${products:-no cuBLASLt}" ;;
esac
scratch=$(mktemp -d "$programs/gpu-XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
! wanted parity || parity
! wanted sanitize || sanitize
! wanted files || files
! wanted bench || measure

cat "$OUT/table.txt"
echo "gpu: $failed failed, $(($(date +%s) - begin)) s, logs in $OUT"
[ "$failed" -eq 0 ]
