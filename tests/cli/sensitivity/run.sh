#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
