#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-moe"
python3 "$CLI/terminal.py" "$FP8CONV" inspect "$SAMPLES/tiny-moe/fused" >t
tail -n 4 t | head -n 3
grep 'layers.0.mlp.gate.weight\|layers.0.mlp.experts.gate_up' t
# The end alone, in a pipe too.
"$FP8CONV" inspect "$SAMPLES/tiny-moe/fused" --summary >summary
sed -n '/^not FP8/,$p' t | sed 's/ *$//' | diff - summary

mkdir next
cd next
need "$SAMPLES/odd-shapes" "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
# In a pipe: one line a tensor, as a reader that is not ours sees them.
for model in odd-shapes tiny-moe/per-expert tiny-moe/fused; do
	"$FP8CONV" inspect "$SAMPLES/$model" >t
	python3 "$CLI/checkpoint.py" list "$SAMPLES/$model" | cut -f 1-2 | sort >wanted
	cut -f 1-2 t | sort | diff wanted -
	[ "$(awk -F '\t' '{ n += $4 } END { print n }' t)" = "$(python3 "$CLI/checkpoint.py" total "$SAMPLES/$model")" ] ||
		echo "$model: not that many bytes"
	awk -F '\t' 'NF != 7 || $6 != "" || $7 != ""' t
	"$FP8CONV" inspect "$SAMPLES/$model/config.json" 2>/dev/null && echo "config.json is no checkpoint"
done
# One file, an index and a directory are three ways to name the same.
"$FP8CONV" inspect "$SAMPLES/tiny-moe/fused" >a
"$FP8CONV" inspect "$SAMPLES/tiny-moe/fused/model.safetensors" | diff a -
"$FP8CONV" inspect "$SAMPLES/tiny-moe/per-expert" >a
"$FP8CONV" inspect "$SAMPLES/tiny-moe/per-expert/model.safetensors.index.json" | diff a -
# A stream is inspected like the file it came from, named "-".
"$FP8CONV" inspect "$SAMPLES/tiny-llama/model.safetensors" | sed 's/model\.safetensors/-/' >a
cat "$SAMPLES/tiny-llama/model.safetensors" | "$FP8CONV" inspect - | diff a -

mkdir next
cd next
need "$SAMPLES/odd-shapes"
"$FP8CONV" inspect --json "$SAMPLES/odd-shapes" >j
json j 'list(j) == ["schema", "kind", "recipe", "format", "scale_fmt", "low_bit", "files", "unfinished", "metadata", "totals", "states", "state_histories", "tensors"]' \
	'j["kind"] == "checkpoint" and j["recipe"] is j["format"] is j["scale_fmt"] is None' \
	'[f["name"] for f in j["files"]] == ["model-0000%d-of-00002.safetensors" % i for i in (1, 2)]' \
	'all(list(f) == ["name", "bytes"] for f in j["files"])' \
	'sum(f["bytes"] for f in j["files"]) > sum(t["bytes"] for t in j["tensors"])' \
	'all(list(t) == ["name", "file", "dtype", "shape", "bytes", "scale_inv", "scale", "kept", "packs"] for t in j["tensors"])' \
	'all(t["scale_inv"] is t["scale"] is None and t["kept"] is False for t in j["tensors"])' \
	'{t["file"] for t in j["tensors"]} == {f["name"] for f in j["files"]}' \
	'"model.layers.3.数据 🦙.weight" in [t["name"] for t in j["tensors"]]' \
	'"model.layers.3.say \"hi\" \\ now.weight" in [t["name"] for t in j["tensors"]]' \
	'[t["shape"] for t in j["tensors"] if t["name"] == "model.n_steps"] == [[]]' \
	'j["metadata"]["note"] == "été" and j["metadata"]["empty"] == ""'
for file in "$SAMPLES"/odd-shapes/model-*.safetensors; do
	json j "[f['bytes'] for f in j['files'] if f['name'] == '${file##*/}'] == [$(stat -c %s "$file")]"
done
# What the plan keeps is kept in the output; FP8 weights and scales are not.
need "$SAMPLES/tiny-moe/per-expert"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --dry-run --json >plan
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out
"$FP8CONV" inspect --json out >j
json j '{t["name"] for t in j["tensors"] if t["kept"]} == {t["name"] for t in json.load(open("plan"))["tensors"] if t["action"] == "keep"}' \
	'sum(t["kept"] for t in j["tensors"]) == 12'

mkdir then
cd then
# An amax history is told from a checkpoint by what it says of itself.
need "$SAMPLES/tiny-llama"
python3 "$CLI/amax.py" make "$SAMPLES/tiny-llama" s.amax passes=3 inf=model.layers.2.mlp.up_proj
"$FP8CONV" inspect s.amax >t
[ "$(wc -l <t)" -eq 32 ] || echo "$(wc -l <t) lines, not one a module"
grep -c 'self_attn	' t | grep -qx 4 || echo "not 4 attentions"
awk -F '\t' 'NF != 9 { print "line " NR ": " NF " fields" } $2 != 3 || $3 != 48 { print }' t
grep -q '^model.layers.2.mlp.up_proj	3	48	inf	' t || echo "no infinity"
"$FP8CONV" inspect --json s.amax >j
json j 'list(j)[:13] == ["schema", "kind", "recipe", "format", "scale_fmt", "low_bit", "files", "unfinished", "metadata", "totals", "states", "state_histories", "tensors"]' \
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
fails 2 " inspect: option '--stats' is for checkpoints, but 's.amax' is an amax history: omit the option" inspect s.amax --stats
fails 2 " inspect: option '--rename' is for checkpoints, but 's.amax' is an amax history: omit the option" inspect s.amax --rename s/a/b/
printf 'X' | dd of=s.amax bs=1 seek=100 conv=notrunc 2>/dev/null
"$FP8CONV" inspect s.amax >/dev/null 2>&1 && echo "a damaged file is shown"
exit 0
#1> not FP8
#1> 24 tensors, 921 kB, in 1 file
#1> 460288 parameters, 16.00 bits each
#1> model.layers.0.mlp.experts.gate_up_proj         BF16  [3, 256, 128]   197 kB
#1> model.layers.0.mlp.gate.weight                  BF16  [3, 128]         768 B
#1> amax history of model X
#1> 3 passes, 48 tokens in sequences of 16 at most, bf16, cpu
#1> data X
#1> module                           passes  tokens   x, q    w, k   y, v
