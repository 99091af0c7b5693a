# SPDX-License-Identifier: Apache-2.0
# What the scripts of the engines share.  $1: this folder; $2: the folder that has `model` and `wanted`.
cd "$2" || exit 2

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

# parts FILE N: the summaries in FILE are those of parts 1 to N of N, each once.
parts() {
	sed -n 's/^.*part  *\([0-9]* of [0-9]*\)$/\1/p' "$1" | sort -n >found.parts
	seq "$2" | sed "s/\$/ of $2/" | diff - found.parts || fail "not every part of $2 ran once"
}
