#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual says what the program does: pages are well-formed, know every option and no other, and their commands run.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
: "${FP8CONV:=$top/build/fp8conv}"
FP8CONV=$(cd "$(dirname "$FP8CONV")" && pwd)/$(basename "$FP8CONV")
export FP8CONV
cd "$top" || exit 2
status=0

# lint TOOL COMMAND...: the tool must find nothing to say about the page behind the command.
lint() {
	tool=$1
	shift
	if ! command -v "$tool" >/dev/null; then
		echo "SKIPPED docs/$tool: no $tool"
		return
	fi
	for page in man/*.[1357]; do
		said=$("$@" "$page" 2>&1) && [ -z "$said" ] && continue
		printf '%s: %s\n%s\n' "$page" "$tool" "$said"
		status=1
	done
}
lint mandoc mandoc -T lint -W warning
lint groff groff -man -t -ww -z -T utf8

python3 "$here/options.py" || status=1
python3 "$here/json_keys.py" || status=1
python3 "$here/families.py" || status=1
python3 "$here/commands.py" || status=1
python3 "$here/cookbook.py" || status=1
exit $status
