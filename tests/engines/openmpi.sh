# SPDX-License-Identifier: Apache-2.0
# Open MPI starts the tasks: 2, and 4 on fewer processors.  The program that was built with it shares a calibration.
. "$1/lib.sh"
need mpirun fp8conv-mpi
export OMPI_MCA_oob_tcp_if_include=127.0.0.1/8 # the loopback alone, whatever its addresses

for n in 2 4; do
	mpirun --allow-run-as-root --oversubscribe -n "$n" \
		fp8conv quantize model -o "openmpi/$n" --part auto --threads 1 --verbose 2>"openmpi/$n.log" || {
		cat "openmpi/$n.log"
		fail "mpirun failed"
	}
	parts "openmpi/$n.log" "$n"
	converted "openmpi/$n"
	# shellcheck disable=SC2046
	mpirun --allow-run-as-root --oversubscribe -n "$n" \
		fp8conv calibrate $(calibration) -o "openmpi/$n.amax" --ranks auto || fail "calibrate failed"
	calibrated "openmpi/$n.amax" "$n"
done

ranks() {
	n=$1
	shift
	timeout 60 mpirun --allow-run-as-root --oversubscribe -n "$n" "$@"
}
for n in 2 4; do
	shared "openmpi/mpi.$n" --batch 2 --histogram -- ranks "$n"
	shared "openmpi/mpi.$n" --batch 3 --fp8-forward --recipe delayed --ragged -- ranks "$n"
done

# `eval` prints what one process prints, but for its time and memory; it goes on from what one process kept, and keeps that.
evaluated() {
	python3 -c 'import json, sys
told = json.load(sys.stdin)
del told["seconds"], told["peak_memory_bytes"]
print(json.dumps(told, indent=1))'
}
for options in "" "--source model" "--source model --by-layer"; do
	# shellcheck disable=SC2086
	fp8conv eval wanted --data calibration.jsonl --threads 1 --json --quiet $options | evaluated >openmpi/eval.one
	grep -q '"perplexity"' openmpi/eval.one || fail "one process failed"
	rm -f openmpi/kept.*
	# shellcheck disable=SC2086
	fp8conv eval wanted --data calibration.jsonl --threads 1 --json --quiet $options --resume openmpi/kept.one >/dev/null
	for n in 2 4; do
		# shellcheck disable=SC2086
		ranks "$n" fp8conv-mpi eval wanted --data calibration.jsonl --threads 1 --json --quiet --ranks mpi $options |
			evaluated >openmpi/eval.mpi
		diff openmpi/eval.one openmpi/eval.mpi || fail "eval $options by $n ranks differs from one process"
		# shellcheck disable=SC2086
		fp8conv eval wanted --data calibration.jsonl --passes 3 --quiet $options --resume "openmpi/kept.$n" >/dev/null
		# shellcheck disable=SC2086
		ranks "$n" fp8conv-mpi eval wanted --data calibration.jsonl --threads 1 --json --quiet --ranks mpi $options \
			--resume "openmpi/kept.$n" | evaluated | diff openmpi/eval.one - || fail "eval $options --resume by $n ranks differs"
		cmp openmpi/kept.one "openmpi/kept.$n" || fail "eval $options by $n ranks keeps other numbers"
	done
done

# `sensitivity` writes the table of one process, in any number of rounds, and goes on from one that is unfinished.
sensitivity="sensitivity $here/../../sample_checkpoints/tiny-moe/per-expert --data calibration.jsonl --passes 7 --threads 1
	--recipe blockwise,mxfp8 --ragged --quiet"
# shellcheck disable=SC2086
fp8conv $sensitivity -o openmpi/kld.one || fail "one process failed"
python3 -c 'import json
table = json.load(open("openmpi/kld.one"))
for group in table["groups"][3:]:
    group["kld"] = None
for recipe in table["recipes"]:
    recipe["kld_sum"] = None
