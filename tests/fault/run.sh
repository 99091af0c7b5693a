#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Conversions under faults, from inside (inject: every I/O call fails once) and from outside (outside.py: signals, limits, full
# disks, hostile folders).  `short`, for make check, takes a sample, in memory where that is quicker; `long` takes all, on disk.
set -u
cd "$(dirname "$0")/../.." || exit 2
: "${BUILD:=build}"
: "${FP8CONV:=$PWD/$BUILD/fp8conv}"
SAMPLES=$PWD/sample_checkpoints
export FP8CONV SAMPLES
extent=${1-short}

# The page cache of a file system in memory cannot be gone past, so inject stays on the disk.
disk=$(mktemp -d "$BUILD/fault-XXXXXX") || exit 2
memory=$disk/outside
[ "$extent" = long ] || [ ! -w /dev/shm ] || memory=$(mktemp -d /dev/shm/fp8conv-fault-XXXXXX) || exit 2
trap 'rm -rf "$disk" "$memory"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$disk/inject" "$memory"

status=0
number=all
[ "$extent" = long ] || number=some
"$BUILD/tests/fault/inject" "$SAMPLES" "$disk/inject" $number || status=1
python3 tests/fault/outside.py "$memory" "$extent" || status=1
exit $status
