#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/odd-shapes"
"$FP8CONV" inspect --json "$SAMPLES/odd-shapes" >j
json j 'list(j) == ["schema", "kind", "recipe", "format", "scale_fmt", "low_bit", "files", "unfinished", "metadata", "totals", "tensors"]' \
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
