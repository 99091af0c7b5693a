#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Each rank runs its sequences of the same passes; merge --ranks makes the bytes that one process writes.
need "$SAMPLES/tiny-moe/fused" "$SAMPLES/tiny-llama"
for i in 1 2 3 4 5 6 7 8 9 10 11; do
	printf '{"input_ids": [%d, 2, 30, 4, %d, %d]}\n' $i $((i * 7)) $((i * 3))
done >ids.jsonl
moe=$SAMPLES/tiny-moe/fused
set -- --data ids.jsonl --min-tokens 1 --quiet --histogram

# least OPTION...: the least memory of a rank, which makes a sweep of the fewest passes.
least() {
	"$FP8CONV" calibrate "$@" --dry-run --max-memory 1 2>&1 | sed -n 's/.*one pass (\([0-9]*\)).*/\1/p'
}

# ranks N NAME OPTION...: all ranks, joined in another order than theirs, against one process.
ranks() {
	n=$1
	name=$2
	shift 2
	for rank in $(seq "$n"); do
		memory=$(least "$@" --ranks $rank/$n --threads 2)
		[ $((rank % 3)) = 2 ] || memory=16M
		"$FP8CONV" calibrate "$@" -o $name.amax --ranks $rank/$n --threads 2 --max-memory "$memory"
	done
	# shellcheck disable=SC2046
	"$FP8CONV" merge --ranks $(ls -r $name.amax.*-of-$n) -o $name.amax
	cmp $name.amax one.amax
	[ -z "${keep-}" ] && rm $name.amax*
}
for batch in 1 2 3 4 11; do
	"$FP8CONV" calibrate "$moe" "$@" --batch $batch -o one.amax --restart
	for n in 2 3 4 11; do
		ranks $n s "$moe" "$@" --batch $batch
	done
done
"$FP8CONV" calibrate "$moe" "$@" --seed 5 --passes 7 --amax-history-len 3 -o one.amax --restart
ranks 4 s "$moe" "$@" --seed 5 --passes 7 --amax-history-len 3
"$FP8CONV" calibrate "$SAMPLES/tiny-llama" "$@" --fp8-forward --recipe current -o one.amax --restart
keep=1 ranks 4 s "$SAMPLES/tiny-llama" "$@" --fp8-forward --recipe current
for batch in 2 3; do
	"$FP8CONV" calibrate "$SAMPLES/tiny-llama" "$@" --batch $batch --fp8-forward --recipe current -o batch.amax --restart
	mv one.amax kept.amax && mv batch.amax one.amax
	ranks 2 b "$SAMPLES/tiny-llama" "$@" --batch $batch --fp8-forward --recipe current
	mv kept.amax one.amax
done
"$FP8CONV" calibrate "$SAMPLES/tiny-llama" "$@" --ranks 1/1 --fp8-forward --recipe current -o whole.amax
cmp whole.amax one.amax

# A killed rank goes on, by itself.
set -- "$moe" --data ids.jsonl --quiet --batch 2 --threads 1
"$FP8CONV" calibrate "$@" -o one-k.amax
"$FP8CONV" calibrate "$@" -o k.amax --ranks 1/3
"$FP8CONV" calibrate "$@" -o k.amax --ranks 3/3
"$FP8CONV" calibrate "$@" -o k.amax --ranks 2/3 --max-memory "$(least "$@" --ranks 2/3)" 2>/dev/null &
while [ ! -e k.amax.2-of-3 ] && kill -0 $! 2>/dev/null; do :; done
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
"$FP8CONV" calibrate "$@" -o k.amax --ranks 2/3 --resume
"$FP8CONV" merge --ranks k.amax.*-of-3 -o k.amax
cmp k.amax one-k.amax
set -- --data ids.jsonl --min-tokens 1 --quiet --histogram

# Tasks of an engine do not write the same file.
for rank in 0 1 2 3; do
	RANK=$rank WORLD_SIZE=4 "$FP8CONV" calibrate "$SAMPLES/tiny-llama" "$@" --fp8-forward --recipe current \
		-o auto.amax --ranks auto &
done
wait
for rank in 1 2 3 4; do cmp auto.amax.$rank-of-4 s.amax.$rank-of-4; done
[ ! -e auto.amax ] || echo "a rank wrote the output of all"

# Only all ranks of one calibration, each once and complete, become a history.
f=$SAMPLES/tiny-llama
fails 3 " merge: the file of rank 3 of 4 is missing: give the files of all ranks" \
	merge --ranks s.amax.1-of-4 s.amax.2-of-4 s.amax.4-of-4 -o no.amax
fails 3 " merge: 's.amax.1-of-4' and 's.amax.1-of-4' are both of rank 1 of 4: give each rank once" \
	merge --ranks s.amax.1-of-4 s.amax.2-of-4 s.amax.3-of-4 s.amax.1-of-4 -o no.amax
