#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Checkpoints of every variant that can be read, whoever made them: each code and each scale is counted.
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" make "$variant" in
	"$FP8CONV" report in -o out --quiet || echo "$variant"
	{
		python3 "$CLI/page.py" whole out
		python3 "$CLI/page.py" counts out in
	} | sed "s/^/$variant: /"
	rm -rf in out
done
