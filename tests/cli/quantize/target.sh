#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
# 256 columns split in two blocks of 128 for row-parallel layers, 512 rows in four for column-parallel ones.
python3 "$CLI/checkpoint.py" make in.safetensors \
	model.layers.0.self_attn.o_proj.weight=BF16:128x256 model.layers.0.mlp.gate_proj.weight=BF16:512x128 \
	model.layers.0.mlp.up_proj.weight=BF16:512x128 model.layers.0.mlp.down_proj.weight=BF16:128x512
"$FP8CONV" quantize in.safetensors --dry-run --json >j
json j 'j["tp"] == [1, 2]'
"$FP8CONV" quantize in.safetensors --dry-run --json --tp 2 >j
fails 2 " quantize: *'model.layers.0.self_attn.o_proj.weight'*" quantize in.safetensors --dry-run --tp 4
fails 2 " quantize: *'model.layers.0.self_attn.o_proj.weight'*" quantize in.safetensors -o out.safetensors --tp 8
[ ! -e out.safetensors ] || echo "out.safetensors was made"

mkdir next
cd next
# A pair that the engine does not load is refused, naming both; the others are written as that engine wants them.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/fused-transposed
for target in vllm sglang trtllm transformers; do
	for recipe in blockwise channelwise current mxfp8; do
		if "$FP8CONV" quantize "$model" --quiet --dry-run --json --target $target --recipe $recipe >j 2>err; then
			python3 -c 'import json, sys
j = json.load(open("j"))
t = next(t for t in j["tensors"] if t["recipe"])
print(*sys.argv[1:], j["format"], t["outputs"][1]["name"].rsplit(".")[-1])' $target $recipe
		else
			echo "$target $recipe $?"
			[ "$(wc -l <err)" -eq 1 ] && grep -q "$target\|TensorRT-LLM" err && grep -q "$recipe" err || cat err
		fi
	done
done
fails 2 " quantize: *modelopt*" quantize "$model" --dry-run --format modelopt --recipe current
fails 2 " quantize: *'hf'*" quantize "$model" --dry-run --format hf --recipe channelwise
fails 2 " quantize: *does not load in sglang: SGLang drops MXFP8 scales of this model*" \
	quantize "$model" --dry-run --format modelopt --recipe mxfp8 --target sglang

mkdir then
cd then
# SGLang's LlamaForCausalLM renames weight_scale_inv to weight_scale, which its block layers do not have: with that target
# blocks become compressed-tensors, and hf and MXFP8 are refused.  verify and repack say the same.
need "$SAMPLES/tiny-llama" "python3()"
model=$SAMPLES/tiny-llama
method() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/config.json"))["quantization_config"]["quant_method"])' "$1"
}
"$FP8CONV" quantize "$model" -o s --target sglang
[ "$(method s)" = compressed-tensors ] || echo "blocks for SGLang are in $(method s)"
"$FP8CONV" verify s --source "$model" --target sglang --quiet
fails 2 " quantize: *SGLang*only in compressed-tensors*" quantize "$model" -o x --target sglang --format hf
fails 2 " quantize: *SGLang drops MXFP8*" quantize "$model" -o x --target sglang --recipe mxfp8
"$FP8CONV" quantize "$model" -o h
[ "$(method h)" = fp8 ] || echo "blocks for any engine are in $(method h)"
"$FP8CONV" verify h --target vllm --quiet
"$FP8CONV" verify h --target sglang >out
[ $? -eq 1 ] || echo "hf passes for SGLang"
grep -q "not-loaded.*SGLang reads block scales" out || cat out
"$FP8CONV" repack h -o r --target sglang
[ "$(method r)" = compressed-tensors ] || echo "repack for SGLang gives $(method r)"
fails 2 " repack: *SGLang*only in compressed-tensors*" repack s -o x --target sglang --format hf

mkdir next
cd next
# Experts that an engine loads in BF16 only: a note, but with --target a refusal, and verify --target names them.
mkdir in
at=model.layers.0
python3 "$CLI/checkpoint.py" make in/model.safetensors $at.block_sparse_moe.input_linear.weight=BF16:2x256x128 \
	$at.block_sparse_moe.output_linear.weight=BF16:2x128x128 $at.self_attn.o_proj.weight=BF16:128x128
