#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# An amax history is told from a checkpoint by what it says of itself.
need "$SAMPLES/tiny-llama"
python3 "$CLI/amax.py" make "$SAMPLES/tiny-llama" s.amax passes=3 inf=model.layers.2.mlp.up_proj
"$FP8CONV" inspect s.amax >t
[ "$(wc -l <t)" -eq 32 ] || echo "$(wc -l <t) lines, not one a module"
grep -c 'self_attn	' t | grep -qx 4 || echo "not 4 attentions"
awk -F '\t' 'NF != 9 { print "line " NR ": " NF " fields" } $2 != 3 || $3 != 48 { print }' t
grep -q '^model.layers.2.mlp.up_proj	3	48	inf	' t || echo "no infinity"
"$FP8CONV" inspect --json s.amax >j
json j 'list(j)[:11] == ["schema", "kind", "recipe", "format", "scale_fmt", "low_bit", "files", "unfinished", "metadata", "totals", "tensors"]' \
	'j["kind"] == "amax" and j["recipe"] is j["format"] is j["scale_fmt"] is None' \
	'j["metadata"]["fp8conv_amax"] == "1" and j["metadata"]["model"] == j["model"]' \
	'(j["precision"], j["backend"], j["passes"], j["tokens"], j["seq_len"], j["amax_history_len"]) == ("bf16", "cpu", 3, 48, 16, 1024)' \
	'[s["name"] for s in j["sites"]] == sorted(s["name"] for s in j["sites"]) and len(j["sites"]) == 32' \
	'all(list(s) == ["name", "kind", "passes", "tokens", "histogram", "history"] for s in j["sites"])' \
	'{s["kind"]: list(s["history"]) for s in j["sites"]} == {"module": ["x", "w", "y", "tokens"], "attention": ["q", "k", "v", "tokens"]}' \
	'[s["history"]["x"][2] for s in j["sites"] if s["name"] == "model.layers.2.mlp.up_proj"] == [None]' \
	'all(s["history"]["tokens"] == [16, 16, 16] for s in j["sites"])'
# Every value, as a program reads it.
python3 - j <<'END'
import json, sys
import amax
_, tensors = amax.read("s.amax")
for site in json.load(open(sys.argv[1]))["sites"]:
    suffix = ".amax_history" if site["kind"] == "module" else ".amax_history_qkv"
    for column, values in enumerate(list(site["history"].values())[:3]):
        want = amax.unpack(tensors[site["name"] + suffix])[column::3]
        got = [float("inf") if v is None else amax.f32(v) for v in values]
        if got != want:
            print(site["name"], got, want)
END
python3 "$CLI/terminal.py" "$FP8CONV" inspect s.amax >t
sed -n 1,3p t | sed 's/[0-9a-f]\{32\}/X/'
sed -n 5p t
printf 'X' | dd of=s.amax bs=1 seek=100 conv=notrunc 2>/dev/null
"$FP8CONV" inspect s.amax >/dev/null 2>&1 && echo "a damaged file is shown"
exit 0

#1> amax history of model X
#1> 3 passes, 48 tokens in sequences of 16 at most, bf16, cpu
#1> data X
#1> module                           passes  tokens   x, q    w, k   y, v
