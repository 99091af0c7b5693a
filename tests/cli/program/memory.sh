#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What a calibration takes of addresses and of memory: within the limits that are given, and what its plan says.
need "python3()"
[ -z "${QEMU_CPU-}" ] || skip "the memory is that of the emulator too"
# A model of 20 layers and twice the address space that the process may have calibrates; --max-memory is kept, and what a dry
# run tells of memory is what is used.
limit=573440 # KiB
python3 "$CLI/layers.py" model 20 56
size=$(stat -c %s model/model.safetensors)
[ "$size" -ge $((2 * limit * 1024)) ] || echo "the model has $size bytes, fewer than twice $limit KiB"
python3 -c "
import json, random
random.seed(1)
for _ in range(2):
    print(json.dumps({'input_ids': [random.randrange(512) for _ in range(32)]}))" >ids.jsonl
set -- model --data ids.jsonl --threads 2 --max-memory 32M --quiet
(ulimit -v $limit && "$FP8CONV" calibrate "$@" -o s.amax --json) >told.json
json told.json "j['passes'] == 2" "500 < j['perplexity'] < 530" "j['peak_memory_bytes'] < $limit << 10"
"$FP8CONV" calibrate "$@" --dry-run --json >plan.json
json plan.json "j['memory_bytes'] + (96 << 20) > $(grep -o '"peak_memory_bytes": [0-9]*' told.json | cut -d ' ' -f 2)"

# With more memory the next layer (56 MiB) is loaded beside the passes through one, and counted: the
# same bytes.  How much of it is there at the peak depends on when the threads run: one run of five
# must show nearly all of it, and no run may exceed the plan.
set -- model --data ids.jsonl --threads 2 --max-memory 1G --quiet
"$FP8CONV" calibrate "$@" --dry-run --json >both.json
for run in 1 2 3 4 5; do
	"$FP8CONV" calibrate "$@" -o ahead$run.amax --json >ahead$run.json
	cmp s.amax ahead$run.amax
done
python3 - <<'END'
import json
one = json.load(open("told.json"))["peak_memory_bytes"] >> 20
two = [json.load(open(f"ahead{run}.json"))["peak_memory_bytes"] >> 20 for run in range(1, 6)]
plans = [json.load(open(f"{name}.json"))["memory_bytes"] >> 20 for name in ("plan", "both")]
if not (plans[1] - plans[0] >= 50 and max(two) - one >= 50 and max(two) < plans[1] + 96):
    print(f"MiB with one layer: {one}, with two: {two}, planned {plans}")
END

# What sequences may take, whatever there is of them; less than one pass is refused.
yes '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}' | head -n 4000 >many.jsonl
for size in 16 64 256; do
	"$FP8CONV" calibrate model --data many.jsonl --threads 2 --passes 4000 --max-memory ${size}M --dry-run --json >$size.json
done
python3 - <<'END'
import json
small, middle, large = (json.load(open(f"{n}.json"))["memory_bytes"] >> 20 for n in (16, 64, 256))
if not (40 <= middle - small <= 48 and 184 <= large - middle <= 192):
    print(f"MiB planned with 16, 64 and 256 MiB: {small}, {middle}, {large}")
END
# Many threads need more than the default, which then is what they need; one that is given is not exceeded.
set -- model --data many.jsonl --threads 1000 --dry-run
"$FP8CONV" calibrate "$@" --json >threads.json
json threads.json "j['memory_bytes'] > 1 << 30"
fails 2 " calibrate: option '--max-memory': 1073741824 bytes cannot hold one pass (*" \
	calibrate "$@" --max-memory 1G
fails 2 " calibrate: option '--max-memory': 65536 bytes cannot hold one pass (*" \
	calibrate model --data ids.jsonl --max-memory 64K -o none.amax

# Counts of a module are 2048 bins of two values, in a sweep and in the history.
"$FP8CONV" calibrate "$@" --dry-run --json >plain.json
"$FP8CONV" calibrate "$@" --histogram --dry-run --json >histogram.json
python3 - <<'END'
import json
plain, histogram = (json.load(open(f"{name}.json")) for name in ("plain", "histogram"))
if histogram["memory_bytes"] - plain["memory_bytes"] < 2 * histogram["modules"] * 2048 * 2 * 8:
    print(f"planned with histograms: {histogram['memory_bytes']}, without: {plain['memory_bytes']}")
END

# A table of the experts of tokens (32 MiB; twice that in its file) is memory of its layer, once: what a plan counts for it is what
# it takes.
cat >table.py <<'END'
import json, os, pathlib, random, sys
import checkpoint
VOCAB, EXPERTS, WIDTH = 32768, 256, 16
model = json.loads(pathlib.Path(os.environ["CLI"], "architectures.json").read_text())["deepseek_v4"]
kinds = [sys.argv[1], "moe"]
model["config"] |= {"vocab_size": VOCAB, "num_hidden_layers": 2, "layer_types": ["sliding_attention"] * 2, "mlp_layer_types": kinds,
                    "n_routed_experts": EXPERTS, "num_experts_per_tok": EXPERTS, "moe_intermediate_size": WIDTH}
tensors, source = {}, random.Random(1)


def add(name, *shape):
    data = bytearray(source.randbytes(2 * shape[0] * (shape[1:] or (1,))[0]))
    data[1::2] = bytes([0x3C]) * (len(data) // 2)
    tensors[name] = "BF16", list(shape), bytes(data)


for pattern, shape in model["tensors"].items():
    last = pattern.split("].", 1)[-1]
    if not pattern.startswith("layers."):
        add(pattern, *[VOCAB if n == 300 else n for n in shape])
    for i in range(2 if pattern.startswith("layers.[0-4]") else 0):
        for expert in range(EXPERTS) if ".experts." in last else [0]:
            name = last.replace("[0-5]", str(expert))
            add(f"layers.{i}.{name}", *[WIDTH if n == 160 else EXPERTS if name == "ffn.gate.weight" and n == 6 else n for n in shape])
    for i in range(2):
        if last == "ffn.gate.bias" and kinds[i] == "moe":
            add(f"layers.{i}.{last}", EXPERTS)
        if last == "ffn.gate.tid2eid" and kinds[i] != "moe":
            row = checkpoint.pack("I64", range(EXPERTS))
            tensors[f"layers.{i}.{last}"] = "I64", [VOCAB, EXPERTS], row * VOCAB
folder = pathlib.Path(f"table-{kinds[0]}")
folder.mkdir()
checkpoint.write(folder / "model.safetensors", tensors)
(folder / "config.json").write_text(json.dumps(model["config"]))
END
for kind in moe hash_moe; do
	python3 table.py $kind
	set -- table-$kind --data ids.jsonl --threads 2 --max-memory 32M --quiet --json
	"$FP8CONV" calibrate "$@" --dry-run >plan-$kind.json
	"$FP8CONV" calibrate "$@" -o table.amax --restart >told-$kind.json
	rm -r table-$kind
done
python3 - <<'END'
import json
plan, told = ([json.load(open(f"{name}-{kind}.json"))[key] / (1 << 20) for kind in ("moe", "hash_moe")]
              for name, key in (("plan", "memory_bytes"), ("told", "peak_memory_bytes")))
planned, used = plan[1] - plan[0], told[1] - told[0]
if not (28 < planned < 36 and 24 < used < planned + 6):
    print(f"MiB of a table of 32: {planned} planned, {used} used")
END
