#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file of oneDNN's name that is no library, and a library that is not oneDNN, are named.
. "$CLI/lib.sh"
major=$("$FP8CONV" version | sed -n 's/^calibrate	cpu: oneDNN \([0-9]*\)\..*/\1/p')
[ "$major" ] || skip "no oneDNN"
LD_LIBRARY_PATH=$PWD
export LD_LIBRARY_PATH

printf '{"input_ids": [1, 2, 3, 4]}\n' >ids.jsonl
set -- calibrate "$SAMPLES/tiny-llama" --data ids.jsonl -o a

echo "this is no library" >"libdnnl.so.$major"
why="cannot load oneDNN, which multiplies matrices ($PWD/libdnnl.so.$major: file too short): "
fails 4 " calibrate: $why*" "$@"
"$FP8CONV" version | grep -qF "$why" || "$FP8CONV" version

ln -sf "$(ldd "$FP8CONV" | sed -n 's/.*libjansson\.so\.4 => \([^ ]*\).*/\1/p')" "libdnnl.so.$major"
fails 4 " calibrate: libdnnl.so.$major has no function dnnl_version: it is not oneDNN" "$@"
