#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The GPU's kernels, on the CPU, in the whole program: what --backend cuda writes, reads and verifies is byte for byte what
# --backend cpu does, and what it calibrates differs by the rounding of sums alone.  $BUILD/simt/fp8conv was linked with tests/simt in the place of CUDA; tests/gpu.sh has another PROGRAM,
# and MORE checkpoints.
set -u
cd "$(dirname "$0")/../.." || exit 2
: "${BUILD:=build}"
program=${PROGRAM:-$BUILD/simt/fp8conv}
samples="sample_checkpoints/tiny-llama sample_checkpoints/tiny-moe/fused-transposed sample_checkpoints/odd-shapes"
scratch=$(mktemp -d "$BUILD/simt-XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
status=0

# same WHAT COMMAND...: "$scratch/cuda" and "$scratch/cpu" are written by COMMAND -o ... --backend ..., and are equal.
same() {
	what=$1
	shift
	for backend in cuda cpu; do
		rm -rf "$scratch/$backend"
		"$program" "$@" -o "$scratch/$backend" --backend $backend --quiet || status=1
	done
	diff -r "$scratch/cuda" "$scratch/cpu" || { echo "$what: the bytes differ"; status=1; }
}

# close MODEL BOUND OPTION...: the histories of both, where sums of products are a library's, and differ by BOUND at most.
close() {
	model=$1
	bound=$2
	shift 2
	for backend in cuda cpu; do
		"$program" calibrate "$model" --data "$scratch/ids.jsonl" -o "$scratch/$backend.amax" --backend $backend --quiet \
			"$@" || status=1
	done
	differences=$(python3 tests/cli/amax.py close "$scratch/cuda.amax" "$scratch/cpu.amax" by="$bound" | sed -n 1,5p)
	[ -z "$differences" ] || { echo "calibrate $model $*: $differences"; status=1; }
	rm -f "$scratch"/*.amax
}

for source in $samples ${MORE:-}; do
	for recipe in "blockwise --ragged" "blockwise --ragged --scale-fmt float --scale-arith deepseek" mxfp8 current \
		"channelwise --format compressed-tensors" "channelwise --format compressed-tensors --fp8-format e5m2 --margin 1"; do
		# The words of a recipe are options.
		# shellcheck disable=SC2086
		same "quantize $source: $recipe" quantize "$source" --on-nonfinite saturate --recipe $recipe
		mv "$scratch/cuda" "$scratch/out"
		same "dequantize $source: $recipe" dequantize "$scratch/out"
		# Ragged blocks load in some engines alone, which is a problem of its own.
		"$program" verify "$scratch/out" --source "$source" --backend cuda --json >"$scratch/verify.json" ||
			python3 -c 'import json, sys; sys.exit(any(p["kind"] != "partial-blocks" for p in json.load(sys.stdin)["problems"]))' \
				<"$scratch/verify.json" || { cat "$scratch/verify.json"; status=1; }
		rm -rf "$scratch/out"
	done
done
if ! command -v python3 >/dev/null; then
	echo "SKIPPED simt/calibrate: no python3"
	exit $status
fi
# 70 tokens: more than a block of queries, and not whole vectors.  bf16 halves: a sum that is rounded the other way is 2^-8 off,
# which may send a token to another expert.
python3 -c 'for n in (70, 33): print("{\"input_ids\":", [i * i % 251 for i in range(n)], "}")' >"$scratch/ids.jsonl"
close sample_checkpoints/tiny-moe/per-expert 1e-5 --precision f32 --threads 2
close sample_checkpoints/tiny-llama 1e-5 --precision f32 --histogram
for model in sample_checkpoints/tiny-llama ${MORE:-}; do
	close "$model" 0.02
done
close sample_checkpoints/tiny-llama 0.1 --fp8-forward --recipe delayed --ragged
# Emulated, as on a CPU: no GPU of 9.0 multiplies MX blocks.
close sample_checkpoints/tiny-llama 0.1 --fp8-forward --recipe mxfp8

# Inputs in FP8 are cast on the GPU.  Sums in fp32 differ in the last bits, which sends a value to another code here and there.
for recipe in "blockwise --ragged" "blockwise --ragged --scale-fmt float" current channelwise; do
	# shellcheck disable=SC2086
	close sample_checkpoints/tiny-llama 0.03 --precision f32 --fp8-forward --recipe $recipe
done

# evaluate RECIPE: each module's own error of a checkpoint, inputs in FP8, is that of the CPU; in the first layer, whose first input
# has the same bits, the same values of it saturate or become zero.
evaluate() {
	"$program" quantize sample_checkpoints/tiny-llama -o "$scratch/out" --quiet --recipe "$@" || status=1
	for backend in cuda cpu; do
		"$program" eval "$scratch/out" --source sample_checkpoints/tiny-llama --data "$scratch/ids.jsonl" --passes 1 --by-layer \
			--precision f32 --backend $backend --quiet --json >"$scratch/$backend.json" || status=1
	done
	python3 - "$scratch/cuda.json" "$scratch/cpu.json" <<-'END' || { echo "eval $*: the backends differ"; status=1; }
		import json, sys
		modules = [[(layer["layer"], module) for layer in json.load(open(path))["layers"] for module in layer["modules"]] for path in sys.argv[1:]]
		assert len(modules[0]) == len(modules[1]) > 0
		for (layer, a), (_, b) in zip(*modules):
		    assert abs(a["local"]["sqnr_db"] - b["local"]["sqnr_db"]) < 0.01, (a, b)
		    if layer == 0 and a["module"].split(".")[-1] in ("q_proj", "k_proj", "v_proj"):
		        assert [a["saturated"], a["zeros"]] == [b["saturated"], b["zeros"]], (a, b)
	END
	rm -rf "$scratch/out" "$scratch/cuda.json" "$scratch/cpu.json"
}
for recipe in "blockwise --ragged" mxfp8 current channelwise; do
	# shellcheck disable=SC2086
	evaluate $recipe
done

# mixed WORD...: a checkpoint of experts, some of which have matrices in high precision, as other programs write it.  Enough sequences
# for several batches of experts, whose arrays have each other's rows before.
mixed() {
	source=sample_checkpoints/tiny-moe/per-expert
	"$program" quantize $source -o "$scratch/out" --recipe channelwise --quiet || status=1
	python3 tests/cli/experts.py kept $source "$scratch/out" "$scratch/mixed" "$@" || status=1
	python3 -c 'for i in range(64): print("{\"input_ids\":", [i, 2, 3, 9, 14, i + 20], "}")' >"$scratch/many.jsonl"
	for backend in cuda cpu; do
		"$program" eval "$scratch/mixed" --source $source --data "$scratch/many.jsonl" --precision f32 --backend $backend --quiet --json \
			>"$scratch/$backend.json" || status=1
	done
	python3 - "$scratch/cuda.json" "$scratch/cpu.json" <<-'END' || { echo "eval with $* in high precision: the backends differ"; status=1; }
		import json, sys
		a, b = (json.load(open(path)) for path in sys.argv[1:])
		assert abs(a["kld"]["mean"] / b["kld"]["mean"] - 1) < 0.05, (a["kld"], b["kld"])
	END
	rm -rf "$scratch/out" "$scratch/mixed" "$scratch"/*.json "$scratch/many.jsonl"
}
mixed experts.1.gate_proj experts.1.up_proj
mixed experts.0.gate_proj experts.0.up_proj experts.1.gate_proj experts.1.up_proj experts.2.gate_proj experts.2.up_proj

# A backend that is not named: 'calibrate' takes the GPU after one self-test, everything else leaves it alone.
# (SIMT_LOG is of tests/simt.)
if [ -z "${PROGRAM:-}" ]; then
	log=$scratch/log
	SIMT_LOG=$log "$program" calibrate sample_checkpoints/tiny-llama --data "$scratch/ids.jsonl" -o "$scratch/auto.amax" --quiet || status=1
	[ "$(grep -c '^GPU 0: x of the self-test$' "$log")" = 1 ] || { echo "calibrate: not one self-test"; sort "$log" | uniq -c; status=1; }
	grep -q '^GPU 0: a weight$' "$log" || { echo "calibrate: not on the GPU"; status=1; }
	rm -f "$log" "$scratch/auto.amax"
	SIMT_LOG=$log "$program" quantize sample_checkpoints/tiny-llama -o "$scratch/out" --quiet || status=1
	SIMT_LOG=$log "$program" verify "$scratch/out" >"$scratch/ignored" || status=1
	SIMT_LOG=$log "$program" inspect "$scratch/out" --stats >"$scratch/ignored" || status=1
	SIMT_LOG=$log "$program" version >"$scratch/ignored" || status=1
	[ ! -e "$log" ] || { echo "a command that must run on the CPU used the GPU"; sort "$log" | uniq -c; status=1; }
	rm -rf "$scratch/out"
fi

# took WANTED COMMAND...: of three GPUs the command takes these alone.
took() {
	wanted=$1
	shift
	rm -rf "$scratch/log" "$scratch/out"
	env SIMT_LOG="$scratch/log" SIMT_DEVICES=3 "$@" --quiet || status=1
	found=$(sed 's/:.*//' "$scratch/log" | sort -u | tr '\n' ' ')
	[ "$found" = "$wanted" ] || { echo "$*: took $found, expected $wanted"; status=1; }
}

# The tasks of an engine on one machine take its GPUs in turn.
if [ -z "${PROGRAM:-}" ]; then
	set -- "$program" calibrate sample_checkpoints/tiny-llama --data "$scratch/ids.jsonl" -o "$scratch/out"
	took 'GPU 0 ' "$@"
	took 'GPU 1 ' LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "$@"
	took 'GPU 2 ' OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8 LOCAL_RANK=1 "$@"
	took 'GPU 1 ' MPI_LOCALRANKID=1 "$@"
	took 'GPU 2 ' SLURM_LOCALID=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE='3(x2)' "$@"
	took 'GPU 1 ' SLURM_LOCALID=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE='1(x2),2' "$@"
	# Alone on its machine: an index that cannot be shows that it is not used.
	took 'GPU 0 ' LOCAL_RANK=1 LOCAL_WORLD_SIZE=1 "$@"
	took 'GPU 0 ' SLURM_LOCALID=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE='1(x2)' "$@"
	took 'GPU 0 ' SLURM_LOCALID=1 SLURM_JOB_ID=7 "$@"
	# Listed GPUs: the history is that of one.
	rm -f "$scratch/one.amax"
	"$program" calibrate sample_checkpoints/tiny-llama --data "$scratch/ids.jsonl" -o "$scratch/one.amax" --backend cuda --quiet || status=1
	for devices in 'GPU 0 GPU 2 =2,0' 'GPU 1 =1' 'GPU 0 GPU 1 GPU 2 =all'; do
		took "${devices%=*}" LOCAL_RANK=1 "$@" --devices "${devices#*=}"
		cmp "$scratch/one.amax" "$scratch/out" || { echo "--devices ${devices#*=}: the bytes differ"; status=1; }
	done
	# refused WANTED COMMAND...: the command fails with this message.
	refused() {
		wanted=$1
		shift
		SIMT_DEVICES=3 "$@" 2>"$scratch/err" && { echo "$*: not refused"; status=1; }
		grep -qF "$wanted" "$scratch/err" || { cat "$scratch/err"; status=1; }
	}
	refused "option '--devices': there is no GPU 3: give numbers from 0 to 2" "$@" --devices 0,3
	refused "option '--threads': 1 threads for 2 devices: give at least one for each" "$@" --devices 0,1 --threads 1
	refused "options '--devices' and '--backend cpu' cannot be combined" "$@" --devices 0 --backend cpu
	set -- "$program" quantize sample_checkpoints/tiny-llama -o "$scratch/out" --backend cuda --threads 8
	took 'GPU 2 ' LOCAL_RANK=2 "$@"
	SIMT_DEVICES=3 LOCAL_RANK=x "$program" inspect sample_checkpoints/tiny-llama >"$scratch/ignored" || status=1
	SIMT_DEVICES=3 LOCAL_RANK=x "$@" 2>"$scratch/err"
	[ $? = 2 ] && grep -q "'LOCAL_RANK' is 'x', not a number below" "$scratch/err" || { cat "$scratch/err"; status=1; }
fi

exit $status
