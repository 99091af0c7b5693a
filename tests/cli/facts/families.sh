#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "python3()"
"$FP8CONV" families >t
"$FP8CONV" families --json >j
# Lines and object say the same: of families, then of rows.
sed '/^$/,$d' t >can
sed '1,/^$/d' t >rows
json j 'all(list(f) == ["name", "convert", "refused_by", "calibrate", "eval", "architecture"] for f in j["families"])' \
	'len({f["name"] for f in j["families"]}) == len(j["families"]) > 60' \
	'{n.removesuffix("*") for r in j["rows"] for n in r["families"] if r["action"] not in ("name", "entry")} == {f["name"].removesuffix("*") for f in j["families"] if f["convert"] == "rows"}' \
	'all(f["eval"] == (f["calibrate"] == "text") == (f["architecture"] is not None) for f in j["families"])' \
	'"".join("\t".join([f["name"],
	         "convert" + (" not for " + " or ".join(f["refused_by"]) if f["refused_by"] else " by own rules" if f["convert"] == "rows" else ""),
	         "calibrate" if f["calibrate"] == "text" else "calibrate in torch", "eval" if f["eval"] else "-"]) + "\n"
	         for f in j["families"]) == open("can").read()'
# Architectures are those that calibrate runs.
json j 'list(dict.fromkeys(f["architecture"] for f in j["families"] if f["eval"])) == list(__import__("json").load(open("'"$CLI"'/architectures.json")))'
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
# A model that holds another one, and names that begin so.
for family in step3p7 mistral3 kimi_k25 bailing_moe_v3 'DeepseekV*' 'Longcat*' glm_ocr Qwen3_5ForConditionalGeneration; do
	"$FP8CONV" families "$family" --json | python3 -c 'import json, sys; f = json.load(sys.stdin)["families"][0]; print(f["name"], f["architecture"])'
done
# What runs a release's config.json is told of its model_type too.
python3 - "$CLI/../families" <<'EOF'
import json
import os
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
from cases import CASES


def runs(name):
    told = subprocess.run([os.environ["FP8CONV"], "families", "--json", name], check=True, capture_output=True).stdout
    return json.loads(told)["families"][0]["eval"]


os.mkdir("release")
n = 0
for name, case in CASES.items():
    with open("release/config.json", "w") as file:
        json.dump(case["config"], file)
    if "model_type" in case["config"] and runs("./release"):
        n += 1
        if not runs(case["config"]["model_type"]):
            print(name, "runs by its config.json, and not by", case["config"]["model_type"])
if n < 30:
    print(f"only {n} of the releases run")
EOF
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
"$FP8CONV" families smollm3
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