json.dump(table, open("openmpi/kld.begun", "w"))' || fail "no unfinished table"
for n in 2 4; do
	cp openmpi/kld.begun "openmpi/.kld.$n.unfinished"
	# shellcheck disable=SC2086
	for options in "" --restart; do
		ranks "$n" fp8conv-mpi $sensitivity -o "openmpi/kld.$n" --ranks mpi $options || fail "sensitivity failed"
		cmp openmpi/kld.one "openmpi/kld.$n" || fail "the table of $n ranks differs from that of one process"
	done
	[ ! -e "openmpi/.kld.$n.unfinished" ] || fail "the unfinished table stays"
done
# shellcheck disable=SC2016,SC2086
ranks 2 sh -c 'exec fp8conv-mpi "$@" --passes $((OMPI_COMM_WORLD_RANK + 5))' sh \
	$sensitivity -o openmpi/none --ranks mpi 2>openmpi/err
[ $? = 2 ] || fail "not the status of wrong usage: $(cat openmpi/err)"
grep -q '^fp8conv sensitivity: the ranks have different models, data' openmpi/err || fail "$(cat openmpi/err)"
[ "$(grep -c '^fp8conv' openmpi/err)" = 1 ] || fail "not one message: $(cat openmpi/err)"

# `quantize --rounding compensated` writes the files of one process.
python3 -c 'for i in range(200): print("{\"input_ids\":", [(i * 31 + j * j) % 2000 for j in range(64)], "}")' >long.jsonl
python3 -c 'for i in range(40): print("{\"input_ids\":", [(i * 31 + j * j) % 199 for j in range(9 + i % 5)], "}")' >short.jsonl
"$MODEL_MAKER" --layers 4 --hidden 256 --intermediate 512 --vocab 2000 --shards 1 openmpi/small >openmpi/maker.log || fail "no model"
rounded() {
	name=$1 counts=$2
	shift 2
	fp8conv quantize "$@" -o "openmpi/$name.one" --rounding compensated --quiet || fail "one process failed"
	for n in $counts; do
		ranks "$n" fp8conv-mpi quantize "$@" -o "openmpi/$name.$n" --rounding compensated --quiet --ranks mpi ||
			fail "quantize failed"
		diff -r "openmpi/$name.one" "openmpi/$name.$n" || fail "the files of $n ranks differ from one process's"
	done
}
samples=$here/../../sample_checkpoints
rounded dense "2 4" openmpi/small --data long.jsonl --passes 80 --threads 1
rounded moe "2 4" "$samples/tiny-moe/per-expert" --data short.jsonl --ragged --recipe mxfp8 --threads 2
rounded domains 3 "$samples/tiny-llama" --data short.jsonl --data calibration.jsonl --passes 14 --shrink 0.5 --recipe current \
	--threads 1
for name in dense.4 moe.4 domains.3; do
	python3 -c 'import json, sys
sys.exit(json.load(open(sys.argv[1]))["rounding"]["rounding"] != "compensated")' openmpi/$name/fp8conv-manifest.json ||
		fail "the codes of $name are the nearest"
done

# All end with one message, and its status; a rank that fails alone is named.
ranks 2 fp8conv-mpi calibrate missing --data calibration.jsonl -o openmpi/none --ranks mpi 2>openmpi/err
[ $? = 3 ] || fail "not the status of bad input"
[ "$(grep -c '^fp8conv' openmpi/err)" = 1 ] || fail "not one message: $(cat openmpi/err)"
# shellcheck disable=SC2016
ranks 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec fp8conv-mpi "$@" --data calibration.jsonl
	exec fp8conv-mpi "$@" --data missing' sh calibrate model -o openmpi/none --ranks mpi 2>openmpi/err
[ $? = 3 ] || fail "not the status of bad input on one rank"
grep -q "^fp8conv calibrate: rank 1 of 2 on .*: cannot open 'missing'" openmpi/err || fail "$(cat openmpi/err)"
[ "$(grep -c '^fp8conv' openmpi/err)" = 1 ] || fail "not one message: $(cat openmpi/err)"

# mpirun ends the job with the first status; the message comes before, whatever time the terminal of the leading rank takes.
cat >openmpi/slow.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec fp8conv-mpi "$@"
{
	yes '' | head -c 65536 >&2 # fills the pipe
	fp8conv-mpi "$@"
} 2>&1 >/dev/null | {
	sleep 4
	cat >openmpi/slow.err
}
END
ranks 2 sh openmpi/slow.sh calibrate missing --data calibration.jsonl -o openmpi/none --ranks mpi 2>openmpi/err
[ $? = 3 ] || fail "not the status of bad input"
grep -q "^fp8conv calibrate: cannot open 'missing" openmpi/slow.err || fail "no message: $(cat openmpi/err)"

