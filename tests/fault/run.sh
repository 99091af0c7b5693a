#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Conversions, and the making of histories for them, under faults, from inside (inject: every I/O call fails once) and from
# outside (outside.py, histories.py, readers.py, outputs.py: signals, limits, full disks, hostile folders), all commands at a time, for most is
# waiting for the disk.  `short`, for make check, takes a sample, in memory where that is quicker; `long` takes all, on disk.
set -u
cd "$(dirname "$0")/../.." || exit 2
: "${BUILD:=build}"
: "${FP8CONV:=$PWD/$BUILD/fp8conv}"
SAMPLES=$PWD/sample_checkpoints
PYTHONDONTWRITEBYTECODE=1
export FP8CONV SAMPLES PYTHONDONTWRITEBYTECODE
extent=${1-short}

# The page cache of a file system in memory cannot be gone past, so inject stays on the disk.
disk=$(mktemp -d "$BUILD/fault-XXXXXX") || exit 2
memory=$disk/outside
fast=${TMPDIR:-/dev/shm}
[ "$extent" = long ] || [ ! -w "$fast" ] || memory=$(mktemp -d "$fast/fp8conv-fault-XXXXXX") || exit 2
running=
trap 'kill $running 2>/dev/null; rm -rf "$disk" "$memory"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$memory"

# await: what was started, and whether all of it went well.
status=0
await() {
	for process in $running; do
		wait "$process" || status=1
	done
	running=
}

number=all
[ "$extent" = long ] || number=some
commands=$("$BUILD/tests/fault/inject" commands) || exit 2
for command in $commands; do
	mkdir "$disk/$command"
	"$BUILD/tests/fault/inject" "$SAMPLES" "$disk/$command" $number "$command" &
	running="$running $!"
done
await
commands=$(python3 tests/fault/outside.py commands) || exit 2
for command in $commands; do
	python3 tests/fault/outside.py "$memory" "$extent" "$command" &
	running="$running $!"
done
for others in histories readers outputs; do
	python3 "tests/fault/$others.py" "$memory" "$extent" &
	running="$running $!"
done
await
exit $status