fails 3 " merge: 's.amax.1-of-4' is of rank 1 of 4: join the files of all ranks by 'fp8conv merge --ranks'" \
	merge s.amax.?-of-4 -o no.amax
fails 3 " merge: 's.amax.1-of-4' and 'one.amax' are not ranks of the same calibration: *" \
	merge --ranks s.amax.1-of-4 one.amax -o no.amax
fails 3 " merge: 'one.amax' and 's.amax.1-of-4' are not ranks of the same calibration: *" \
	merge --ranks one.amax s.amax.1-of-4 -o no.amax
fails 3 "*'s.amax.2-of-4' is of rank 2 of 4: join the files of all ranks *" \
	quantize "$f" -o no --recipe delayed --calibration s.amax.2-of-4
sed s/30/31/ ids.jsonl >other.jsonl
for other in "--data other.jsonl" "--data ids.jsonl --batch 2" "--data ids.jsonl --passes 10" \
	"--data ids.jsonl --amax-history-len 9"; do
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate "$f" $other --quiet --histogram --fp8-forward --recipe current -o x.amax --ranks 4/4 --restart
	fails 3 " merge: 's.amax.1-of-4' and 'x.amax.4-of-4' are not ranks of the same calibration: *" \
		merge --ranks s.amax.1-of-4 s.amax.2-of-4 s.amax.3-of-4 x.amax.4-of-4 -o no.amax
done
python3 - <<'END'
import amax
m, t = amax.read("s.amax.3-of-4")
m["backend"] = "cuda"
amax.write("cuda.amax", m, t)
END
fails 3 " merge: 'cuda.amax' was made by backend 'cuda', the earlier ranks by 'cpu': run all ranks with *" \
	merge --ranks s.amax.1-of-4 s.amax.2-of-4 cuda.amax s.amax.4-of-4 -o no.amax
[ ! -e no.amax ] || echo "a refused merge wrote a file"

# Resuming: the same rank of the same calibration.
cp s.amax.1-of-4 r.amax.2-of-4
set -- "$f" --data ids.jsonl --histogram --fp8-forward --recipe current -o r.amax
fails 3 " calibrate: 'r.amax.2-of-4' was made with another --ranks (1/4, now 2/4): *" calibrate "$@" --ranks 2/4 --resume
cp s.amax.2-of-4 r.amax.2-of-4
fails 3 " calibrate: 'r.amax.2-of-4' was made with other data, --passes, *" calibrate "$@" --ranks 2/4 --resume --passes 9
"$FP8CONV" calibrate "$@" --ranks 2/4 --resume --quiet && cmp r.amax.2-of-4 s.amax.2-of-4

fails 2 " calibrate: option '--ranks': 12 ranks have 11 sequences: use at most 11 ranks, or more data" \
	calibrate "$@" --ranks 3/12 --restart
fails 2 " calibrate: option '--ranks' cannot be combined with --fp8-forward and recipe 'delayed': *" \
	calibrate "$f" --data ids.jsonl --fp8-forward --recipe delayed -o d.amax --ranks 1/2
fails 2 " calibrate: option '--ranks': '3/2' is not I/N with I from 1 to N, 'auto' or 'mpi'" calibrate "$@" --ranks 3/2

# inspect tells a share from a history.
"$FP8CONV" inspect s.amax.2-of-4 --json >share.json
python3 -c 'import json; assert json.load(open("share.json"))["rank"] == "2/4"'
"$FP8CONV" merge --ranks s.amax.*-of-4 -o whole.amax --quiet
"$FP8CONV" inspect whole.amax --json >whole.json
python3 -c 'import json; assert "rank" not in json.load(open("whole.json"))'

# Metadata that no rank writes.
edit() {
	python3 - "$1" "$2" <<-'END'
		import sys, amax
		m, t = amax.read("s.amax.1-of-4")
		exec(sys.argv[2])
		amax.write(sys.argv[1], m, t)
	END
}
for rank in 0/4 5/4 1/0 1/1000001 01/4 1/4x -1/4 14 1/18446744073709551617; do
	edit bad.amax "m['rank'] = '$rank'"
	fails 3 "*'rank' of 'bad.amax' is '$rank', not I/N with I from 1 to N, at most 1000000" inspect bad.amax
done
edit bad.amax "m['ranks'] = 'A' * 32"
fails 3 "*'ranks' of 'bad.amax' is '*', not 32 hexadecimal digits" inspect bad.amax
edit bad.amax "del m['ranks']"
fails 3 "*'ranks' of 'bad.amax' is missing" inspect bad.amax
edit bad.amax "del m['rank']"
fails 3 "*'rank' of 'bad.amax' is missing" inspect bad.amax
