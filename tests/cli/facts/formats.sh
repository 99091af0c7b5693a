#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
"$FP8CONV" formats
"$FP8CONV" formats --json >j
"$FP8CONV" formats >t
json j 'list(j) == ["schema", "formats"]' \
	'[f["name"] for f in j["formats"]] == ["compressed-tensors", "hf", "modelopt"]' \
	'all(list(f) == ["name", "summary", "recipes"] for f in j["formats"])' \
	'"".join("%s\t%s\t%s\n" % (f["name"], r["recipe"], " ".join(
	         e + "(dense)" * (e in r["dense_only"]) for e in r["engines"])) for f in j["formats"]
	         for r in f["recipes"]) == open("t").read()'
