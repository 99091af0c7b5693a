#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# sensitivity --from: the groups that cost most for their size stay; what is predicted, and what is refused.  quantize obeys the list.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert"
c=" sensitivity: "
model=$SAMPLES/tiny-llama
moe=$SAMPLES/tiny-moe/per-expert
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json
"$FP8CONV" sensitivity "$moe" --data ids.jsonl -o moe.json --by expert --ragged

# expect TABLE CHOICE PLAN PERCENT MAX-KLD: the greedy choice, made again here, and what quantize makes of it.
cat >expect.py <<'END'
import json, sys
table, keep, plan = (json.load(open(path)) for path in sys.argv[1:4])
budget, max_kld = float(sys.argv[4]) / 100, float(sys.argv[5])
sets = {}
for g in table["groups"]:
    # engines need all experts of a layer in one type
    name = g["group"].split(".expert.")[0] + ".experts" if ".expert." in g["group"] else g["group"]
    one = sets.setdefault(name, {"kld": 0, "bytes": 0, "added": 0, "modules": []})
    one["kld"] += g["kld"]["mean"]
    one["bytes"] += g["bytes"]["bf16"]
    one["added"] += g["bytes"]["bf16"] - g["bytes"]["fp8"]
    one["modules"] += [m["name"] for m in g["modules"]]
everything, saved, total = (sum(s[key] for s in sets.values()) for key in ("bytes", "added", "kld"))
left, used, added, kept = total, 0, 0, []
for name in sorted(sets, key=lambda n: -sets[n]["kld"] / sets[n]["added"]):
    one = sets[name]
    if added + one["added"] <= budget * saved if budget else left > max_kld:
        used, added, left = used + one["bytes"], added + one["added"], left - one["kld"]
        kept += one["modules"]
assert abs(keep["predicted_kld"] - left) < 1e-8 and abs(keep["kld_without"] - total) < 1e-8, (keep, left, total)
assert (keep["kept_bytes"], keep["all_bytes"]) == (used, everything), (keep, used, everything)
assert abs(keep["added_share"] - added / saved) < 1e-6, (keep, added, saved)
assert all(g["recipe"] is None and g["kld_left"] == 0 for g in keep["groups"])
found = {t["name"].removesuffix(".weight") for t in plan["tensors"] if t["reason"] == "skipped by --tensors"}
assert found == set(kept), (found ^ set(kept))
assert all(t["action"] == "keep" and t["rule"] == "user" for t in plan["tensors"] if t["reason"] == "skipped by --tensors")
assert sum(g["bytes"] for g in keep["groups"]) == used and 0 < used < everything
END
# choice TABLE MODEL RAGGED OPTION...: the choice with these options, and the plan that obeys it.
choice() {
	table=$1
	chosen=$2
	ragged=$3
	shift 3
	"$FP8CONV" sensitivity --from "$table" "$@" -o KEEP --restart --json >choice.json
	# shellcheck disable=SC2086
	"$FP8CONV" quantize "$chosen" $ragged --tensors KEEP --dry-run --json >plan.json 2>/dev/null
}
for budget in 5 10 30 75; do
	choice S.json "$model" "" --budget $budget%
	python3 expect.py S.json choice.json plan.json $budget 0
	choice moe.json "$moe" --ragged --budget $budget%
	python3 expect.py moe.json choice.json plan.json $budget 0
done
for kld in 0.002 0.0005; do
	choice S.json "$model" "" --max-kld $kld
	python3 expect.py S.json choice.json plan.json 0 $kld
done
"$FP8CONV" sensitivity --from S.json "$model" --budget 10% --dry-run >choice.txt
python3 - <<'END'
import re
text = open("choice.txt").read()
assert re.fullmatch(r"group +becomes +KLD +KLD then\nlayers.0.qkv  skip +0\.00\d+  0\.0+\n1 group as skip: 8\.3 % of what FP8 saves, predicted KLD 0\.00\d+, was 0\.00\d+\n", text), text
END

# The list: a comment with the options and the prediction, then exact names; one for all experts of a layer.
"$FP8CONV" sensitivity --from S.json --budget 10% -o KEEP --restart
{
	echo "# fp8conv sensitivity --recipe blockwise --as skip --budget 10%: $(tail -n 1 choice.txt); SHA-256 of the table $(sha256sum <S.json | cut -d ' ' -f 1)"
	for module in q k v; do
		echo "model.layers.0.self_attn.${module}_proj=skip"
	done
} | diff - KEEP
"$FP8CONV" sensitivity --from moe.json --budget 75% -o moe.list
grep -q '^model\.layers\.[0-9]*\.mlp\.experts=skip$' moe.list || cat moe.list
[ -z "$(sort moe.list | uniq -d)" ] || cat moe.list

