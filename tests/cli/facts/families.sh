#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "python3()"
"$FP8CONV" families >t
"$FP8CONV" families --json >j
# Lines and object say the same: of families, then of rows.
sed '/^$/,$d' t >can
sed '1,/^$/d' t >rows
json j 'all(list(f) == ["name", "convert", "refused_by", "calibrate", "eval"] for f in j["families"])' \
	'len({f["name"] for f in j["families"]}) == len(j["families"]) > 60' \
	'{n for r in j["rows"] for n in r["families"] if r["action"] not in ("name", "entry")} == {f["name"] for f in j["families"] if f["convert"] == "rows"}' \
	'all(f["eval"] == (f["calibrate"] == "text") for f in j["families"])' \
	'"".join("\t".join([f["name"],
	         "convert" + (" not for " + " or ".join(f["refused_by"]) if f["refused_by"] else " by rows" if f["convert"] == "rows" else ""),
	         "calibrate" if f["calibrate"] == "text" else "calibrate --activations", "eval" if f["eval"] else "-"]) + "\n"
	         for f in j["families"]) == open("can").read()'
# Architectures are those that calibrate names when it has none.
mkdir unknown
python3 "$CLI/checkpoint.py" make unknown/model.safetensors w=F32:2x2
echo '{"architectures": ["NoSuchForCausalLM"], "model_type": "nosuch"}' >unknown/config.json
"$FP8CONV" calibrate unknown --data ids.npy -o h 2>said
sed 's/.*(supported: //; s/).*//; s/, /\n/g' said >archs
json j '[f["name"] for f in j["families"]][:len(open("archs").read().split())] == open("archs").read().split()'
json j 'list(j) == ["schema", "families", "rows"]' 'len(j["rows"]) > 40' \
	'all(list(r) == ["families", "pattern", "action", "rule", "recipes", "formats", "engines", "said", "source"] for r in j["rows"])' \
	'all(r["families"] and r["pattern"] and r["source"] and r["rule"] in ("vendor", "engine") for r in j["rows"])' \
	'{r["action"] for r in j["rows"]} <= set("keep bare general ragged fuse stack split table config format not-loaded cache cache-stop name entry".split())' \
	'"".join("\t".join([" ".join(r["families"]), r["pattern"], r["action"], r["rule"],
	         " ".join(w + " or ".join(r[k]) for w, k in (("by ", "recipes"), ("in ", "formats"), ("for ", "engines")) if r[k]),
	         r["said"] or "", r["source"]]) + "\n" for r in j["rows"]) == open("rows").read()'
# A family is one of the table, by its model_type or the class of its model, or that of a model's config.json.
"$FP8CONV" families step3p7
"$FP8CONV" families NemotronH_Nano_VL_V2 | cut -f 1,2
"$FP8CONV" families Qwen3NextForCausalLM
"$FP8CONV" families gemma3_text
mkdir model gigachat35
echo '{"model_type": "pixtral", "text_config": {"model_type": "gigachat35"}}' >model/config.json
"$FP8CONV" families model | cut -f 1,2
"$FP8CONV" families --json model >g
json g 'len(j["rows"]) == 2'
echo '{"architectures": ["JetNemotronForCausalLM"]}' >model/config.json
echo '{"model_type": "zaya"}' >gigachat35/config.json
[ "$("$FP8CONV" families gigachat35)" = "$("$FP8CONV" families gigachat3_5 | sed '1s/gigachat3_5/gigachat35/')" ] || echo "a directory hides a family"
"$FP8CONV" families ./gigachat35 | cut -f 2
# A family without a row is no error, and no row; a note says so of one that is in no table.
"$FP8CONV" families cohere2
"$FP8CONV" families xyz 2>note
[ "$(cat note)" = "fp8conv families: note: no table names 'xyz': the general rules decide" ] || cat note
"$FP8CONV" families model --json 2>note >g
[ "$(cat note)" = "fp8conv families: note: no table names 'model': the general rules decide" ] || cat note
json g 'j["rows"] == []'
fails 3 " families: cannot open './nowhere': No such file or directory" families ./nowhere
echo '[' >model/config.json
fails 3 " families: *config.json*" families model
fails 2 " families: unexpected argument 'b'" families a b
# On a terminal, no line is wider than it.
python3 "$CLI/terminal.py" "$FP8CONV" families >screen
[ "$(wc -L <screen)" -le 80 ] || awk 'length > 80' screen
python3 "$CLI/terminal.py" "$FP8CONV" families gpt_oss | tr -d '\r'