echo '{"model_type": "granitemoe", "hidden_size": 128}' >in/config.json
"$FP8CONV" quantize in -o any 2>note
grep -qx "fp8conv quantize: note: '$at.block_sparse_moe.input_linear.weight' as FP8 in format 'hf' does not load in transformers: .*; see --target transformers" note || cat note
[ "$(wc -l <note)" -eq 1 ] || cat note
fails 2 " quantize: '$at.block_sparse_moe.input_linear.weight' as FP8 in format 'hf' does not load in transformers: *[[]transformers *; use --exclude to keep such weights, or omit --target" \
	quantize in -o no --target transformers
[ ! -e no ] || echo "a refused job made a directory"
"$FP8CONV" verify any
"$FP8CONV" verify any --target vllm
"$FP8CONV" verify any --target transformers >told && echo "verify --target transformers accepts experts in FP8"
grep -q "^model.safetensors: not-loaded: weight '$at.block_sparse_moe.experts.0.w1.weight' is FP8, which transformers does not load: " told || cat told
[ "$(wc -l <told)" -eq 1 ] || cat told
"$FP8CONV" quantize in -o kept --target transformers --exclude block_sparse_moe
"$FP8CONV" verify kept --target transformers

# No engine has them: a note already without --target.
sed -i s/granitemoe/gpt_oss/ in/config.json
python3 "$CLI/checkpoint.py" make in/model.safetensors $at.mlp.experts.gate_up_proj=BF16:2x128x256 \
	$at.mlp.experts.down_proj=BF16:2x128x128 $at.mlp.experts.gate_up_proj_bias=BF16:2x256 \
	$at.mlp.experts.down_proj_bias=BF16:2x128
"$FP8CONV" quantize in -o oss 2>note
grep -qx "fp8conv quantize: note: '$at.mlp.experts.gate_up_proj' as FP8 in format 'hf' does not load in vllm: no engine loads FP8 experts of gpt_oss .*; nor in sglang, transformers; see --target vllm" note || cat note
fails 2 " quantize: '$at.mlp.experts.gate_up_proj' as FP8 in format 'hf' does not load in vllm: *" quantize in -o no --target vllm
"$FP8CONV" verify oss --target sglang >told && echo "verify --target sglang accepts FP8 experts of GPT-OSS"
grep -q ": not-loaded: " told || cat told

mkdir "$top/tensors"
cd "$top/tensors"
# quantize --tensors: exact names, of tensors or of modules with all below; what it overrides, and what is refused.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert"
c=" quantize: "
model=$SAMPLES/tiny-llama
printf '# by hand\n\nmodel.layers.0=skip\r\nmodel.layers.0.mlp.down_proj=channelwise\nmodel.layers.1.self_attn.q_proj.weight=skip\nmodel.layers.3=blockwise' >KEEP
"$FP8CONV" quantize "$model" --format compressed-tensors --tensors KEEP --tensor 'layers\.0=mxfp8' --include 'layers' --dry-run --json >plan.json
python3 - <<'END'
import json
for t in json.load(open("plan.json"))["tensors"]:
    name = t["name"]
    wanted = ("channelwise" if "layers.0.mlp.down" in name else None if "layers.0." in name or "layers.1.self_attn.q_proj" in name
              or "layers.1.self_attn.k_proj" in name or "layers.1.self_attn.v_proj" in name  # q, k and v are merged
              else "blockwise" if "_proj" in name else None)
    assert t["recipe"] == wanted, (t, wanted)
END
# A name is no pattern, and no beginning of one.
for name in model.layers.0.self_attn.q_proj.weigh model.layers.0.self_attn.q model.layers.. 'model.layers.*' . model.layers.0.mlp.experts; do
	printf '#\n%s=skip\n' "$name" >bad
	fails 3 "${c}'bad' line 2: '$name' is not a name of a tensor or a module of '*tiny-llama'" quantize "$model" -o o --tensors bad
