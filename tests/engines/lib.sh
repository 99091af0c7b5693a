# SPDX-License-Identifier: Apache-2.0
# What the scripts of the engines share.  $1: this folder; $2: the folder that has `model` and `wanted`.
here=$1
cd "$2" || exit 2
for i in 1 2 3 4 5 6 7; do
	echo "{\"input_ids\": [$i, 2, 30, 4, $((i * 7)), $((i * 3))]}"
done >calibration.jsonl

# need COMMAND...: skips the engine where a command is missing.
need() {
	for command; do
		command -v "$command" >/dev/null || {
			echo "no $command"
			exit 77
		}
	done
}

fail() {
	echo "$*"
	exit 1
}

# converted OUT: it is finished, and has the files and bytes that one process writes.  The manifest has times.
converted() {
	python3 -c 'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["finished"])' \
		"$1/fp8conv-manifest.json" || fail "$1 is not finished"
	diff -r --exclude=fp8conv-manifest.json --exclude='.*' wanted "$1" || fail "$1 differs from what one process writes"
}

# The model and the options of a calibration, which its tasks share.
calibration() {
	echo "$here/../../sample_checkpoints/tiny-llama --data calibration.jsonl --batch 2 --histogram --threads 1 --quiet"
}

# calibrated NAME N: the histories of N ranks give the bytes that one process writes.
calibrated() {
	# shellcheck disable=SC2046
	fp8conv calibrate $(calibration) -o "$1.one" || fail "one process failed"
	[ ! -e "$1" ] || fail "a rank wrote $1 itself"
	fp8conv merge --ranks "$1".*-of-"$2" -o "$1" || fail "merge failed"
	cmp "$1" "$1.one" || fail "$1 differs from what one process writes"
}

# parts FILE N: FILE has the summaries of parts 1 to N of N, each once.
parts() {
	sed -n 's/^.*part  *\([0-9]* of [0-9]*\)$/\1/p' "$1" | sort -n >found.parts
	seq "$2" | sed "s/\$/ of $2/" | diff - found.parts || fail "not every part of $2 ran once"
}

# shared NAME OPTION... -- COMMAND...: `calibrate` by COMMAND, whose processes know each other by MPI, writes the bytes of one
# process.
shared() {
	name=$1
	shift
	options=
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	rm -f "$name" "$name.one"
	# shellcheck disable=SC2086
	{
		fp8conv calibrate "$here/../../sample_checkpoints/tiny-llama" --data calibration.jsonl --threads 1 --quiet \
			-o "$name.one" $options || fail "one process failed"
		"$@" fp8conv-mpi calibrate "$here/../../sample_checkpoints/tiny-llama" --data calibration.jsonl --threads 1 --quiet \
			-o "$name" --ranks mpi $options || fail "$* failed"
	}
	cmp "$name" "$name.one" || fail "$name differs from what one process writes"
}
