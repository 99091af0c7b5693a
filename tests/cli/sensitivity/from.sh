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
assert re.fullmatch(r"layers.0.qkv  skip  0\.00\d+  0\.0+\n1 group as skip: 8\.3 % of what FP8 saves, predicted KLD 0\.00\d+, else 0\.00\d+\n", text), text
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
for value in 10 0% -1% 101% 1x% nan% '' %; do
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
fails 3 "${c}'S.json' belongs to another model: its fingerprint is '*', but that of '*per-expert' is '*'" \
	sensitivity --from S.json "$moe" -o o --budget 10%
fails 2 "${c}'S.json' does not measure recipe 'mxfp8', but blockwise" sensitivity --from S.json -o o --recipe mxfp8 --budget 10%
[ ! -e o ] || echo "an output was made"
