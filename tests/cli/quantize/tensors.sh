#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
#2> fp8conv quantize: note: --include 'experts.*down_proj' quantizes nothing: 'model.layers.0.mlp.experts.0.down_proj.weight' is kept (fused with 'model.layers.0.mlp.experts.0.gate_proj.weight', which is kept)
#2> fp8conv quantize: note: --tensor 'embed_tokens' quantizes nothing: 'model.embed_tokens.weight' is kept (embedding)
#2> fp8conv quantize: note: --exclude 'nothing' matches no tensor
#2> fp8conv quantize: note: --exclude 'nowhere' matches no tensor