done
# line TEXT STATUS MESSAGE
line() {
	printf "$1" >bad
	fails "$2" "${c}'bad' line $3" quantize "$model" -o o --tensors bad
}
line 'model.layers.0\n' 3 "1: it is not NAME=RECIPE or NAME=skip"
line '#\n=skip\n' 3 "2: it is not NAME=RECIPE or NAME=skip"
line 'a\0=skip\n' 3 "1: it is not NAME=RECIPE or NAME=skip"
line 'a=skip\nb=skip\na=mxfp8\n' 3 "3: 'a' is in line 1 too"
line 'a=mxfp9\n' 2 "1: unknown recipe 'mxfp9' (did you mean 'mxfp8'?)"
line 'a=\n' 2 "1: unknown recipe ''*"
fails 3 "${c}cannot open 'none'*" quantize "$model" -o o --tensors none
echo 'model.layers.0.self_attn.q_proj=delayed' >bad
fails 2 "${c}recipe 'delayed' needs an amax history: *" quantize "$model" -o o --tensors bad
printf 'model.layers.0.self_attn.q_proj=channelwise\n' >bad
fails 2 "${c}engines fuse '*' (*) with '*' (*), which needs one recipe: *" \
	quantize "$model" --format compressed-tensors -o o --tensors bad
[ ! -e o ] || echo "an output was made"
# What no matrix of a name can take is noted.
echo 'model.norm=mxfp8' >norm
"$FP8CONV" quantize "$model" -o norms --tensors norm -q 2>&1
"$FP8CONV" quantize "$model" --dry-run --tensors norm 2>&1 >/dev/null | grep -q "line 1 of --tensors quantizes nothing: 'model.norm.weight' is kept (norm)" ||
	echo "no note"
# Experts in one tensor have the name of their list, in either layout.
for layout in per-expert fused; do
	moe=$SAMPLES/tiny-moe/$layout
	[ -e "$moe" ] || continue
	echo 'model.layers.0.mlp.experts=skip' >experts
	"$FP8CONV" quantize "$moe" --ragged --tensors experts --dry-run --json >plan.json 2>/dev/null
	python3 "$CLI/json_check.py" plan.json \
		"all((t['recipe'] is None) == ('layers.0.' in t['name']) for t in j['tensors'] if '.experts.' in t['name'] and len(t['shape']) > 1)"
done

mkdir then
cd then
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
plan() {
	"$FP8CONV" quantize "$model" --dry-run --json "$@" >j || echo "$*"
}
plan --exclude 'layers\.0\.'
json j 'all(t["action"] == "keep" for t in j["tensors"] if ".layers.0." in t["name"])' \
	'any(t["action"] == "quantize" for t in j["tensors"] if ".layers.1." in t["name"])' \
	'[t["reason"] for t in j["tensors"] if t["name"] == "model.layers.0.self_attn.o_proj.weight"] == ["excluded"]'
plan --include 'self_attn' --include 'layers\.1\.mlp\.experts' --exclude 'layers\.1\..*o_proj'
json j '{t["name"] for t in j["tensors"] if t["action"] == "quantize"} ==
	{f"model.layers.{i}.self_attn.{p}_proj.weight" for i in (0, 1) for p in "qkvo"} -
	{"model.layers.1.self_attn.o_proj.weight"} |
	{f"model.layers.1.mlp.experts.{e}.{p}_proj.weight" for e in range(3) for p in ("gate", "up", "down")}'
# What an engine fuses is quantized together or not at all.
plan --include 'experts.*down_proj' --include self_attn.o_proj
json j '{t["name"] for t in j["tensors"] if t["action"] == "quantize"} ==
	{f"model.layers.{i}.self_attn.o_proj.weight" for i in (0, 1)}'
# The last match wins.  Formats with one scheme for all refuse a mixture.
plan --format compressed-tensors --tensor 'self_attn=channelwise' --tensor 'o_proj=skip' --tensor '1.*o_proj=channelwise'
json j '{(t["name"], t["recipe"]) for t in j["tensors"] if "attn" in t["name"] and "_proj" in t["name"]} ==
	{(f"model.layers.{i}.self_attn.{p}_proj.weight", "channelwise") for i in (0, 1) for p in "qkvo"} -
	{("model.layers.0.self_attn.o_proj.weight", "channelwise")} | {("model.layers.0.self_attn.o_proj.weight", None)}'
