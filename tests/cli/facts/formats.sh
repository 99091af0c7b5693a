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
