#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
"$FP8CONV" recipes | cut -f 1
[ "$("$FP8CONV" recipes | awk -F '\t' 'NF != 3' | wc -l)" -eq 0 ] || echo "not three fields"
"$FP8CONV" recipes --json >j
json j 'list(j) == ["schema", "recipes"]' \
	'[r["name"] for r in j["recipes"]] == ["blockwise", "channelwise", "current", "delayed", "mxfp8"]' \
	'all(list(r) == ["name", "summary", "origin", "needs_history"] for r in j["recipes"])' \
	'[r["name"] for r in j["recipes"] if r["needs_history"]] == ["delayed"]'

#1> blockwise
#1> channelwise
#1> current
#1> delayed
#1> mxfp8