# Tasks of an engine that does not speak MPI would each be a job of one rank.
RANK=0 WORLD_SIZE=2 fp8conv-mpi calibrate model --data calibration.jsonl -o openmpi/none --ranks mpi 2>openmpi/err
[ $? = 2 ] && grep -q "torchrun says that there are 2 tasks, but MPI knows only this one" openmpi/err || fail "$(cat openmpi/err)"

# Rank 1 is killed after the first sweep: the job ends and names it, its passes are kept, and the next run continues them.
long="openmpi/small --data long.jsonl --passes 200 --threads 1 --max-memory 3M --quiet"
# shellcheck disable=SC2086
fp8conv calibrate $long -o openmpi/long.one || fail "one process failed"
cat >openmpi/killed.sh <<'END'
fp8conv-mpi "$@" &
pid=$!
[ "$OMPI_COMM_WORLD_RANK" = 1 ] || {
	wait "$pid"
	exit
}
while [ ! -e "$file" ]; do sleep 0.02; done
exec >openmpi/killed
kill -s KILL "$pid"
kill -s KILL $$
END
# killed_at FILE COMMAND...: a job whose rank 1 is killed when there is that file: it ends, and names the rank.
killed_at() {
	file=$1
	shift
	export file
	rm -f openmpi/killed
	ranks 2 sh openmpi/killed.sh "$@" --ranks mpi 2>openmpi/err && fail "the job did not fail"
	[ -e openmpi/killed ] || fail "no rank was killed: $(cat openmpi/err)"
	[ $(($(date +%s) - $(stat -c %Y openmpi/killed))) -le 10 ] || fail "the job did not end in 10 seconds"
	grep -q 'rank 1 .*on signal 9' openmpi/err || fail "the rank is not named: $(cat openmpi/err)"
}
# shellcheck disable=SC2086
killed_at openmpi/long calibrate $long -o openmpi/long
kept=$(fp8conv inspect openmpi/long --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["metadata"]["passes"])')
[ "$kept" -gt 0 ] && [ "$kept" -lt 200 ] || fail "$kept of 200 passes were kept"
# shellcheck disable=SC2086
ranks 4 fp8conv-mpi calibrate $long -o openmpi/long --ranks mpi --resume || fail "the job was not continued"
cmp openmpi/long openmpi/long.one || fail "the continued calibration differs from that of one process"

# The same of `sensitivity`, after its first round.
rounds="sensitivity openmpi/small --data long.jsonl --passes 64 --threads 1 --max-memory 36M --quiet"
# shellcheck disable=SC2086
fp8conv $rounds -o openmpi/rounds.one || fail "one process failed"
# shellcheck disable=SC2086
killed_at openmpi/.rounds.unfinished $rounds -o openmpi/rounds
[ -e openmpi/.rounds.unfinished ] && [ ! -e openmpi/rounds ] || fail "no round was kept"
# shellcheck disable=SC2086
ranks 4 fp8conv-mpi $rounds -o openmpi/rounds --ranks mpi || fail "the job was not continued"
cmp openmpi/rounds openmpi/rounds.one || fail "the continued table differs from that of one process"

# The same of `quantize`, after its first layer.
compensated="quantize openmpi/small --rounding compensated --data long.jsonl --passes 200 --threads 1 --quiet"
# shellcheck disable=SC2086
fp8conv $compensated -o openmpi/layers.one || fail "one process failed"
# shellcheck disable=SC2086
killed_at openmpi/layers/.fp8conv.rounding-00000 $compensated -o openmpi/layers
[ -e openmpi/layers/.fp8conv.rounding-00000 ] && [ ! -e openmpi/layers/config.json ] || fail "no layer was kept"
# shellcheck disable=SC2086
ranks 4 fp8conv-mpi $compensated -o openmpi/layers --ranks mpi || fail "the job was not continued"
diff -r openmpi/layers.one openmpi/layers || fail "the continued job differs from that of one process"
