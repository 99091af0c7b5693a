#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# quantize --keep: the groups that cost most for their size stay; what is predicted, and what is refused.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert"
c=" quantize: "
model=$SAMPLES/tiny-llama
moe=$SAMPLES/tiny-moe/per-expert
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json
"$FP8CONV" sensitivity "$moe" --data ids.jsonl -o moe.json --by expert --ragged

# expect TABLE PLAN PERCENT MAX-KLD: the greedy choice, made again here.
cat >expect.py <<'END'
import json, sys
table, plan = (json.load(open(path)) for path in sys.argv[1:3])
budget, max_kld = float(sys.argv[3]) / 100, float(sys.argv[4])
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
keep = plan["keep"]
assert abs(keep["predicted_kld"] - left) < 1e-8 and abs(keep["kld_without"] - total) < 1e-8, (keep, left, total)
assert (keep["kept_bytes"], keep["all_bytes"]) == (used, everything), (keep, used, everything)
assert abs(keep["added_share"] - added / saved) < 1e-6, (keep, added, saved)
assert all(g["recipe"] is None and g["kld_left"] == 0 for g in keep["groups"])
found = {t["name"].removesuffix(".weight") for t in plan["tensors"] if t["reason"] == "sensitive"}
assert found == set(kept), (found ^ set(kept))
assert all(t["action"] == "keep" and t["rule"] == "user" for t in plan["tensors"] if t["reason"] == "sensitive")
assert sum(g["bytes"] for g in keep["groups"]) == used and 0 < used < everything
END
for budget in 5 10 30 75; do
	"$FP8CONV" quantize "$model" --keep S.json --budget $budget% --dry-run --json >plan.json
	python3 expect.py S.json plan.json $budget 0
	"$FP8CONV" quantize "$moe" --ragged --keep moe.json --budget $budget% --dry-run --json >plan.json 2>/dev/null
	python3 expect.py moe.json plan.json $budget 0
done
for kld in 0.002 0.0005; do
	"$FP8CONV" quantize "$model" --keep S.json --max-kld $kld --dry-run --json >plan.json
	python3 expect.py S.json plan.json 0 $kld
done
"$FP8CONV" quantize "$model" --dry-run --json >plan.json
python3 "$CLI/json_check.py" plan.json "'keep' not in j"
"$FP8CONV" quantize "$model" --keep S.json --budget 10% --dry-run >plan.txt
grep -q '^keep      1 group in BF16: 8.3 % of what FP8 saves$' plan.txt || cat plan.txt
grep -q '^          predicted KLD 0.00[0-9]*, else 0.00[0-9]*$' plan.txt || cat plan.txt

# The result: its configuration names what is kept, and all commands read it.
"$FP8CONV" quantize "$model" -o out --keep S.json --budget 10%
"$FP8CONV" verify out --source "$model" --target vllm
"$FP8CONV" eval out --source "$model" --data ids.jsonl --json >eval.json
"$FP8CONV" quantize "$moe" --ragged -o out-moe --keep moe.json --budget 30% 2>/dev/null
"$FP8CONV" verify out-moe --source "$moe"
python3 - <<'END'
import hashlib, json
config = json.load(open("out/config.json"))["quantization_config"]["modules_to_not_convert"]
assert all(f"model.layers.0.self_attn.{m}_proj" in config for m in "qkv"), config
keep = json.load(open("out/fp8conv-manifest.json"))["options"]["keep"]
assert keep["sha256"] == hashlib.sha256(open("S.json", "rb").read()).hexdigest()
assert (keep["budget"], keep["max_kld"]) == (0.1, None) and 0 < keep["predicted_kld"] < 0.01, keep
assert 0 < json.load(open("eval.json"))["kld"]["mean"] < 0.01
END
# It is the same as one that keeps these tensors by name.
"$FP8CONV" quantize "$model" -o named --exclude 'layers\.0\.self_attn\.[qkv]_proj'
same out named
"$FP8CONV" quantize "$model" -o out --keep S.json --budget 10%
fails 2 "${c}'out' holds the output of another job: option 'keep.budget' differs (use --restart to start over)" \
	quantize "$model" -o out --keep S.json --budget 20%

