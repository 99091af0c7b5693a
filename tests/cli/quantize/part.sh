#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Parts make the whole, in any order; whoever is last writes the end.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o wanted
for order in '1 2' '2 1'; do
	for part in $order; do
		[ ! -e out/config.json ] || echo "config.json is there before the last part"
		"$FP8CONV" quantize "$model" -o out --part "$part/2"
	done
	same wanted out
	rm -rf out
done
"$FP8CONV" quantize "$model" -o out --part 1/2
fails 2 " quantize: 1 of 2 shards*" quantize "$model" -o out --part finish
"$FP8CONV" quantize "$model" -o out --part 2/2
"$FP8CONV" quantize "$model" -o out --part finish
same wanted out
rm -rf out
for part in 1 2 3 4 5; do
	"$FP8CONV" quantize "$model" -o out --part $part/5
done
same wanted out
rm -rf out
# All at once.
for part in 1 2; do
	"$FP8CONV" quantize "$model" -o out --part $part/2 &
done
wait
same wanted out
fails 2 " quantize: *" quantize "$model" -o - --part 1/2

mkdir next
cd next
# --part auto takes the place of a task from the variables that srun(1), sbatch(1), mpirun, torchrun and Kubernetes document.
need "$SAMPLES/tiny-llama"

# in_job WANTED [--] VARIABLE=VALUE... [auto/N]: the part that a task with these variables converts, or its error.
in_job() {
	wanted=$1
	option=auto
	shift
	for last; do :; done
	case ${last-} in auto/*) option=$last ;; esac
	rm -rf out
	# shellcheck disable=SC2046
	said=$(env -i $(for word; do case $word in *=*) echo "$word" ;; esac; done) \
		"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --part "$option" --verbose 2>&1 >/dev/null |
		sed -n 's/^part  *//p; / note: /d; s/^fp8conv quantize: //p')
	# shellcheck disable=SC2254
	case $said in
	$wanted) ;;
	*) echo "$* $option: '$said', expected '$wanted'" ;;
	esac
}

in_job '3 of 4' SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4
in_job '3 of 4' SLURM_PROCID=2 SLURM_NTASKS=4
in_job '3 of 4' SLURM_PROCID=2 SLURM_NTASKS=4 auto/4
in_job '4 of 4' SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=4
# The script of a job is one process, for how many tasks it ever asked.
in_job '1 of 1' SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=8
in_job '4 of 4' SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_COUNT=4
in_job '3 of 4' SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_STEP=2 \
	SLURM_ARRAY_TASK_COUNT=4
in_job '1 of 2' OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2
in_job '2 of 2' PMI_RANK=1 PMI_SIZE=2
in_job '8 of 8' RANK=7 WORLD_SIZE=8 LOCAL_RANK=1
# torchrun starts its tasks within a task of Slurm; PMIx tells no number, Slurm does.
in_job '8 of 8' RANK=7 WORLD_SIZE=8 SLURM_PROCID=1 SLURM_NTASKS=2
in_job '2 of 2' PMIX_RANK=1 SLURM_PROCID=1 SLURM_NTASKS=2
in_job '2 of 3' PMIX_RANK=1 auto/3
in_job '1 of 5' JOB_COMPLETION_INDEX=0 auto/5
# Three tasks of an array that start two tasks each are six.
n=0
for id in 4 5 6; do
	for task in 0 1; do
		n=$((n + 1))
		in_job "$n of 6" SLURM_ARRAY_TASK_ID=$id SLURM_ARRAY_TASK_MIN=4 SLURM_ARRAY_TASK_MAX=6 SLURM_ARRAY_TASK_COUNT=3 \
			SLURM_PROCID=$task SLURM_NTASKS=2
	done
done

in_job '*: found no task index in the environment (Slurm, Open MPI, *'
in_job '*: found no task index in the environment (Slurm, Open MPI, *' auto/4
in_job '*: found no task index in the environment (Slurm, Open MPI, *' RANK= auto/4
in_job '*: Kubernetes does not set the number of tasks: *' JOB_COMPLETION_INDEX=0
in_job '*: Kubernetes says that this is task 5, *' JOB_COMPLETION_INDEX=5 auto/5
in_job '*: torchrun says that there are 8 tasks, the option says 4: *' RANK=0 WORLD_SIZE=8 auto/4
in_job "*'RANK' is '8', not a number below 8" RANK=8 WORLD_SIZE=8
in_job "*'RANK' is '-1', *" RANK=-1 WORLD_SIZE=8
in_job "*'RANK' is '0x1', *" RANK=0x1 WORLD_SIZE=8
in_job "*'WORLD_SIZE' is 0*" RANK=0 WORLD_SIZE=0
in_job "*'WORLD_SIZE' is '99999999999999999999', *" RANK=0 WORLD_SIZE=99999999999999999999
in_job '*: the 3 tasks of the Slurm array are not evenly spaced *' SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=1 \
	SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=3
in_job '*evenly spaced*' SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=0 SLURM_ARRAY_TASK_STEP=0 \
	SLURM_ARRAY_TASK_COUNT=1