fails 2 " quantize: *" quantize "$model" --dry-run --format hf --tensor 'self_attn=channelwise'
# A rule overrides a role, as far as the shape allows.
plan --tensor 'mlp\.gate\.=channelwise' --recipe channelwise
json j '{t["action"] for t in j["tensors"] if t["name"].endswith("mlp.gate.weight")} == {"quantize"}'
# A pattern that quantizes nothing is told, whether it matches no tensor or tensors that are kept; two of them each.
plan --tensor 'embed_tokens=blockwise' --exclude nothing --exclude nowhere --tensor 'norm=skip'
plan --tensor 'norm|o_proj=blockwise'
for bad in '(' '[' '*' '(?<x' 'a{2,1}'; do
	fails 2 " quantize: *'$bad'*" quantize "$model" --dry-run --include "$bad"
	fails 2 " quantize: *'$bad'*" quantize "$model" --dry-run --exclude "$bad"
	fails 2 " quantize: *'$bad'*" quantize "$model" --dry-run --tensor "$bad=skip"
done

mkdir next
cd next
# Tensors that are kept are the source's, byte for byte; the others have their codes under the old name and shape.
need "$SAMPLES/odd-shapes" "$SAMPLES/tiny-moe"
for model in odd-shapes tiny-moe/per-expert; do
	"$FP8CONV" quantize "$SAMPLES/$model" -o out --quiet
	python3 "$CLI/checkpoint.py" list "$SAMPLES/$model" >before
	python3 "$CLI/checkpoint.py" list out | grep -v '_scale_inv	' >after
	grep -v '	F8_E4M3	' after >kept
	grep -Fvxf kept before | cut -f 1,3 >quantized
	grep '	F8_E4M3	' after | cut -f 1,3 | diff quantized -
	[ "$(wc -l <kept)" -gt 10 ] && [ "$(wc -l <quantized)" -gt 10 ] || echo "$model: too few to tell"
	rm -rf out
done

#1> vllm blockwise hf weight_scale_inv
#1> vllm channelwise compressed-tensors weight_scale
#1> vllm current compressed-tensors weight_scale
#1> vllm mxfp8 hf weight_scale
#1> sglang blockwise compressed-tensors weight_scale
#1> sglang channelwise compressed-tensors weight_scale
#1> sglang current compressed-tensors weight_scale
#1> sglang mxfp8 2
#1> fp8conv quantize: 'language_model.model.layers.0.feed_forward.down_proj.weight' as FP8 in format 'hf' does not load in sglang: SGLang drops MXFP8 scales of this model silently [sglang llama.py]; use --exclude to keep such weights, or omit --target
#1> trtllm blockwise hf weight_scale_inv
#1> trtllm channelwise compressed-tensors weight_scale
#1> trtllm current 2
#1> trtllm mxfp8 hf weight_scale_inv
#1> transformers blockwise 2
#1> fp8conv quantize: 'language_model.model.layers.1.feed_forward.experts.gate_up_proj' as FP8 in format 'hf' does not load in transformers: transformers finds single experts of this model only in compressed-tensors [transformers conversion_mapping]; use --exclude to keep such weights, or omit --target
#1> transformers channelwise compressed-tensors weight_scale
#1> transformers current compressed-tensors weight_scale
#1> transformers mxfp8 2
#1> fp8conv quantize: 'language_model.model.layers.1.feed_forward.experts.gate_up_proj' as FP8 in format 'hf' does not load in transformers: transformers finds single experts of this model only in compressed-tensors [transformers conversion_mapping]; use --exclude to keep such weights, or omit --target
#2> fp8conv quantize: note: --include 'experts.*down_proj' quantizes nothing: 'model.layers.0.mlp.experts.0.down_proj.weight' is kept (fused with 'model.layers.0.mlp.experts.0.gate_proj.weight', which is kept)
#2> fp8conv quantize: note: --tensor 'embed_tokens' quantizes nothing: 'model.embed_tokens.weight' is kept (embedding)
#2> fp8conv quantize: note: --exclude 'nothing' matches no tensor
#2> fp8conv quantize: note: --exclude 'nowhere' matches no tensor
