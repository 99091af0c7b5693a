#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# quantize --since OLD writes, byte for byte, the delta from OLD to the full conversion with the same options.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe" "$SAMPLES/odd-shapes"

# train DIR NEXT SEED: the model after some training: the lowest bit of 2 % of the elements of matrices is another one.
# With SEED 2, a model of one file has a new tensor and lost one; with SEED 3 that one has another shape, and files are others.
cat >train.py <<'END'
import pathlib, random, shutil, subprocess, sys
import checkpoint
folder, target, seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
shutil.copytree(folder, target)
subprocess.run(["chmod", "-R", "u+w", target], check=True)
for path in sorted(target.glob("model*.safetensors")):
    (metadata, tensors), = checkpoint.files(path)
    for name, (dtype, shape, data) in list(tensors.items()):
        data = bytearray(data)
        if dtype == "BF16" and len(shape) > 1:
            for i in draw.sample(range(0, len(data), 2), -(-len(data) // 100)):
                data[i] ^= 1
        tensors[name] = dtype, shape, bytes(data)
    if seed > 1 and not (target / "model.safetensors.index.json").exists():
        name = next(name for name in tensors if "layernorm" in name)
        dtype, shape, data = tensors.pop(name)
        tensors["a.new.norm.weight"] = dtype, shape, data
        tensors["an.empty.mask"] = "I64", [0], b""
        if seed == 3:
            tensors[name] = dtype, [1, *shape], data
    checkpoint.write(path, tensors, metadata)
if seed == 3:
    (target / "generation_config.json").write_text('{"do_sample": false}')
    (target / "sub").mkdir()
    (target / "sub/new.json").write_text("{}")
END
train() {
	rm -rf "$2"
	python3 train.py "$@"
}

# agree MODEL NEXT OPTION...: with these options.  amax: of each model, its own calibration, which no record has.
amax=
agree() {
	was=$1 is=$2
	shift 2
	rm -rf old new D.safetensors
	"$FP8CONV" quantize "$was" -o old -q "$@" ${amax:+--calibration "$was.amax"}
	"$FP8CONV" quantize "$is" -o new -q "$@" ${amax:+--calibration "$is.amax"}
	"$FP8CONV" delta old new -o D.safetensors -q
	for way in "--threads 1" "--threads 3" "--threads 3 --max-memory 64M"; do
		# shellcheck disable=SC2086
		"$FP8CONV" quantize "$is" --since old -o E.safetensors -q $way ${amax:+--calibration "$is.amax"}
		cmp D.safetensors E.safetensors || echo "$was $is $* $way"
		rm -f E.safetensors
	done
}

# All recipes in all formats; the options come from the record.
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
train model llama 1
train model llama3 3
cp "$SAMPLES/README.md" text.txt
for name in model llama; do
	"$FP8CONV" calibrate $name --data text.txt --seq-len 64 --passes 2 -o $name.amax -q
done
"$FP8CONV" formats | cut -f 1-2 | while read -r format recipe; do
	amax=
	[ "$recipe" != delayed ] || amax=1
	agree model llama --recipe "$recipe" --format "$format"
done
agree model llama3 --recipe blockwise --format hf --ragged
agree llama3 model --recipe channelwise
amax=1
agree model llama --recipe current --format compressed-tensors --kv-cache
amax=

# Numbers, patterns, mixed recipes, targets, files of another size, experts.
agree model llama --scale-fmt float --amax-epsilon 1e-5 --exclude down_proj --exclude 'layers\.[01]\.'
agree model llama --recipe current --fp8-format e5m2 --margin 2 --profile none
agree model llama --tensor down_proj=mxfp8 --tensor v_proj=skip --format compressed-tensors
agree model llama3 --max-shard-size 300K --include mlp
agree model llama --recipe mxfp8 --mx-scale floor --target vllm --on-nonfinite saturate
train "$SAMPLES/odd-shapes" odd 2
for recipe in blockwise current mxfp8; do
	agree "$SAMPLES/odd-shapes" odd --recipe $recipe --ragged
done
for kind in per-expert fused fused-transposed; do
	train "$SAMPLES/tiny-moe/$kind" moe 2
	agree "$SAMPLES/tiny-moe/$kind" moe --recipe blockwise --ragged
	agree "$SAMPLES/tiny-moe/$kind" moe --recipe current
done
# Of another model, nothing stays.
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o experts -q
"$FP8CONV" quantize model -o dense -q
"$FP8CONV" delta experts dense -o D.safetensors
"$FP8CONV" quantize model --since experts -o E.safetensors -q
cmp D.safetensors E.safetensors

# Weights of several chunks of 4 MiB: codes and scales that end within one, rows longer than a band, a large tensor that is kept,
# a stack, and a source in FP8.
mkdir large && python3 - <<'END'
import json, random
import checkpoint
draw = random.Random(5)
block = b"".join(draw.randbytes(1) + bytes([draw.choice((0x3c, 0xbc, 0x3d))]) for _ in range(5003))
def bf16(*shape):
    n = 2
    for size in shape:
        n *= size
    return "BF16", list(shape), (block * (n // len(block) + 1))[:n]
layer = "model.layers.0.mlp."
checkpoint.write("large/model.safetensors", {
    "model.embed_tokens.weight": bf16(2500, 1024), layer + "up_proj.weight": bf16(3000, 3008),
    layer + "down_proj.weight": bf16(130, 70016), layer + "gate_proj.weight": bf16(512, 9024),
    layer + "experts.gate_up_proj": bf16(3, 512, 5024)})
open("large/config.json", "w").write(json.dumps({"model_type": "llama", "hidden_size": 5024}))
END
train large larger 1
for recipe in blockwise current mxfp8 channelwise; do
	agree large larger --recipe $recipe --ragged
done
"$FP8CONV" quantize large -o large8 -q --ragged && "$FP8CONV" quantize larger -o larger8 -q --ragged
agree large8 larger8 --requantize --ragged
agree large8 larger8 --recipe mxfp8 --requantize --ragged

# Where every code is another one, --max-memory holds all the same.
for seed in 1 2; do
	mkdir all$seed && python3 - $seed <<'END'
import random, sys
import checkpoint
draw = random.Random(int(sys.argv[1]))
def bf16(n):
    data = bytearray(draw.randbytes(2 * n))
    data[1::2] = data[1::2].translate(bytes([0x3c, 0xbc] * 128))
    return bytes(data)
folder = f"all{sys.argv[1]}"
checkpoint.write(folder + "/model.safetensors",
                 {f"model.layers.{i}.mlp.up_proj.weight": ("BF16", [4096, 4096], bf16(1 << 24)) for i in range(5)})
open(folder + "/config.json", "w").write('{"model_type": "llama"}')
END
	"$FP8CONV" quantize all$seed -o alls$seed -q
done
"$FP8CONV" delta alls1 alls2 -o D.safetensors
# The memory of a sanitizer, or of an emulator, is not the program's.
if ! grep -q '__[at]san_init' "$FP8CONV" && { "$FP8CONV" version | grep -q '^CPU features.*sse4' || [ "$(uname -m)" = aarch64 ]; }; then
	python3 - <<'END'
import os, resource, subprocess
subprocess.run([os.environ["FP8CONV"], *"quantize all2 --since alls1 -o E.safetensors -q --threads 3 --max-memory 64M".split()], check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
if peak > 64 << 10:
    print(f"{peak} KiB of memory")
END
	cmp D.safetensors E.safetensors
fi
rm -rf all1 all2 alls1 alls2

# The options of the base are the only ones.
rm -rf old && "$FP8CONV" quantize model -o old -q --recipe blockwise --format hf --exclude lm_head
"$FP8CONV" quantize llama --since old -o E.safetensors -q --recipe blockwise --exclude lm_head
s=" quantize: "
i="give the options of that job, or none; for others, convert to a directory and use 'fp8conv delta'"
d="convert to a directory, and use 'fp8conv delta'"
fails 2 "${s}option '--recipe' is 'mxfp8', but 'old' was made with 'blockwise': $i" \
	quantize llama --since old -o x.safetensors --recipe mxfp8
fails 2 "${s}option '--exclude' is 'up_proj', but 'old' was made with 'lm_head': $i" \
	quantize llama --since old -o x.safetensors --excl up_proj
fails 2 "${s}option '--scale-fmt' is 'float', but 'old' was made with 'ue8m0': $i" \
	quantize llama --since old -o x.safetensors --scale-fmt=float
fails 2 "${s}option '--max-shard-size' is 1000000, but 'old' was made with none: $i" \
	quantize llama --since old -o x.safetensors --max-shard-size 1MB
# Another value of a list names each pattern.
fails 2 "${s}option '--exclude' is 'up_proj', 'q_proj', but 'old' was made with 'lm_head': $i" \
	quantize llama --since old -o x.safetensors --exclude up_proj --exclude q_proj
for option in "--part 1/2" --restart --manifest "--preserve-high-precision p" "--sign old" \
	"--rounding compensated --data text.txt"; do
	# shellcheck disable=SC2086
	fails 2 "${s}options '--since' and '${option%% *}' cannot be combined: $d" quantize llama --since old -o x.safetensors $option
done
fails 2 "${s}options '--since' and '--output -' cannot be combined: give a file (-o D.safetensors)" \
	quantize llama --since old -o -
fails 2 "${s}'old' exists and is not a delta: choose another output or remove it" quantize llama --since old -o old
fails 3 "${s}option '--since': 'llama' has no fp8conv-manifest.json, which has the options of the job: $d" \
	quantize llama --since llama -o x.safetensors
"$FP8CONV" repack old -o packed -q --format compressed-tensors
fails 2 "${s}option '--since': 'packed' was made by 'repack': $d" quantize llama --since packed -o x.safetensors
"$FP8CONV" quantize model -o kept -q --preserve-high-precision high
fails 2 "${s}'kept' was made with option '--preserve-high-precision', which '--since' cannot be combined with: $d" \
	quantize llama --since kept -o x.safetensors
"$FP8CONV" quantize model -o static -q --recipe delayed --calibration model.amax
fails 2 "${s}recipe 'delayed' needs an amax history: *--calibration*" quantize llama --since static -o x.safetensors
fails 2 "${s}option '--since': 'old/model.safetensors' is a single file: give the directory of an output" \
	quantize llama --since old/model.safetensors -o x.safetensors
fails 3 "${s}option '--since': cannot open 'absent': No such file or directory" quantize llama --since absent -o x.safetensors
# The memory of the comparison is counted in the plan, so that --dry-run refuses what the command refuses.
for dry in "" --dry-run; do
	# shellcheck disable=SC2086
	fails 2 "${s}option '--max-memory': 61440K is too small for 1 thread: give at least *K, or reduce --threads" \
		quantize llama --since old -o x.safetensors --max-memory 60M --threads 1 $dry
done
fails 2 "${s}option '--since': 'hf://a/b' is an address: download the model and give its directory" \
	quantize llama --since hf://a/b -o x.safetensors
[ ! -e x.safetensors ] || echo "a file was left"

# What it prints is what delta prints; the plan is that of the conversion; and the file makes it.
"$FP8CONV" delta old old -o D.safetensors --json | sed 's/"output": "[^"]*"//' >one
"$FP8CONV" quantize model --since old -o D.safetensors --json 2>/dev/null | sed 's/"output": "[^"]*"//' | cmp one -
"$FP8CONV" quantize llama --since old -o D.safetensors --dry-run --json 2>/dev/null >plan.json
json plan.json 'j["recipe"] == "blockwise"'
"$FP8CONV" quantize llama --since old -o D.safetensors --dry-run 2>/dev/null | sed -En 's/^(result|output|disk) .*/\1/p; /^from /p'
"$FP8CONV" quantize llama -o full -q --exclude lm_head --format hf
"$FP8CONV" apply old E.safetensors -o made -q && diff -r made full
exit 0
#1> from      llama to D.safetensors, what changed since old
#1> result
