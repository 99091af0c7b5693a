#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A stream is inspected like the file it came from, named "-".
need "$SAMPLES/tiny-llama"
"$FP8CONV" inspect "$SAMPLES/tiny-llama/model.safetensors" | sed 's/model\.safetensors/-/' >a
cat "$SAMPLES/tiny-llama/model.safetensors" | "$FP8CONV" inspect - | diff a -
