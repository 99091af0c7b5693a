#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Layout of the code: clang-format would change no file, and no line of C or shell is wider than 100 columns.
# Debian 12's clang-format 14 decides; where another version or none is installed, that half is SKIPPED.
set -eu
cd "$(dirname "$0")/.."
status=0
sources=$(git ls-files '*.c' '*.h' '*.cu' '*.cc')

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
exit $status
