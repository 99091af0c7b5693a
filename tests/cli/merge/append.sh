#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Passes behind each other, counts added, the oldest dropped where the history is full: as amax.py has it, in any grouping.
need "$SAMPLES/tiny-llama"
amax() { python3 "$CLI/amax.py" "$@"; }
amax make "$SAMPLES/tiny-llama" a.amax seed=1 passes=3 len=7 histogram=1
amax make "$SAMPLES/tiny-llama" b.amax seed=2 passes=4 len=5 histogram=1
amax make "$SAMPLES/tiny-llama" c.amax seed=3 passes=2 len=7 histogram=1
amax merge append wanted.amax a.amax b.amax c.amax
"$FP8CONV" merge a.amax b.amax c.amax -o abc.amax
amax same abc.amax wanted.amax
"$FP8CONV" merge a.amax b.amax --output ab.amax
"$FP8CONV" merge ab.amax c.amax --output ab-c.amax
"$FP8CONV" merge b.amax c.amax --output bc.amax
"$FP8CONV" merge a.amax bc.amax --output a-bc.amax
cmp abc.amax ab-c.amax
cmp abc.amax a-bc.amax
"$FP8CONV" inspect --json abc.amax >j
json j 'j["passes"] == 9 and {s["passes"] for s in j["sites"]} == {7}' 'j["tokens"] == 9 * 16'
"$FP8CONV" merge a.amax b.amax c.amax -o abc.amax --json >j
json j 'j == {"schema": 1, "output": "abc.amax", "inputs": 3, "passes": 9, "tokens": 9 * 16, "notes": []}'
# The same data twice is said, and merged all the same.
cp b.amax again.amax
for how in "" --ranks; do
	# shellcheck disable=SC2086
	"$FP8CONV" merge $how b.amax again.amax -o twice.amax 2>err
	[ "$(cat err)" = "fp8conv merge: note: 'b.amax' and 'again.amax' are of the same data, which counts twice" ] || cat err
done
"$FP8CONV" merge b.amax a.amax b.amax -o twice.amax 2>err
[ "$(cat err)" = "fp8conv merge: note: 'b.amax' and 'b.amax' are of the same data, which counts twice" ] || cat err
"$FP8CONV" inspect --json twice.amax >j
json j 'j["tokens"] == 11 * 16'
"$FP8CONV" merge b.amax a.amax b.amax -o twice.amax --json --quiet >j
json j 'j["notes"] == ["'"'b.amax' and 'b.amax' are of the same data, which counts twice"'"]'
rm again.amax twice.amax err
# No lock and nothing unfinished is left.
ls -A | grep -v '^\(a\|b\|c\|ab\|bc\|abc\|ab-c\|a-bc\|wanted\)\.amax$' | grep -v '^j$'

mkdir next
cd next
# The maximum of each pass, the sum of what was counted: the same bytes in any order and grouping.
need "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
for i in 1 2 3; do
	amax make "$SAMPLES/tiny-moe/fused" $i.amax seed=$i passes=4 histogram=1
done
amax merge ranks wanted.amax 1.amax 2.amax 3.amax
"$FP8CONV" merge --ranks 1.amax 2.amax 3.amax -o 123.amax
amax same 123.amax wanted.amax
for order in "1 3 2" "2 1 3" "2 3 1" "3 1 2" "3 2 1"; do
	# shellcheck disable=SC2086
	set -- $order
	"$FP8CONV" merge --ranks "$1.amax" "$2.amax" "$3.amax" -o other.amax
	cmp 123.amax other.amax
done
"$FP8CONV" merge --ranks 3.amax 2.amax -o 32.amax
"$FP8CONV" merge --ranks 32.amax 1.amax -o 32-1.amax
cmp 123.amax 32-1.amax

mkdir next
cd next
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
