#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# files.sh [PATTERN]...: the files of the source tree that match one of the shell's patterns, one a line.  In a clone git
# knows them; in an archive of the sources they are all but what was built.
cd "$(dirname "$0")/.." || exit 2
if [ -e .git ]; then
	git ls-files -co --exclude-standard
else
	find . -type f ! -path "./${BUILD:-build}/*" ! -name '*.pyc' | sed 's,^\./,,' | LC_ALL=C sort
fi | while IFS= read -r file; do
	[ $# -gt 0 ] || echo "$file"
	for pattern; do
		# shellcheck disable=SC2254
		case $file in $pattern) echo "$file" && break ;; esac
	done
done
