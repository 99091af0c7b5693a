#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-moe"
cd "$SAMPLES" || exit
"$FP8CONV" quantize tiny-moe/fused --dry-run | grep -v 'layers.1\|^memory\|^disk'
