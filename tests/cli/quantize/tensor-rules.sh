#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