in_job "*'SLURM_ARRAY_TASK_MAX' is not set" SLURM_ARRAY_TASK_ID=3
for bad in auto/ auto/0 auto/x auto/1000001; do
	in_job "*'$bad' is not auto/N with N from 1 to 1000000" RANK=0 $bad
done

# Tasks that run at once write what one process writes; one of them is killed and started again.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o wanted --quiet
rm -rf out
RANK=1 WORLD_SIZE=2 "$FP8CONV" quantize "$model" -o out --part auto --quiet &
sleep 0.01
kill -KILL $! 2>killed
wait $! 2>killed
for rank in 0 1; do
	RANK=$rank WORLD_SIZE=2 "$FP8CONV" quantize "$model" -o out --part auto --quiet &
done
wait
same wanted out

# --max-shard-size: the files have other names and the same tensors, for all commands; the size is part of the job.
need "$SAMPLES/tiny-llama"
mkdir ../sizes
cd ../sizes
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --max-shard-size 0.1MB --quiet
[ "$(echo out/*.safetensors | wc -w)" = 9 ] || ls out
[ -e out/model-00009-of-00009.safetensors ] || ls out
"$FP8CONV" verify out --source "$SAMPLES/tiny-llama" --quiet
# Decimal, as Hugging Face's libraries read it, unless the unit is KiB; nothing is done again.
snapshot out >before
for size in 100000 100K 100kb 0.1MB 0.0001G 97.65625KiB 0.0000001TB; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --max-shard-size $size --quiet
done
snapshot out | cmp - before
fails 2 " quantize: 'out' holds the output of another job: option 'max_shard_size' differs *" \
	quantize "$SAMPLES/tiny-llama" -o out --max-shard-size 100KiB
fails 2 " quantize: 'out' contains 'model-00001-of-00009.safetensors' from another job: *" \
	quantize "$SAMPLES/tiny-llama" -o out --restart
rm out/model-00004-of-00009.safetensors
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --max-shard-size 100KB --quiet
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --max-shard-size 100KB --restart --quiet
for part in 3 1 2; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o parts --max-shard-size 100KB --quiet --part $part/3
done
same out parts
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o whole --quiet
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o one --max-shard-size 1TB --quiet
same whole one
"$FP8CONV" dequantize out -o values --max-shard-size 200KB --quiet
"$FP8CONV" dequantize whole -o wanted --quiet
"$FP8CONV" repack out -o repacked --format compressed-tensors --max-shard-size 1GB --quiet
"$FP8CONV" repack whole -o rewhole --format compressed-tensors --quiet
cmp repacked/model.safetensors rewhole/model.safetensors
"$FP8CONV" dequantize values -o x --quiet 2>&1 | grep -q 'nothing to dequantize' || echo "values has FP8 weights"
"$FP8CONV" quantize values -o twice --max-shard-size 1GB --quiet
"$FP8CONV" quantize wanted -o twice-whole --quiet
cmp twice/model.safetensors twice-whole/model.safetensors
[ "$("$FP8CONV" quantize values -o x -n --max-shard-size 100KB | grep ^files)" = 'files     9' ] || echo "the plan has other files"
"$FP8CONV" report out -o card --quiet
grep -q -- '--max-shard-size 100000' card/README.md || cat card/README.md
# A source of more files than a process may open.
python3 - <<'END'
import pathlib, checkpoint
pathlib.Path("files").mkdir()
checkpoint.write_shards(pathlib.Path("files"), [{f"model.layers.{i}.mlp.up_proj.weight": ("BF16", [128, 128], bytes([i + 1, 0x3f]) * 128 * 128)}
                                                for i in range(120)])
pathlib.Path("files/config.json").write_text('{"model_type": "llama"}')
END
(
	ulimit -n 90
	"$FP8CONV" quantize files -o joined --max-shard-size 1TB --quiet
	"$FP8CONV" verify joined --source files --quiet
	[ "$("$FP8CONV" inspect files --stats | wc -l)" = 120 ] || echo "not all tensors"
)
"$FP8CONV" quantize files -o unlimited --max-shard-size 1TB --quiet
same joined unlimited
# The word before the numbers stays, where all names have it.
mkdir mistral
cp "$SAMPLES/tiny-llama/config.json" mistral
ln -s "$SAMPLES/tiny-llama/model.safetensors" mistral/consolidated.safetensors
"$FP8CONV" quantize mistral/consolidated.safetensors -o out2 --max-shard-size 500KB --quiet
[ -e out2/consolidated-00002-of-00003.safetensors ] || ls out2
fails 2 " quantize: options '--part', '--manifest', '--sign' and '--max-shard-size' require a directory as output, not 'x.safetensors'" \
	quantize "$SAMPLES/tiny-llama" -o x.safetensors --max-shard-size 1GB
fails 2 " quantize: options '--max-shard-size' and '--preserve-high-precision' cannot be combined: *" \
	quantize "$SAMPLES/tiny-llama" -o x --max-shard-size 1GB --preserve-high-precision kept