# The result: its configuration names what is kept, and all commands read it.
"$FP8CONV" quantize "$model" -o out --tensors KEEP
"$FP8CONV" verify out --source "$model" --target vllm
"$FP8CONV" eval out --source "$model" --data ids.jsonl --json >eval.json
"$FP8CONV" quantize "$moe" --ragged -o out-moe --tensors moe.list 2>/dev/null
"$FP8CONV" verify out-moe --source "$moe"
python3 - <<'END'
import hashlib, json
config = json.load(open("out/config.json"))["quantization_config"]["modules_to_not_convert"]
assert all(f"model.layers.0.self_attn.{m}_proj" in config for m in "qkv"), config
assert json.load(open("out/fp8conv-manifest.json"))["options"]["tensors"] == hashlib.sha256(open("KEEP", "rb").read()).hexdigest()
assert 0 < json.load(open("eval.json"))["kld"]["mean"] < 0.01
END
# It is the same as one that keeps these tensors by name.
"$FP8CONV" quantize "$model" -o named --exclude 'layers\.0\.self_attn\.[qkv]_proj'
same out named
"$FP8CONV" quantize "$model" -o out --tensors KEEP

# An output that exists.
"$FP8CONV" sensitivity --from S.json --budget 10% -o KEEP
fails 2 "${c}'KEEP' exists and has another choice: use --restart to overwrite it" sensitivity --from S.json --budget 40% -o KEEP
fails 2 "${c}'S.json' exists and is not a list of 'fp8conv sensitivity': choose another output or remove it" \
	sensitivity --from S.json --budget 40% -o S.json --restart
"$FP8CONV" sensitivity --from S.json --budget 40% -o KEEP --restart
fails 2 " quantize: 'out' holds the output of another job: option 'tensors' differs (use --restart to start over)" \
	quantize "$model" -o out --tensors KEEP

# Options.
fails 2 "${c}option '--from' requires '--budget' or '--max-kld': *" sensitivity --from S.json -o o
fails 2 "${c}option '--output' is missing: *" sensitivity --from S.json --budget 10%
for alone in "budget 10%" "max-kld 1" "as skip"; do
	# shellcheck disable=SC2086
	fails 2 "${c}option '--${alone% *}' requires '--from'" sensitivity "$model" -o o --$alone
done
fails 2 "${c}options '--budget' and '--max-kld' cannot be combined" sensitivity --from S.json -o o --budget 10% --max-kld 1
fails 2 "${c}options '--from' and '--exclude' cannot be combined: *" sensitivity --from S.json -o o --budget 10% --exclude x
fails 2 "${c}option '--recipe': give the one of the job, *" sensitivity --from S.json -o o --budget 10% --recipe blockwise,mxfp8
fails 2 "${c}MODEL is missing (*" sensitivity --data ids.jsonl -o o
for value in 0.1 0% -1% 101% 1x% nan% '' %; do
	fails 2 "${c}option '--budget': '$value' is not a percentage above 0 and up to 100, such as 10%" \
		sensitivity --from S.json -o o --budget "$value"
done
fails 2 "${c}nothing would be quantized: every group fits the budget: give a smaller --budget" sensitivity --from S.json -o o --budget 100%
fails 2 "${c}nothing would be quantized: by 'S.json' any group alone has a KLD above 1e-09: give a larger --max-kld" \
	sensitivity --from S.json -o o --max-kld 1e-9
for gone in keep keep-as budget max-kld; do
	fails 2 " quantize: option '--$gone' is gone: choose by 'fp8conv sensitivity --from S.json --budget 10% -o KEEP', and give --tensors KEEP" \
		quantize "$model" -o o --$gone S.json
done

# Tables of something else.
fails 3 "${c}cannot open 'none'*" sensitivity --from none -o o --budget 10%
fails 3 "${c}'S.json' belongs to another model: its fingerprint is '*', but that of '*per-expert' is '*': give one that was made of this model" \
	sensitivity --from S.json "$moe" -o o --budget 10%
fails 2 "${c}'S.json' does not measure recipe 'mxfp8', but blockwise" sensitivity --from S.json -o o --recipe mxfp8 --budget 10%
[ ! -e o ] || echo "an output was made"

mkdir next
cd next
# sensitivity --from --as: groups that cost most take another recipe, or BF16; what is predicted, what all commands make of the mixture,
# and what is refused.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert"
c=" sensitivity: option '--as': "
model=$SAMPLES/tiny-llama
moe=$SAMPLES/tiny-moe/per-expert
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
ct="--format compressed-tensors"
# shellcheck disable=SC2086
"$FP8CONV" sensitivity "$model" --data ids.jsonl $ct --recipe blockwise,channelwise,mxfp8 -o S.json
# shellcheck disable=SC2086
"$FP8CONV" sensitivity "$moe" --data ids.jsonl $ct --recipe blockwise,channelwise --by expert --ragged -o moe.json

