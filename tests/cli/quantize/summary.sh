#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The summary: asked for, or on a terminal; never with --quiet.
need "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$in" -o a --verbose 2>err
sed 's/^time .*/time/; s/-\?[0-9.]* dB, model.*/N dB, TENSOR/; s,--source .*/per-expert$,--source MODEL,' err
python3 "$CLI/terminal.py" "$FP8CONV" quantize "$in" -o b --progress none >t
cut -c 1-10 t | sed 's/ *$//; /^$/d'
python3 "$CLI/terminal.py" "$FP8CONV" quantize "$in" -o c --quiet
"$FP8CONV" quantize "$in" -o d --quiet --verbose
