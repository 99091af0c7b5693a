#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every broken sample is refused by quantize too, planned, as a file and as a stream, and leaves nothing behind.
need "python3()"
python3 "$SAMPLES/broken.py" broken
scratch=$PWD/scratch
mkdir "$scratch"
mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp
export TMPDIR
check() {
	status=$?
	[ $status -eq 3 ] || echo "$path$1: exit status $status"
	grep -v '^{"schema": 1, "error": ".*", "status": 3}$' "$scratch/stdout" && echo "$path$1: wrote to stdout"
	[ "$(wc -l <"$scratch/stderr")" -eq 1 ] || echo "$path$1: $(wc -l <"$scratch/stderr") lines on stderr"
	rm "$scratch/stdout" "$scratch/stderr"
	[ "$(cd "$scratch" && find . | sort | tr '\n' ' ')" = '. ./tmp ' ] ||
		{
			echo "$path$1 left:"
			find "$scratch"
			rm -rf "${scratch:?}"/*
			mkdir "$scratch/tmp"
		}
}
for expected in broken/*.expected; do
	path=${expected%.expected}
	[ -e "$path" ] || path=$path.safetensors
	"$FP8CONV" quantize "$path" -o "$scratch/out" >"$scratch/stdout" 2>"$scratch/stderr"
	check ''
	"$FP8CONV" quantize "$path" --dry-run --json >"$scratch/stdout" 2>"$scratch/stderr"
	check ' (dry run)'
	[ -f "$path" ] || continue
	"$FP8CONV" quantize - -o "$scratch/out.safetensors" <"$path" >"$scratch/stdout" 2>"$scratch/stderr"
	check ' (stream)'
done