# expect TABLE CHOICE PLAN JOB AS PERCENT MAX-KLD: the choice by steps on the convex hull of each set, made again here from the slopes of all
# pairs of its options.
cat >expect.py <<'END'
import json, sys
table, keep, plan = (json.load(open(path)) for path in sys.argv[1:4])
job, ways, budget, max_kld = sys.argv[4], sys.argv[5].split(","), float(sys.argv[6]) / 100, float(sys.argv[7])
sets = {}
for g in table["groups"]:
    name = g["group"].split(".expert.")[0] + ".experts" if ".expert." in g["group"] else g["group"]
    one = sets.setdefault(name, {"modules": set(), "ways": {}})
    one["modules"] |= {m["name"] for m in g["modules"]}
    for way, size, kld in (g["recipe"], g["bytes"]["fp8"], g["kld"]["mean"]), ("skip", g["bytes"]["bf16"], 0):
        if way in ("skip", *ways, job) and not (way == "skip" and g["recipe"] != job):
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
saved = sum(one["ways"]["skip"][0] - one["ways"][job][0] for one in sets.values())
left, added, taken, closed = sum(one["ways"][job][1] for one in sets.values()), 0, {}, set()
for _, name, way, cost, gain in sorted(steps, reverse=True):
    if name in closed or (not budget and left <= max_kld):
        continue
    if budget and added + cost > budget * saved:
        closed.add(name)
        continue
    taken[name], added, left = way, added + cost, left - gain
assert abs(keep["predicted_kld"] - left) < 1e-8 and abs(keep["added_share"] - added / saved) < 1e-6, (keep, left, added / saved)
wanted = {module + ".weight": way for name, way in taken.items() for module in sets[name]["modules"]}
for t in plan["tensors"]:
    way = wanted.pop(t["name"], None)
    if way is None:
        assert t["reason"] != "skipped by --tensors" and t["recipe"] in (None, job), t
    else:
        assert (t["recipe"] or "skip") == way and t["rule"] == "user", (t, way)
        assert t["action"] == ("keep" if way == "skip" else "quantize"), t
assert not wanted, wanted
for g in keep["groups"]:
    name = g["group"].split(".expert.")[0] + ".experts" if ".expert." in g["group"] else g["group"]
    size, kld = sets[name]["ways"][g["recipe"] or "skip"]
    assert taken[name] == (g["recipe"] or "skip") and g["bytes"] == size and abs(g["kld_left"] - kld) < 1e-9, g
print(len(set(taken.values())))
END
# choose TABLE OPTION... and obey MODEL OPTION...: the choice, and the plan that obeys it.
choose() {
	table=$1
	shift
	"$FP8CONV" sensitivity --from "$table" "$@" -o KEEP --restart --json >choice.json
}
obey() {
	"$FP8CONV" quantize "$@" --tensors KEEP --dry-run --json >plan.json 2>notes || cat notes
}
for budget in 1 5 12 40; do
	for as in channelwise skip,channelwise channelwise,skip,mxfp8; do
		choose S.json --as $as --budget $budget%
		# shellcheck disable=SC2086
		obey "$model" $ct
		python3 expect.py S.json choice.json plan.json blockwise $as $budget 0 >>counts
	done
	choose moe.json --as skip,channelwise --budget $budget%
	# shellcheck disable=SC2086
	obey "$moe" --ragged $ct
	python3 expect.py moe.json choice.json plan.json blockwise skip,channelwise $budget 0 >>counts
done
for kld in 0.0032 0.002 0.0005; do
	choose S.json --as channelwise,skip --max-kld $kld
	# shellcheck disable=SC2086
	obey "$model" $ct
	python3 expect.py S.json choice.json plan.json blockwise channelwise,skip 0 $kld >>counts
done
grep -q 2 counts || echo "no plan takes both BF16 and another recipe"
# BF16 alone is the default.
"$FP8CONV" sensitivity --from S.json --budget 10% -o plain
"$FP8CONV" sensitivity --from S.json --budget 10% --as skip -o skip
cmp plain skip

