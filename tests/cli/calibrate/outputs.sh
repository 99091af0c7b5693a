#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What lies at the output already: only a history is replaced, and gone on with only where it is the same run's.
need "$SAMPLES/tiny-llama" "flock()"
c=" calibrate: "
q=model.layers.0.self_attn.q_proj
mkdir -p there/folder
cp -r "$SAMPLES/tiny-llama" there/model
for i in 1 2 3 4; do
	printf '{"input_ids": [%d, 2, 3, 4]}\n' $i
done >there/ids.jsonl
snapshot there >before
set -- calibrate there/model --data there/ids.jsonl --min-tokens 1
for output in model/model.safetensors model/config.json ids.jsonl; do
	fails 2 "${c}'there/$output' exists and is not an amax file: choose another output or remove it" \
		"$@" -o there/$output --restart
done
fails 3 "${c}cannot replace 'there/folder': *" "$@" -o there/folder --restart
fails 3 "$c*there/ids.jsonl*" "$@" -o there/ids.jsonl --resume
exec 9>there/.s.amax.lock
flock 9
fails 4 "${c}'there/s.amax' is in use by another fp8conv: try again after it ends" "$@" -o there/s.amax
fails 4 " merge: 'there/s.amax' is in use by another fp8conv: try again after it ends" merge "$SAMPLES"/amax/tiny-llama-[12].amax -o there/s.amax
exec 9>&-
rm there/.s.amax.lock
snapshot there | diff before -

# edit NAME STATEMENT: a history of two passes as Python changes it (m: metadata, t: tensors).
edit() {
	python3 - "$1" "$2" <<-'END'
		import sys, amax
		m, t = amax.read("two.amax")
		site = "model.layers.0.self_attn.q_proj"
		attention = "model.layers.0.self_attn"
		exec(sys.argv[2])
		amax.write(sys.argv[1], m, t)
	END
}
"$FP8CONV" "$@" --passes 2 -o two.amax
kind() { echo "t['$1.amax_history$3'] = t.pop('$1.amax_history$2')"; }
edit s.amax "$(kind $q '' _qkv)"
fails 3 "${c}'$q' in 's.amax' is not an attention of this model: use --restart to start over" "$@" -o s.amax --resume
edit s.amax "$(kind model.layers.0.self_attn _qkv '')"
fails 3 "${c}'model.layers.0.self_attn' in 's.amax' is not a module of this model: use --restart to start over" "$@" -o s.amax --resume
edit s.amax "del t['$q.amax_history'], t['$q.tokens']"
fails 3 "${c}'$q' is not in 's.amax', which holds 2 passes: use --restart to start over" "$@" -o s.amax --resume
edit s.amax "t['$q.amax_history'] = 'F32', [1, 3], bytes(12); t['$q.tokens'] = 'I64', [1], bytes(8)"
fails 3 "${c}'$q' in 's.amax' has 1 passes, not 2: use --restart to start over" "$@" -o s.amax --resume
# Counts that a sum of int64 would not hold.
edit s.amax "t['$q.tokens'] = 'I64', [2], (2**63 - 1).to_bytes(8, 'little') * 2"
"$FP8CONV" "$@" --passes 2 -o s.amax --resume
fails 3 "${c}'two.amax' was made with another --histogram (none, now given): *" "$@" -o two.amax --resume --histogram
fails 3 "${c}'two.amax' was made with another --amax-history-len (1024, now 3): *" \
	"$@" -o two.amax --resume --amax-history-len 3
"$FP8CONV" "$@" -o two.amax --resume && "$FP8CONV" "$@" -o four.amax && cmp two.amax four.amax
"$FP8CONV" "$@" -o s.amax --restart && cmp s.amax four.amax

mkdir next
cd next
# A file of oneDNN's name that is no library, and a library that is not oneDNN, are named.
major=$("$FP8CONV" version | sed -n 's/^calibrate	cpu: oneDNN \([0-9]*\)\..*/\1/p')
[ "$major" ] || skip "no oneDNN"
printf '{"input_ids": [1, 2, 3, 4]}\n' >ids.jsonl
set -- calibrate "$SAMPLES/tiny-llama" --data ids.jsonl -o a

# The variable of oneDNN that holds it to fewer instructions than the processor has is named, and its removal.
if "$FP8CONV" version | grep -q "^CPU features.* avx512f"; then
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

ln -sf "$(LD_TRACE_LOADED_OBJECTS=1 "$FP8CONV" | sed -n 's/.*libjansson\.so\.4 => \([^ ]*\).*/\1/p')" "libdnnl.so.$major"
fails 4 " calibrate: libdnnl.so.$major has no function dnnl_version: it is not oneDNN" "$@"
