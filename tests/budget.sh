#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The counts that must not grow, because a stranger must hold them in the head: files, members of the two largest tables,
# tags of structs with several meanings, prototypes far from their file, idioms.  Prints the production lines beside those
# of the last release, which a commit may change that says what a user gets for it (CONTRIBUTING.md).
set -eu
cd "$(dirname "$0")/.."
RELEASED="101431 lines in 0.1.0"
status=0

# most N COUNT WHAT: COUNT may be N at most.
most() {
	echo "$3: $2, at most $1"
	[ "$2" -le "$1" ] || status=1
}

# members STRUCT FILE: of a struct that begins in the first column; of nested ones, each member.
members() {
	sed -n "/^struct $1 {/,/^};/p" "$2" | sed 's,/\*.*\*/,,' | tr '\n' ' ' | sed 's,/\*[^/]*\*/,,g' |
		sed 's/([^()]*)//g; s/([^()]*)//g' | sed "s/^struct $1 {//; s/} *;.*//" |
		awk '{ gsub(/\[[^]]*\]/, ""); print gsub(/[;,]/, "") }'
}

sources=$(sh tests/files.sh 'src/*.[ch]' 'cli/*.[ch]' 'lib/*.[ch]' 'kernels/*.[ch]' 'kernels/*.cu')
# shellcheck disable=SC2086
echo "production lines: $(cat $sources | wc -l); $RELEASED"

most 1500 "$(sh tests/files.sh | wc -l)" "files"
most 40 "$(for file in $sources; do dirname "$file"; done | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')" \
	"files in the fullest folder"
# The members that EXECUTOR_OPERATIONS makes stand in the struct as one.
listed=$(sed -n '/^#define EXECUTOR_OPERATIONS/,/[^\\]$/p' src/backend/executor.h | grep -o 'OP([a-z]' | wc -l)
most 45 $(($(members executor_ops src/backend/executor.h) - 1 + listed)) "members of struct executor_ops"
most 32 "$(members arch src/model/model.h)" "members of struct arch"
# shellcheck disable=SC2086
most 10 "$(grep -ohE '^struct [a-z0-9_]+ \{' $sources | sort | uniq -d | wc -l)" "struct tags with two meanings"
most 0 "$(cat src/verify/steps.h src/compensate/steps.h | grep -cE '^[a-z].*\(.*\);$|^[a-z].*[a-z]\($')" \
	"prototypes in steps.h that belong to one file"
# shellcheck disable=SC2046,SC2086
most 30 "$(grep -ohw 'those of' $sources $(sh tests/files.sh 'tests/*.[ch]' 'tests/*.py' 'tests/*.sh') | wc -l)" "'those of'"
exit $status