# Options.
fails 2 "${c}option '--keep' requires '--budget' or '--max-kld': *" quantize "$model" -o o --keep S.json
fails 2 "${c}option '--budget' requires '--keep'" quantize "$model" -o o --budget 10%
fails 2 "${c}option '--max-kld' requires '--keep'" quantize "$model" -o o --max-kld 1
fails 2 "${c}options '--budget' and '--max-kld' cannot be combined" quantize "$model" -o o --keep S.json --budget 10% --max-kld 1
for value in 10 0% -1% 101% 1x% nan% '' %; do
	fails 2 "${c}option '--budget': '$value' is not a percentage above 0 and up to 100, such as 10%" \
		quantize "$model" -o o --keep S.json --budget "$value"
done
fails 2 "${c}nothing would be quantized: every group fits the budget: give a smaller --budget" \
	quantize "$model" -o o --keep S.json --budget 100%
fails 2 "${c}nothing would be quantized: by 'S.json' any group alone has a KLD above 1e-09: give a larger --max-kld" \
	quantize "$model" -o o --keep S.json --max-kld 1e-9

# Tables of something else.
fails 3 "${c}cannot open 'none'*" quantize "$model" -o o --keep none --budget 10%
fails 3 "${c}'moe.json' belongs to another model: 'model.layers.0.self_attn.q_proj' has another shape in this one" \
	quantize "$model" -o o --ragged --keep moe.json --budget 10%
fails 3 "${c}'S.json' belongs to another model: 'model.layers.0.self_attn.q_proj' has another shape in this one" \
	quantize "$moe" -o o --ragged --keep S.json --budget 10%
cp -r "$model" tuned
chmod -R u+w tuned
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("tuned/model.safetensors")
dtype, shape, data = tensors["model.norm.weight"]
tensors["model.norm.weight"] = dtype, shape, checkpoint.pack("BF16", [1] * shape[0])
checkpoint.write("tuned/model.safetensors", tensors)
END
fails 3 "${c}'S.json' belongs to another model: its fingerprint is '*', but that of 'tuned' is '*'" \
	quantize tuned -o o --keep S.json --budget 10%
fails 2 "${c}'S.json' does not measure recipe 'mxfp8', but blockwise" quantize "$model" -o o --recipe mxfp8 --keep S.json --budget 10%
fails 2 "${c}'S.json' measures recipe 'blockwise' with other scales: repeat the options of 'fp8conv sensitivity'" \
	quantize "$model" -o o --scale-fmt float --keep S.json --budget 10%
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o few.json --exclude 'layers\.3\.'
fails 2 "${c}'model.layers.3.mlp.down_proj.weight' would be quantized, but 'few.json' does not measure it: repeat *" \
	quantize "$model" -o o --keep few.json --budget 10%
"$FP8CONV" quantize "$model" --dry-run --keep S.json --budget 10% --exclude 'layers\.0\.' --json >plan.json
python3 "$CLI/json_check.py" plan.json "j['keep']['all_bytes'] == 3 * 393216"
# A group with a matrix that is kept, and one with a matrix of another group.
python3 - <<'END'
import copy, json
table = json.load(open("S.json"))
for name, module in (("apart.json", {"name": "model.embed_tokens", "shape": [1024, 128]}), ("twice.json", table["groups"][0]["modules"][0]),
                     ("other.json", {"name": "model.layers.9.mlp.up_proj", "shape": [1, 1]})):
    changed = copy.deepcopy(table)
    changed["groups"][2]["modules"].append(module)
    json.dump(changed, open(name, "w"))
END
fails 3 "${c}'twice.json' has 'model.layers.0.self_attn.q_proj' in two groups" quantize "$model" -o o --keep twice.json --budget 10%
fails 3 "${c}'other.json' belongs to another model: 'model.layers.9.mlp.up_proj' is not in this one" \
	quantize "$model" -o o --keep other.json --budget 10%
fails 2 "${c}only a part of group 'layers.0.gate_up' in 'apart.json' would be quantized: repeat *" \
	quantize "$model" -o o --keep apart.json --budget 10%
[ ! -e o ] || echo "an output was made"
