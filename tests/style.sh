#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Layout and size of the code: clang-format would change no file, no line of C is wider than 100
# columns, no function has more than 6 parameters or 60 lines, and no file more than 500 lines.
# Debian 12's clang-format 14 decides on layout; where another version or none is installed, that
# part is SKIPPED.
set -eu
cd "$(dirname "$0")/.."
status=0
sources=$(sh tests/files.sh '*.c' '*.h' '*.cu' '*.cc')

format=
for name in clang-format-14 clang-format; do
	if $name --version 2>/dev/null | grep -q 'version 14\.'; then
		format=$name
		break
	fi
done
if [ -n "$format" ]; then
	# shellcheck disable=SC2086
	changed=$($format --dry-run $sources 2>&1 | grep -E '(error|warning):' | cut -d: -f1 | sort -u)
	if [ -n "$changed" ]; then
		echo "clang-format would change (make format):" $changed
		status=1
	fi
else
	echo "SKIPPED layout: no clang-format 14 (Debian 12's clang-format)"
fi

for file in $sources; do
	expand "$file" | awk -v file="$file" 'length($0) > 100 { print file ":" NR ": " length($0) " columns"; bad = 1 }
		END { exit bad }' || status=1
done

# sizes FILE...: the functions and files that are too long, then the number of functions.  It relies
# on the layout above: what begins in the first column ends before a line of '{' or at one of ';'.
# Only the fakes of a library's functions have as many parameters as the library says.
sizes() {
	awk '
	function finish(n, group) {
		while (match(text, /\([^()]*\)/)) {
			group = substr(text, RSTART, RLENGTH)
			n = gsub(/,/, "", group) + 1
			if (n > 6 && substr(text, 1, RSTART - 1) !~ /(cublasLt|cuda)[A-Z][A-Za-z0-9]*$/)
				print file ":" line ": " n " parameters"
			text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
		}
		text = ""
	}
	FNR == 1 { text = ""; body = 0 }
	FNR == 501 { print FILENAME ": more than 500 lines" }
	{ sub(/\/\*.*\*\//, "") }
	text == "" && /^[A-Za-z_].*[A-Za-z0-9_]\(/ && !/ = / { file = FILENAME; line = FNR; text = " " }
	text != "" { text = text $0 }
	text != "" && (/^[{}]/ || /[;{]$/ || /^$/) { finish() }
	/^{$/ { body = FNR; n_functions++ }
	/^}/ && body {
		if (FNR - body > 61)
			print FILENAME ":" body ": a function of " FNR - body - 1 " lines"
		body = 0
	}
	END { print n_functions + 0 }' "$@"
}

# The check itself: six parameters and 60 lines pass, one more of each is found.
planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
lines() {
	printf '{\n'
	seq "$1" | sed 's/.*/\tf();/'
	printf '}\n'
}
{
	printf 'static int six(int a, int (*b)(int, int), int c, int d,\n\t       int e, int f)\n'
	lines 60
	printf 'void seven(int a, /* , */ int (*b)(int, int), int c, int d,\n\t   int e, int f, int g)\n'
	lines 61
	seq 380
} >"$planted"
expected="$planted:65: 7 parameters
$planted:67: a function of 61 lines
$planted: more than 500 lines
2"
found=$(sizes "$planted")
if [ "$found" != "$expected" ]; then
	echo "the check of sizes finds: $found"
	status=1
fi

# shellcheck disable=SC2086
found=$(sizes $sources)
n_functions=$(printf '%s\n' "$found" | tail -n 1)
if [ "$n_functions" -lt 3000 ]; then
	echo "the check of sizes finds $n_functions functions only"
	status=1
fi
found=$(printf '%s\n' "$found" | sed '$d')
if [ -n "$found" ]; then
	printf '%s\n' "$found"
	status=1
fi
exit $status