mkdir then
cd then
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
#1> step3p7	convert by own rules	calibrate	eval
#1>
#1> step3p5 step3p7	*.moe.{gate,up,down}_proj	stack	engine			sglang models/step3p5.py
#1> step3p5 step3p7	*.layers.*	keep	vendor		only routed experts are FP8 in the release	TensorRT-LLM #14759
#1> step3p5 step3p7	*.self_attn.g_proj	keep	engine	for sglang	SGLang builds it without quantization, and skips a scale silently	sglang models/step3p5.py
#1> afmoe bailing_moe cohere2_moe deepseek exaone_moe glm4 glm4_moe gpt_oss granite granitemoe granitemoehybrid hunyuan_v1_dense hunyuan_v1_moe hy_v3 lfm2 lfm2_moe llada2_moe llama4_text mellum minicpm minicpm3 mixtral olmo2 phi3small qwen2 qwen2_moe qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text qwen2_5_vl starcoder2 step3_text step3p5 step3p7	*	cache	engine	for sglang	SGLang does not load the KV cache scales of this model: it uses 1.0	sglang model classes
#1> step3p5 step3p7 step3_vl step3_text	moe=mlp	name	engine	for sglang		sglang step3p5.py
#1> step3p7 dots3_note hy_v4_vl	^model.layers=model.language_model.layers	name	engine	in compressed-tensors for transformers		transformers conversion_mapping
#1> step3p7	*.share_expert.*	entry	engine	in compressed-tensors or hf for transformers	re:.*\.mlp\.shared_experts\..*	transformers conversion_mapping
#1> cosmos3_edge cosmos3_omni dots3_note ernie4_5_vl_moe hy_v4_vl hyperclovax_vision_v2 inkling_mm_model kimi_k25 lfm3_vl minimax_m3_vl mistral_large4 molmo2 nemo_speechlm nemotron_h_omni qianfan_ocr shieldgemma2 step3p7 unlimited_ocr vibevoice_asr	*.{vis*,vit,perception,acoustic*,blocks}.*	entry	engine	in compressed-tensors or hf for transformers	re:(model\.)?(vis|audio|word|acoustic|semantic|resam|.*projector).*	transformers conversion_mapping
#1> NemotronH_Nano_VL_V2	convert by own rules
#1>
#1> nemotron_h nemotron_h_omni NemotronH_*	*.mtp.*
#1> nemotron_h nemotron_h_omni NemotronH_*	*.mixer.in_proj
#1> nemotron_h nemotron_h_omni NemotronH_*	*.mixer.in_proj
#1> nemotron_h nemotron_h_omni NemotronH_*	*.mixer.{q,k,v,o}_proj
#1> nemotron_h nemotron_h_omni NemotronH_*	*.mixer.fc{1,2}_latent_proj
#1> Qwen3NextForCausalLM	convert	calibrate	eval
#1> gemma3_text	convert	calibrate	eval
#1>
#1> llama mistral qwen2 qwen3 gemma2 gemma3_text	^layers=model.layers	name	engine	for vllm		vllm registry.py
#1> llama mistral qwen2 qwen3 gemma2 gemma3_text cohere2 deepseek_v3 laguna	^fc=model.fc	name	engine	for vllm		vllm llama_eagle3.py
#1> step3p7 step3p5
#1> mistral3 mistral
#1> kimi_k25 deepseek_v3
#1> bailing_moe_v3 bailing_hybrid
#1> DeepseekV* deepseek_v2
#1> Longcat* None
#1> glm_ocr None
#1> Qwen3_5ForConditionalGeneration qwen3_5
#1> pixtral	convert by own rules
#1>
#1> gigachat35 gigachat3_5	*.self_attn.g_proj
#1> gigachat35 gigachat3_5	*.gate_{up,down}_lowrank
#1> convert by own rules
#1>
#1> *.experts.*.gate_proj
#1> *.mlp.gate.*
#1> smollm3	convert	calibrate	eval
#1> xyz	convert	calibrate in torch	-
#1> gpt_oss  convert by own rules  calibrate  eval
#1>
#1> gpt_oss
#1>   not-loaded *.experts.*
#1>              no engine loads FP8 experts of gpt_oss under these names
#1>              [engine: vllm gpt_oss.py]
#1>
#1> afmoe bailing_moe cohere2_moe deepseek exaone_moe glm4 glm4_moe gpt_oss granite
#1>   granitemoe granitemoehybrid hunyuan_v1_dense hunyuan_v1_moe hy_v3 lfm2
#1>   lfm2_moe llada2_moe llama4_text mellum minicpm minicpm3 mixtral olmo2
#1>   phi3small qwen2 qwen2_moe qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text
#1>   qwen2_5_vl starcoder2 step3_text step3p5 step3p7
#1>   cache      *, for sglang
#1>              SGLang does not load the KV cache scales of this model: it uses 1.0
#1>              [engine: sglang model classes]
#1>
#1> gpt_oss
#1>   entry      *.experts.*, in compressed-tensors for vllm
#1>              re:.*\.#\.mlp\.experts.* [engine: vllm gpt_oss.py]
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
