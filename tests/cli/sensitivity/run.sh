#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
# What is measured of a group is what eval measures of a checkpoint in which this group alone is quantized; neither
# threads nor memory change a byte of the table.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert"
python3 - <<'END'
import json, random
random.seed(6)
with open("ids.jsonl", "w") as file:
    for n in (40, 17, 33):
        print(json.dumps({"input_ids": [random.randrange(100) for _ in range(n)]}), file=file)
END
model=$SAMPLES/tiny-llama
data="--data ids.jsonl"
"$FP8CONV" sensitivity "$model" $data --ragged --recipe blockwise,current,mxfp8 -o all.json --json >said.json
python3 "$CLI/json_check.py" said.json "j['output'] == 'all.json'" "j['sequences'] == 3" "j['tokens'] == 90" \
	"[r['recipe'] for r in j['recipes']] == ['blockwise', 'current', 'mxfp8']" "len(j['groups']) == 3 * 16" \
	"all(r['groups'] == 16 and r['modules'] == 28 and r['unmeasured'] == 0 for r in j['recipes'])" \
	"all(abs(sum(g['kld'] for g in j['groups'] if g['recipe'] == r['recipe']) - r['kld_sum']) < 1e-8 for r in j['recipes'])" \
	"all(0 < g['se'] < g['kld'] < 0.01 for g in j['groups'])" \
	"{g['group'] for g in j['groups']} == {f'layers.{n}.{s}' for n in range(4) for s in ('qkv', 'o', 'gate_up', 'down')}"
"$FP8CONV" sensitivity "$model" $data --ragged --recipe blockwise,current,mxfp8 -o again.json --threads 5
cmp all.json again.json
# As little memory as there may be: one group at a time.
least=$("$FP8CONV" sensitivity "$model" $data --ragged --dry-run --threads 1 --max-memory 1 2>&1 | sed 's/.*(\([0-9]*\)).*/\1/')
"$FP8CONV" sensitivity "$model" $data --ragged --dry-run --json --threads 1 --max-memory "$least" >plan.json
python3 "$CLI/json_check.py" plan.json "j['at_once'] == 1" "j['rounds'] == len(j['groups']) == 16" \
	"j['groups'][0] == {'recipe': 'blockwise', 'group': 'layers.0.qkv', 'modules': 3, 'bf16_bytes': 131072, 'fp8_bytes': 65552}"
"$FP8CONV" sensitivity "$model" $data --ragged -o few.json --threads 1 --max-memory "$least"
"$FP8CONV" sensitivity "$model" $data --ragged -o many.json --threads 3 --progress json 2>progress
tail -n 1 progress >last.json
python3 "$CLI/json_check.py" last.json "0 < j['done'] == j['total']"
cmp few.json many.json
ls -A | grep -F .unfinished

# measure MODEL RECIPE: the KLD of checkpoints of one group each, beside the KLD in table.json.
cat >measure.py <<'END'
import json, os, re, shutil, subprocess, sys
model, recipe = sys.argv[1:]
table = json.load(open("table.json"))
for group in [g for g in table["groups"] if g["recipe"] == recipe][::3]:
    include = [a for m in group["modules"] for a in ("--include", f"^{re.escape(m['name'])}.weight$")]
    run = [os.environ["FP8CONV"], "quantize", model, "-o", "one", "--ragged", "--recipe", recipe, *include]
    shutil.rmtree("one", ignore_errors=True)
    subprocess.run([a for a in run if a != "--ragged" or recipe == "blockwise"], check=True, stderr=subprocess.DEVNULL)
    done = subprocess.run([os.environ["FP8CONV"], "eval", "one", "--source", model, "--data", "ids.jsonl", "--precision", "f32",
                           "--json"], check=True, stdout=subprocess.PIPE)
    wanted = json.loads(done.stdout)["kld"]
    # eval prints six digits behind the point
    if abs(wanted["mean"] - group["kld"]["mean"]) > 6e-7 or abs(wanted["se"] - group["kld"]["se"]) > 6e-7:
        print(model, recipe, group["group"], group["kld"], wanted)
END
cp all.json table.json
for recipe in blockwise current mxfp8; do
	python3 measure.py "$model" $recipe
