#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "python3()"
"$FP8CONV" families >t
"$FP8CONV" families --json >j
# Lines and object say the same.
json j 'list(j) == ["schema", "rows"]' 'len(j["rows"]) > 40' \
	'all(list(r) == ["families", "pattern", "action", "rule", "recipes", "formats", "engines", "said", "source"] for r in j["rows"])' \
	'all(r["families"] and r["pattern"] and r["source"] and r["rule"] in ("vendor", "engine") for r in j["rows"])' \
	'{r["action"] for r in j["rows"]} <= set("keep bare general ragged fuse stack split table config format not-loaded".split())' \
	'"".join("\t".join([" ".join(r["families"]), r["pattern"], r["action"], r["rule"],
	         " ".join(w + " or ".join(r[k]) for w, k in (("by ", "recipes"), ("in ", "formats"), ("for ", "engines")) if r[k]),
	         r["said"] or "", r["source"]]) + "\n" for r in j["rows"]) == open("t").read()'
# A family is one of the table, by its model_type or the class of its model, or that of a model's config.json.
"$FP8CONV" families step3p7
"$FP8CONV" families NemotronH_Nano_VL_V2 | cut -f 1,2
mkdir model step3p5
echo '{"model_type": "mistral3", "text_config": {"model_type": "gigachat35"}}' >model/config.json
"$FP8CONV" families model | cut -f 1,2
"$FP8CONV" families --json model >g
json g 'len(j["rows"]) == 2'
echo '{"architectures": ["JetNemotronForCausalLM"]}' >model/config.json
echo '{"model_type": "zaya"}' >step3p5/config.json
[ "$("$FP8CONV" families step3p5)" = "$("$FP8CONV" families step3p7)" ] || echo "a directory hides a family"
"$FP8CONV" families ./step3p5 | cut -f 2
# A family without a row is no error, and no row.
"$FP8CONV" families llama 2>note
[ "$(cat note)" = "fp8conv families: note: no row is about 'llama': the general rules decide" ] || cat note
"$FP8CONV" families model --json 2>note >g
[ "$(cat note)" = "fp8conv families: note: no row is about 'model': the general rules decide" ] || cat note
json g 'j["rows"] == []'
fails 3 " families: cannot open './nowhere': No such file or directory" families ./nowhere
echo '[' >model/config.json
fails 3 " families: *config.json*" families model
fails 2 " families: unexpected argument 'b'" families a b
# On a terminal, no line is wider than it.
python3 "$CLI/terminal.py" "$FP8CONV" families >screen
[ "$(wc -L <screen)" -le 80 ] || awk 'length > 80' screen
python3 "$CLI/terminal.py" "$FP8CONV" families gpt_oss | tr -d '\r'
