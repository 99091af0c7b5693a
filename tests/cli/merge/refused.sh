#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What does not belong together, and nothing is written.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
amax make "$SAMPLES/tiny-llama" a.amax passes=3
amax make "$SAMPLES/tiny-llama" four.amax passes=4 seed=4
amax make "$SAMPLES/tiny-llama" f32.amax precision=f32
amax make "$SAMPLES/tiny-llama" other.amax model=00
amax make "$SAMPLES/tiny-llama" histogram.amax histogram=1
amax make "$SAMPLES/tiny-llama" less.amax drop=model.layers.1.mlp.up_proj
ours=$(amax fingerprint "$SAMPLES/tiny-llama")
fails 3 " merge: the model fingerprint of 'other.amax' is '00', but '$ours' in the earlier files" merge a.amax other.amax -o o
fails 3 " merge: precision of 'f32.amax' is 'f32', but 'bf16' in the earlier files" merge a.amax f32.amax -o o
fails 3 " merge: 'four.amax' has 4 passes, but the earlier files have 3: ranks must have the same passes" merge --ranks a.amax four.amax -o o
fails 3 " merge: 'less.amax' has no module 'model.layers.1.mlp.up_proj', but the earlier files have it" merge a.amax less.amax -o o
fails 3 " merge: 'a.amax' has module 'model.layers.1.mlp.up_proj', but the earlier files do not have it" merge less.amax a.amax -o o
fails 3 " merge: only one of 'histogram.amax' and the earlier files has a histogram for module 'model.layers.0.mlp.down_proj'" \
	merge a.amax histogram.amax -o o
cp "$SAMPLES/tiny-llama/model.safetensors" .
fails 3 " merge: 'model.safetensors' is not an amax file: its metadata has no 'fp8conv_amax'" merge a.amax model.safetensors -o o
fails 3 " merge: cannot open 'nowhere': No such file or directory" merge a.amax nowhere -o o
fails 3 " merge: cannot open 'nowhere': No such file or directory" merge nowhere a.amax -o o
fails 2 " merge: 'a.amax' is the only input file: give two or more" merge a.amax -o o
fails 2 " merge: A.amax is missing (fp8conv merge A.amax B.amax... -o C.amax)" merge -o o
fails 2 " merge: option '--output' is missing: give an output file (-o C.amax)" merge a.amax four.amax
fails 2 " merge: input and output are the same file 'four.amax'" merge a.amax four.amax -o ./four.amax
fails 2 " merge: './' is not the name of a file" merge a.amax four.amax -o ./
# Only a history is replaced.
cp model.safetensors kept && printf 'ids' >ids.jsonl && mkdir folder
fails 2 " merge: 'model.safetensors' exists and is not an amax file: choose another output or remove it" \
	merge a.amax a.amax -o model.safetensors
fails 2 " merge: 'ids.jsonl' exists and is not an amax file: *" merge a.amax a.amax -o ids.jsonl
fails 3 " merge: cannot replace 'folder': *" merge a.amax a.amax -o folder
cmp model.safetensors kept
[ "$(cat ids.jsonl)" = ids ] || echo "ids.jsonl is gone"
"$FP8CONV" merge a.amax four.amax -o old.amax && "$FP8CONV" merge four.amax a.amax -o old.amax
[ -e o ] && echo "o was written"
exit 0
