#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file of oneDNN's name that is no library, and a library that is not oneDNN, are named.
. "$CLI/lib.sh"
major=$("$FP8CONV" version | sed -n 's/^calibrate	cpu: oneDNN \([0-9]*\)\..*/\1/p')
[ "$major" ] || skip "no oneDNN"
printf '{"input_ids": [1, 2, 3, 4]}\n' >ids.jsonl
set -- calibrate "$SAMPLES/tiny-llama" --data ids.jsonl -o a

# The variable of oneDNN that holds it to fewer instructions than the processor has is named, and its removal.
if grep -qw avx512f /proc/cpuinfo; then
	export ONEDNN_MAX_CPU_ISA=AVX2
	fails 4 " calibrate: tensor '*': oneDNN: primitive_desc_create failed with status 3 (not implemented for the instruction set \
that it may use): unset the environment variables ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA" "$@"
	unset ONEDNN_MAX_CPU_ISA
fi
LD_LIBRARY_PATH=$PWD
export LD_LIBRARY_PATH

echo "this is no library" >"libdnnl.so.$major"
why="cannot load oneDNN, which multiplies matrices ($PWD/libdnnl.so.$major: file too short): "
fails 4 " calibrate: $why*" "$@"
"$FP8CONV" version | grep -qF "$why" || "$FP8CONV" version

ln -sf "$(ldd "$FP8CONV" | sed -n 's/.*libjansson\.so\.4 => \([^ ]*\).*/\1/p')" "libdnnl.so.$major"
fails 4 " calibrate: libdnnl.so.$major has no function dnnl_version: it is not oneDNN" "$@"