# The result is that of the same recipes by name, and all commands read it.
choose S.json --as skip,channelwise --budget 12%
# shellcheck disable=SC2086
"$FP8CONV" quantize "$model" $ct -o out --tensors KEEP
sed -n 's/\./\\./g; s/^\([^#]*\)=/--tensor\n^\1\\.weight$=/p' KEEP >rules
# shellcheck disable=SC2086
xargs -d '\n' "$FP8CONV" quantize "$model" $ct -o named <rules
same out named
grep -q '^# .*: [1-9] groups\? as skip, [1-9][0-9]* groups as channelwise: [89].[0-9] % of what FP8 saves, ' KEEP || cat KEEP
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
keep, found = json.load(open("choice.json")), json.load(open("eval.json"))["kld"]["mean"]
assert abs(keep["predicted_kld"] / found - 1) < 0.2, (keep, found)
groups = json.load(open("out/config.json"))["quantization_config"]["config_groups"].values()
assert sorted(g["weights"]["strategy"] for g in groups) == ["block", "channel"], groups
END
"$FP8CONV" dequantize out -o back -q
"$FP8CONV" repack out -o modelopt --format modelopt -q
"$FP8CONV" verify modelopt --source "$model"
"$FP8CONV" repack modelopt -o again --format compressed-tensors -q
same out again
"$FP8CONV" report out -o page --source "$model" --quiet
grep -q -e '--tensors KEEP' page/README.md || echo "the report has another command"

# All experts of a layer take one recipe.
cp KEEP mix
choose moe.json --as channelwise --budget 40%
# shellcheck disable=SC2086
"$FP8CONV" quantize "$moe" --ragged $ct -o out-moe --tensors KEEP -q
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
"$FP8CONV" quantize "$model" $ct -o rounded --tensors mix --rounding compensated \
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

# What --as refuses.
fails 2 "${c}duplicate 'channelwise'" sensitivity --from S.json -o o --as channelwise,skip,channelwise --budget 9%
fails 2 "${c}duplicate 'skip'" sensitivity --from S.json -o o --as skip,skip --budget 9%
fails 2 "${c}'blockwise' is the recipe of all other groups: give another one" sensitivity --from S.json -o o --as blockwise --budget 9%
fails 2 "${c}unknown recipe 'channel'*" sensitivity --from S.json -o o --as channel --budget 9%
fails 2 "${c}unknown recipe ''*" sensitivity --from S.json -o o --as '' --budget 9%
fails 2 "${c}'S.json' does not measure recipe 'current', but blockwise, channelwise, mxfp8" \
	sensitivity --from S.json -o o --as current --budget 9%
fails 2 " sensitivity: by 'S.json' no choice of what --as allows has a KLD of at most 1e-05, but 0.00[0-9]*: allow skip too, *" \
	sensitivity --from S.json -o o --as channelwise --max-kld 1e-5
# What quantize refuses of a list, by the format and the engine.
fails 2 " quantize: *no engine loads recipe 'channelwise' in format 'hf': *" quantize "$model" -o o --tensors mix
fails 2 " quantize: *modules in format 'compressed-tensors' do not load in trtllm: it reads only the first config group" \
	quantize "$model" --target trtllm --format compressed-tensors -o o --tensors mix
[ ! -e o ] || echo "an output was made"

# A group whose matrices another recipe does not have as a whole does not take it.
python3 - <<'END'
import json
table = json.load(open("S.json"))
few = [g for g in table["groups"] if g["recipe"] == "channelwise"]
few[0]["modules"] = few[0]["modules"][1:]
few[1]["modules"] += few[2]["modules"]
few[2]["modules"] = [few[0]["modules"][0]]
json.dump(table, open("few.json", "w"))
END
choose few.json --as channelwise --budget 60%
json choice.json "not any(g['group'] in ('layers.0.qkv', 'layers.0.o', 'layers.0.gate_up') for g in j['groups'])" \
	"any(g['group'] == 'layers.0.down' for g in j['groups'])"
# With another recipe of the job.
choose moe.json --recipe channelwise --as blockwise --budget 60%
json choice.json "j['recipe'] == 'channelwise' and all(g['recipe'] == 'blockwise' for g in j['groups'])"
# A mixture loads at the tensor-parallel sizes of both.
python3 - <<'END'
import json
table = json.load(open("S.json"))
for g in table["groups"]:
    g["kld"]["mean"] *= 0.01 if g["recipe"] == "blockwise" else 1
json.dump(table, open("best.json", "w"))
END
"$FP8CONV" quantize "$model" --format compressed-tensors --dry-run --json >blocks.json
"$FP8CONV" quantize "$model" --recipe channelwise --dry-run --json >channels.json
choose best.json --recipe channelwise --as blockwise --budget 60%
obey "$model" --recipe channelwise
python3 - <<'END'
import json
mixed, *alone = (json.load(open(name))["tp"] for name in ("plan.json", "blocks.json", "channels.json"))
assert mixed == [n for n in alone[1] if n in alone[0]] and mixed != alone[1], (mixed, alone)
END
