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