done
moe=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" sensitivity "$moe" $data --ragged -o table.json --restart
python3 measure.py "$moe" blockwise
"$FP8CONV" sensitivity "$moe" $data --ragged --by expert -o experts.json
python3 - <<'END'
import json
whole, apart = ({g["group"]: g for g in json.load(open(path))["groups"]} for path in ("table.json", "experts.json"))
experts = [name for name in apart if ".expert." in name]
layers = [name for name in whole if name.endswith(".experts")]
assert experts and layers and not set(experts) & whole.keys()
assert {n: g for n, g in whole.items() if n not in layers} == {n: g for n, g in apart.items() if n not in experts}
for layer in layers:
    parts = [apart[name] for name in experts if name.startswith(layer[:-1] + ".")]
    assert [m for g in parts for m in g["modules"]] == whole[layer]["modules"], layer
    assert sum(g["bytes"]["fp8"] for g in parts) == whole[layer]["bytes"]["fp8"], layer
END

mkdir "$top/resume"
cd "$top/resume"
# What an interrupted run has measured is taken over, if it is of the same job.
need "$SAMPLES/tiny-llama"
c=" sensitivity: "
model=$SAMPLES/tiny-llama
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o whole.json
python3 - <<'END'
import json
table = json.load(open("whole.json"))
for group in table["groups"][5:]:
    group["kld"] = None
table["recipes"][0]["kld_sum"] = None
table["groups"][2]["kld"]["mean"] = 0.125  # so that it shows where it comes from
json.dump(table, open("half.json", "w"))
END
cp half.json .S.json.unfinished
fails 2 "${c}'S.json' was begun with another model, other data or other options: repeat *, or use --restart to start over" \
	sensitivity "$model" --data ids.jsonl -o S.json --seq-len 8 --passes 1
fails 2 "${c}'S.json' was begun with *" sensitivity "$model" --data ids.jsonl -o S.json --precision bf16
fails 2 "${c}'S.json' was begun with *" sensitivity "$model" --data ids.jsonl -o S.json --scale-fmt float
cmp half.json .S.json.unfinished
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json
[ ! -e .S.json.unfinished ] || echo "the unfinished table stays"
python3 - <<'END'
import json
found, wanted = (json.load(open(name)) for name in ("S.json", "whole.json"))
assert found["groups"][2]["kld"]["mean"] == 0.125
assert abs(found["recipes"][0]["kld_sum"] - wanted["recipes"][0]["kld_sum"] - 0.125 + wanted["groups"][2]["kld"]["mean"]) < 1e-12
found["groups"][2], found["recipes"] = wanted["groups"][2], wanted["recipes"]
assert found == wanted
END
# A finished one stays as it is; of another job it is not replaced.
cp -p S.json before.json
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json
[ ! S.json -nt before.json ] || echo "a finished table is written again"
cmp S.json before.json
fails 2 "${c}'S.json' exists and is of another model, other data or other options: use --restart to start over" \
	sensitivity "$model" --data ids.jsonl -o S.json --passes 1
cp half.json .S.json.unfinished
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json --restart
cmp S.json whole.json
[ ! -e .S.json.unfinished ] || echo "the unfinished table stays"
echo '{' >.T.json.unfinished
fails 3 "${c}use --restart to start over: cannot read '.T.json.unfinished' as a table of divergences: *" \
	sensitivity "$model" --data ids.jsonl -o T.json
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o T.json --restart
cmp T.json whole.json
echo text >notes.txt
fails 2 "${c}'notes.txt' exists and is not a table of divergences: choose another output or remove it" \
	sensitivity "$model" --data ids.jsonl -o notes.txt --restart
[ "$(cat notes.txt)" = text ] || echo "notes.txt is gone"

mkdir "$top/experts"
cd "$top/experts"
# Every matrix that is quantized has a group, in every architecture, but tables of n-grams, whose rows nothing multiplies; so
# have experts that are quantized otherwise than they are multiplied: GPT-OSS's gate and up in turn as two matrices, Granite's in a stack that stays whole.
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 40, 90, 120, 200]}\n{"input_ids": [9, 2, 55, 3, 5, 80, 7]}\n' >ids.jsonl
python3 "$CLI/tiny.py" list | while read -r arch; do
	python3 "$CLI/tiny.py" make "$arch" model
	"$FP8CONV" sensitivity model --data ids.jsonl --recipe blockwise --ragged --dry-run --json -q >plan.json
	tables=$(python3 "$CLI/checkpoint.py" list model | grep -c '\.ngram_embedding\.shard_') || :
	python3 "$CLI/json_check.py" plan.json "j['recipes'][0]['unmeasured'] == $tables" || echo "$arch"
	rm -r model
done

