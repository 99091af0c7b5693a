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
"$FP8CONV" recipes | cut -f 1
[ "$("$FP8CONV" recipes | awk -F '\t' 'NF != 3' | wc -l)" -eq 0 ] || echo "not three fields"
"$FP8CONV" recipes --json >j
json j 'list(j) == ["schema", "recipes"]' \
	'[r["name"] for r in j["recipes"]] == ["blockwise", "channelwise", "current", "delayed", "mxfp8"]' \
	'all(list(r) == ["name", "summary", "origin", "needs_history"] for r in j["recipes"])' \
	'[r["name"] for r in j["recipes"] if r["needs_history"]] == ["delayed"]'

#1> compressed-tensors	blockwise	vllm sglang trtllm transformers(dense)
#1> compressed-tensors	channelwise	vllm sglang trtllm transformers
#1> compressed-tensors	current	vllm sglang transformers
#1> compressed-tensors	delayed	vllm sglang transformers
#1> compressed-tensors	mxfp8	vllm transformers(dense)
#1> hf	blockwise	vllm sglang trtllm transformers
#1> hf	current	vllm sglang transformers
#1> hf	delayed	vllm sglang transformers
#1> hf	mxfp8	vllm sglang trtllm transformers
#1> modelopt	blockwise	vllm(dense) trtllm
#1> modelopt	channelwise	vllm(dense) trtllm
#1> modelopt	delayed	vllm sglang trtllm
#1> modelopt	mxfp8	vllm sglang trtllm
#1> blockwise
#1> channelwise
#1> current
#1> delayed
#1> mxfp8
