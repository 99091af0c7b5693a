#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# quantize --keep-as: groups that cost most take another recipe, or BF16; what is predicted, what all commands make of the mixture,
# and what is refused.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert"
c=" quantize: option '--keep-as': "
model=$SAMPLES/tiny-llama
moe=$SAMPLES/tiny-moe/per-expert
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
ct="--format compressed-tensors"
# shellcheck disable=SC2086
"$FP8CONV" sensitivity "$model" --data ids.jsonl $ct --recipe blockwise,channelwise,mxfp8 -o S.json
# shellcheck disable=SC2086
"$FP8CONV" sensitivity "$moe" --data ids.jsonl $ct --recipe blockwise,channelwise --by expert --ragged -o moe.json

# expect TABLE PLAN JOB AS PERCENT MAX-KLD: the choice by steps on the convex hull of each set, made again here from the slopes of all
# pairs of its options.
cat >expect.py <<'END'
import json, sys
table, plan = (json.load(open(path)) for path in sys.argv[1:3])
job, ways, budget, max_kld = sys.argv[3], sys.argv[4].split(","), float(sys.argv[5]) / 100, float(sys.argv[6])
sets = {}
for g in table["groups"]:
    name = g["group"].split(".expert.")[0] + ".experts" if ".expert." in g["group"] else g["group"]
    one = sets.setdefault(name, {"modules": set(), "ways": {}})
    one["modules"] |= {m["name"] for m in g["modules"]}
    for way, size, kld in (g["recipe"], g["bytes"]["fp8"], g["kld"]["mean"]), ("bf16", g["bytes"]["bf16"], 0):
        if way in ("bf16", *ways, job) and not (way == "bf16" and g["recipe"] != job):
            old = one["ways"].get(way, (0, 0))
            one["ways"][way] = old[0] + size, old[1] + kld
steps = []
for name, one in sets.items():
    at = job
    while True:
        size, kld = one["ways"][at]
        options = [(w, *one["ways"][w]) for w in ways if w in one["ways"] and one["ways"][w][1] < kld]
        free = [o for o in options if o[1] <= size]
        assert not free, "the models of this case have none"
        if not options:
            break
        best = max(options, key=lambda o: (kld - o[2]) / (o[1] - size))
        steps.append(((kld - best[2]) / (best[1] - size), name, best[0], best[1] - size, kld - best[2]))
        at = best[0]
saved = sum(one["ways"]["bf16"][0] - one["ways"][job][0] for one in sets.values())
left, added, taken, closed = sum(one["ways"][job][1] for one in sets.values()), 0, {}, set()
for _, name, way, cost, gain in sorted(steps, reverse=True):
    if name in closed or (not budget and left <= max_kld):
        continue
    if budget and added + cost > budget * saved:
        closed.add(name)
        continue
    taken[name], added, left = way, added + cost, left - gain
keep = plan["keep"]
assert abs(keep["predicted_kld"] - left) < 1e-8 and abs(keep["added_share"] - added / saved) < 1e-6, (keep, left, added / saved)
wanted = {module + ".weight": way for name, way in taken.items() for module in sets[name]["modules"]}
for t in plan["tensors"]:
    way = wanted.pop(t["name"], None)
    if way is None:
        assert t["reason"] != "sensitive" and t["recipe"] in (None, job), t
    else:
        assert (t["recipe"] or "bf16") == way and t["reason"] == "sensitive" and t["rule"] == "user", (t, way)
        assert t["action"] == ("keep" if way == "bf16" else "quantize"), t
assert not wanted, wanted
for g in keep["groups"]:
    name = g["group"].split(".expert.")[0] + ".experts" if ".expert." in g["group"] else g["group"]
    size, kld = sets[name]["ways"][g["recipe"] or "bf16"]
    assert taken[name] == (g["recipe"] or "bf16") and g["bytes"] == size and abs(g["kld_left"] - kld) < 1e-9, g
print(len(set(taken.values())))
END
plan() {
	"$FP8CONV" quantize "$@" --dry-run --json >plan.json 2>notes || cat notes
}
for budget in 1 5 12 40; do
	for as in channelwise bf16,channelwise channelwise,bf16,mxfp8; do
		# shellcheck disable=SC2086
		plan "$model" $ct --keep S.json --keep-as $as --budget $budget%
		python3 expect.py S.json plan.json blockwise $as $budget 0 >>counts
	done
	# shellcheck disable=SC2086
	plan "$moe" --ragged $ct --keep moe.json --keep-as bf16,channelwise --budget $budget%
	python3 expect.py moe.json plan.json blockwise bf16,channelwise $budget 0 >>counts
done
for kld in 0.0032 0.002 0.0005; do
	# shellcheck disable=SC2086
	plan "$model" $ct --keep S.json --keep-as channelwise,bf16 --max-kld $kld
	python3 expect.py S.json plan.json blockwise channelwise,bf16 0 $kld >>counts