# loud MODEL: experts whose rounding shows in six digits.  wide MODEL WIDTH: experts whose matrices have many panels.
cat >loud.py <<'END'
import json, random, sys
import checkpoint
model, width = sys.argv[1], int(sys.argv[2])
file, config = f"{model}/model.safetensors", json.load(open(f"{model}/config.json"))
source, old, tensors = random.Random(3), config["intermediate_size"], checkpoint.read(file)
for name, (dtype, shape, data) in tensors.items():
    if "router" in name or not ("experts." in name or "input_linear" in name or "output_linear" in name) or "shared" in name:
        continue
    shape = [{old: width, 2 * old: 2 * width}.get(n, n) for n in shape]
    n = 1
    for size in shape:
        n *= size
    exponents = bytes((0x3E, 0xBE, 0x3F, 0xBF)[i % 4] for i in range(256))
    data = bytearray(source.randbytes(2 * n))
    data[1::2] = data[1::2].translate(exponents)
    tensors[name] = dtype, shape, bytes(data)
config["intermediate_size"] = width
checkpoint.write(file, tensors)
json.dump(config, open(f"{model}/config.json", "w"))
END
# The divergence of the groups of experts is that of checkpoints in which experts alone are quantized.
cat >measure.py <<'END'
import json, os, shutil, subprocess, sys
model, options = sys.argv[1], sys.argv[2:]
table = json.load(open("table.json"))
groups = [g for g in table["groups"] if g["group"].endswith(".experts")]
assert groups, model
for group in groups[::4]:
    run = [os.environ["FP8CONV"], "quantize", model, "-o", "one", "-q", *options]
    shutil.rmtree("one", ignore_errors=True)
    subprocess.run([*run, "--include", rf"layers\.{group['layer']}\.(mlp\.experts|block_sparse_moe\.(in|out)put_linear)"], check=True)
    done = subprocess.run([os.environ["FP8CONV"], "eval", "one", "--source", model, "--data", "ids.jsonl", "--precision", "f32",
                           "--json", "-q"], check=True, stdout=subprocess.PIPE)
    wanted = json.loads(done.stdout)["kld"]
    if not 2e-5 < group["kld"]["mean"] or abs(wanted["mean"] - group["kld"]["mean"]) > 6e-7:
        print(model, options, group["group"], group["kld"], wanted)
END
# check ARCH WIDTH OPTION...
check() {
	arch=$1
	rm -rf "$arch"
	python3 "$CLI/tiny.py" make "$arch" "$arch"
	python3 loud.py "$arch" "$2"
	shift 2
	"$FP8CONV" sensitivity "$arch" --data ids.jsonl -o table.json --restart -q "$@"
	python3 measure.py "$arch" "$@"
}
check gpt_oss 160 --recipe blockwise --ragged
check gpt_oss 160 --recipe current
check granitemoehybrid 44 --recipe channelwise
# Products take more than 16384 rows in panels: they begin and end anywhere in the matrices that are quantized.
check gpt_oss 8240 --recipe blockwise --ragged
check granitemoehybrid 16444 --recipe channelwise

# A stack is kept as a whole, and so are its experts by --by expert; those that are split are groups of their own.
python3 - <<'END'
import json
groups = [g for g in json.load(open("table.json"))["groups"] if g["group"].endswith(".experts")]
assert [[m["name"] for m in g["modules"]] for g in groups] == [[f"model.layers.{n}.block_sparse_moe.{s}_linear" for s in ("input", "output")]
                                                             for n in range(4)], groups
assert all(g["bytes"]["bf16"] == 2 * 5 * 60 * 3 * 16444 for g in groups), groups
END
"$FP8CONV" sensitivity granitemoehybrid --data ids.jsonl --recipe channelwise --by expert --dry-run --json >plan.json
python3 "$CLI/json_check.py" plan.json "sum(g['group'].endswith('.experts') for g in j['groups']) == 4"
"$FP8CONV" sensitivity --from table.json --budget 60% -o KEEP
"$FP8CONV" quantize granitemoehybrid -o mixed --recipe channelwise --tensors KEEP --dry-run --json >plan.json
python3 - <<'END'
import json
kept = [t["name"].split(".")[2:5:2] for t in json.load(open("plan.json"))["tensors"] if "put_linear" in t["name"] and t["reason"] == "skipped by --tensors"
        and "moe" in t["name"]]
layers = {layer for layer, _ in kept}
assert len(layers) == 2 and sorted(kept) == sorted([n, s] for n in layers for s in ("input_linear", "output_linear")), kept
END
rm -r gpt_oss granitemoehybrid
python3 "$CLI/tiny.py" make gpt_oss model
"$FP8CONV" sensitivity model --data ids.jsonl --recipe channelwise --by expert --dry-run --json -q >plan.json
python3 "$CLI/json_check.py" plan.json "sum('.expert.' in g['group'] for g in j['groups']) == 12" \
	"all(g['modules'] == 3 for g in j['groups'] if '.expert.' in g['group'])"
