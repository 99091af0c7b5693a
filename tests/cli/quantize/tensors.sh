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