done
grep -q 2 counts || echo "no plan takes both BF16 and another recipe"
# BF16 alone is the default.
# shellcheck disable=SC2086
for as in "" "--keep-as bf16"; do
	"$FP8CONV" quantize "$model" $ct --keep S.json $as --budget 10% --dry-run >plan"${#as}".txt
done
cmp plan0.txt plan14.txt

# The result is that of the same recipes by name, and all commands read it.
# shellcheck disable=SC2086
"$FP8CONV" quantize "$model" $ct -o out --keep S.json --keep-as bf16,channelwise --budget 12%
# shellcheck disable=SC2086
plan "$model" $ct --keep S.json --keep-as bf16,channelwise --budget 12%
python3 - >rules <<'END'
import json, re
for t in json.load(open("plan.json"))["tensors"]:
    if t["reason"] == "sensitive":
        print(f"--tensor\n^{re.escape(t['name'])}$={t['recipe'] or 'skip'}")
END
# shellcheck disable=SC2086
xargs -d '\n' "$FP8CONV" quantize "$model" $ct -o named <rules
same out named
"$FP8CONV" quantize "$model" --format compressed-tensors --keep S.json --keep-as bf16,channelwise --budget 12% --dry-run >plan.txt
grep -q '^keep      [1-9] groups\? in BF16, [1-9][0-9]* as channelwise: [89].[0-9] % of what FP8 saves$' plan.txt || cat plan.txt
grep -q 'mlp.down_proj.weight .* channelwise: sensitive$' plan.txt || cat plan.txt
for target in vllm sglang transformers; do
	"$FP8CONV" verify out --target $target
done
"$FP8CONV" verify out --source "$model"
"$FP8CONV" inspect out --json >inspect.json
json inspect.json "len({tuple(t['scale']['tile']) for t in j['tensors'] if t['dtype'] == 'F8_E4M3'}) > 1"
"$FP8CONV" eval out --source "$model" --data ids.jsonl --precision f32 --json >eval.json
# Divergences of groups add up, except over a few tokens.
python3 - <<'END'
import json
manifest, found = json.load(open("out/fp8conv-manifest.json")), json.load(open("eval.json"))["kld"]["mean"]
keep = manifest["options"]["keep"]
assert keep["as"] == ["bf16", "channelwise"] and abs(keep["predicted_kld"] / found - 1) < 0.2, (keep, found)
groups = json.load(open("out/config.json"))["quantization_config"]["config_groups"].values()
assert sorted(g["weights"]["strategy"] for g in groups) == ["block", "channel"], groups
END
"$FP8CONV" dequantize out -o back -q
"$FP8CONV" repack out -o modelopt --format modelopt -q
"$FP8CONV" verify modelopt --source "$model"
"$FP8CONV" repack modelopt -o again --format compressed-tensors -q
same out again
"$FP8CONV" report out -o page --source "$model" --quiet
grep -q -e '--keep S.json --keep-as bf16,channelwise --budget 12%' page/README.md || echo "the report has another command"
fails 2 " quantize: 'out' holds the output of another job: option 'keep.as*' differs (use --restart to start over)" \
	quantize "$model" --format compressed-tensors -o out --keep S.json --keep-as channelwise,bf16 --budget 12%

# All experts of a layer take one recipe.
# shellcheck disable=SC2086
"$FP8CONV" quantize "$moe" --ragged $ct -o out-moe --keep moe.json --keep-as channelwise --budget 40% -q
"$FP8CONV" verify out-moe --source "$moe"
# Compensated codes of a mixture.
python3 - <<'END'
import json, random
random.seed(5)
with open("a.jsonl", "w") as file:
    for n in (40, 17, 64, 64, 33, 21, 50, 64, 64, 64, 12, 30, 31, 32, 33):
        print(json.dumps({"input_ids": [random.randrange(100) for _ in range(n)]}), file=file)
END
# shellcheck disable=SC2086
"$FP8CONV" quantize "$model" $ct -o rounded --keep S.json --keep-as bf16,channelwise --budget 12% --rounding compensated \
	--data a.jsonl --shrink 0.6 -q
"$FP8CONV" verify rounded --source "$model"
python3 - <<'END'
import checkpoint
a, b = checkpoint.read("out"), checkpoint.read("rounded")
assert {n: t[:2] for n, t in a.items()} == {n: t[:2] for n, t in b.items()}
moved = {n: a[n][2] != b[n][2] for n in a if a[n][0] == "F8_E4M3"}
assert all(moved.values()), moved
assert all(a[n] == b[n] for n in a if a[n][0] != "F8_E4M3")
END

# Another recipe than that of the job has the scales of its row.
fails 2 "${c}duplicate 'channelwise'" quantize "$model" -o o --keep S.json --keep-as channelwise,bf16,channelwise --budget 9%
fails 2 "${c}duplicate 'bf16'" quantize "$model" -o o --keep S.json --keep-as bf16,bf16 --budget 9%
fails 2 "${c}'blockwise' is the recipe of all other groups: give another one" \
	quantize "$model" -o o --keep S.json --keep-as blockwise --budget 9%
fails 2 "${c}unknown recipe 'channel'*" quantize "$model" -o o --keep S.json --keep-as channel --budget 9%
fails 2 "${c}unknown recipe ''*" quantize "$model" -o o --keep S.json --keep-as '' --budget 9%
fails 2 "${c}recipe 'delayed' has static scales of inputs: *" quantize "$model" -o o --keep S.json --keep-as delayed --budget 9%
fails 2 "${c}'S.json' does not measure recipe 'current', but blockwise, channelwise, mxfp8" \
	quantize "$model" --format compressed-tensors -o o --keep S.json --keep-as current --budget 9%
fails 2 "${c}no engine loads recipe 'channelwise' in format 'hf': *" quantize "$model" -o o --keep S.json --keep-as channelwise --budget 9%
fails 2 "${c}format 'hf' cannot mix blockwise 128x128 and mxfp8 modules: *" \
	quantize "$model" --format hf -o o --keep S.json --keep-as mxfp8 --budget 9%
fails 2 "${c}blockwise 128x128 and channelwise modules in format 'compressed-tensors' do not load in trtllm: it reads only the first config group" \
	quantize "$model" --target trtllm --format compressed-tensors -o o --keep S.json --keep-as channelwise --budget 9%
fails 2 "${c}blockwise 128x128 modules in format 'modelopt' do not load in vllm beside other schemes: *" \
	quantize "$model" --target vllm --format modelopt -o o --keep S.json --keep-as channelwise --budget 9%
fails 2 " quantize: by 'S.json' no choice of what --keep-as allows has a KLD of at most 1e-05, but 0.00[0-9]*: allow bf16 too, *" \
	quantize "$model" --format compressed-tensors -o o --keep S.json --keep-as channelwise --max-kld 1e-5
fails 2 " quantize: option '--keep-as' requires '--keep'" quantize "$model" -o o --keep-as bf16
python3 - <<'END'
import json
table = json.load(open("S.json"))
table["recipes"][1]["options"]["scales"]["pow2"] = True
json.dump(table, open("other.json", "w"))
END
fails 2 "${c}'other.json' measures recipe 'channelwise' with other scales: *" \
	quantize "$model" --format compressed-tensors -o o --keep other.json --keep-as channelwise --budget 9%
[ ! -e o ] || echo "an output was made"

# A group that another recipe does not have as a whole does not take it; neither does one that this recipe measures in other sets.
python3 - <<'END'
import json
table = json.load(open("S.json"))
few = [g for g in table["groups"] if g["recipe"] == "channelwise"]
few[0]["modules"] = few[0]["modules"][1:]
few[1]["modules"] += few[2]["modules"]
few[2]["modules"] = [few[0]["modules"][0]]
json.dump(table, open("few.json", "w"))
END
plan "$model" --format compressed-tensors --keep few.json --keep-as channelwise --budget 60%
python3 "$CLI/json_check.py" plan.json "not any(g['group'] in ('layers.0.qkv', 'layers.0.o', 'layers.0.gate_up') for g in j['keep']['groups'])" \
	"any(g['group'] == 'layers.0.down' for g in j['keep']['groups'])"
# Without --ragged channelwise takes shapes that blockwise does not: they stay channelwise.
plan "$moe" --recipe channelwise --format compressed-tensors --keep moe.json --keep-as blockwise --budget 60%
json plan.json "all(t['recipe'] != 'blockwise' for t in j['tensors'] if any(n % 128 for n in t['shape']))"

# What the format or engines do not have by another recipe stays as it is: a table that finds blocks best of all.
python3 "$CLI/tiny.py" make qwen3_moe odd
"$FP8CONV" sensitivity odd --data ids.jsonl --format compressed-tensors --recipe blockwise,channelwise --ragged -o odd.json -q
for table in S odd; do
	python3 -c '
import json, sys
table = json.load(open(sys.argv[1]))
for g in table["groups"]:
    g["kld"]["mean"] *= 0.01 if g["recipe"] == "blockwise" else 1
json.dump(table, open("best-" + sys.argv[1], "w"))' $table.json
done
for format in compressed-tensors modelopt; do
	plan odd --recipe channelwise --ragged --format $format --keep best-odd.json --keep-as blockwise --budget 60% >/dev/null
	json plan.json "any(t['recipe'] == 'blockwise' for t in j['tensors']) == ('$format' != 'modelopt')"
done
"$FP8CONV" quantize "$model" --format compressed-tensors --dry-run --json >blocks.json
"$FP8CONV" quantize "$model" --recipe channelwise --dry-run --json >channels.json
plan "$model" --recipe channelwise --keep best-S.json --keep-as blockwise --budget 60%
python3 - <<'END'
import json
mixed, *alone = (json.load(open(name))["tp"] for name in ("plan.json", "blocks.json", "channels.json"))
assert mixed == [n for n in alone[1] if n in alone[0]] and mixed != alone[1], (mixed, alone)
END
