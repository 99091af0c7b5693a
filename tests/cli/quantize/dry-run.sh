#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
work=$PWD
# The plan is what comes out, and making it writes nothing.
need "$SAMPLES/odd-shapes" "$SAMPLES/tiny-moe"
for model in odd-shapes tiny-moe/per-expert tiny-moe/fused tiny-moe/fused-transposed; do
	recipes=blockwise
	[ $model = odd-shapes ] && recipes='blockwise channelwise current mxfp8'
	for recipe in $recipes; do
		"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --dry-run --json >plan || echo "$model $recipe"
		[ ! -e out ] || echo "a dry run made out"
		"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --json >result || echo "$model $recipe"
		"$FP8CONV" inspect out --json >made
		json plan 'list(j) == ["schema", "recipe", "format", "source", "output", "tensors", "totals", "profile", "low_bit", "tp", "skip_list", "notes"]' \
			"j['recipe'] == '$recipe' and j['source'] == '$SAMPLES/$model' and j['output'] == 'out'" \
			'all(list(t) == ["name", "file", "dtype", "shape", "action", "recipe", "reason", "rule", "source", "outputs"]
			     for t in j["tensors"])' \
			'all(list(o) == ["name", "dtype", "shape", "bytes"] for t in j["tensors"] for o in t["outputs"])' \
			"all((t['action'], t['recipe'], t['reason'] is None) in
			     (('quantize', '$recipe', True), ('keep', None, False)) for t in j['tensors'])" \
			'all(len(t["outputs"]) == (2 if t["recipe"] else 1) for t in j["tensors"])' \
			'all(t["outputs"][0]["shape"] == t["shape"] and t["outputs"][0]["name"] == t["name"] for t in j["tensors"])' \
			'list(j["totals"]) == ["tensors", "quantized", "kept", "input_bytes", "output_bytes", "disk_bytes",
			     "memory_bytes"]' \
			'j["totals"]["tensors"] == len(j["tensors"])' \
			'j["totals"]["quantized"] == sum(t["action"] == "quantize" for t in j["tensors"]) > 5' \
			'j["totals"]["kept"] == sum(t["action"] == "keep" for t in j["tensors"]) > 5' \
			"j['totals']['input_bytes'] == $(python3 "$CLI/checkpoint.py" total "$SAMPLES/$model")" \
			"j['totals']['output_bytes'] == $(python3 "$CLI/checkpoint.py" total out)" \
			"j['totals']['disk_bytes'] >= $(find out -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')" \
			'(lambda made: sorted((o["name"], o["dtype"], o["shape"], o["bytes"], t["file"])
			     for t in j["tensors"] for o in t["outputs"]) ==
			     sorted((t["name"], t["dtype"], t["shape"], t["bytes"], t["file"]) for t in made["tensors"]))(
			     json.load(open("made")))' \
			'j["tp"] == sorted(j["tp"]) and set(j["tp"]) <= {1, 2, 4, 8, 16, 32, 64}'
		json result 'list(j) == ["schema", "recipe", "format", "output", "tensors", "input_bytes", "output_bytes",
			     "seconds", "bytes_per_second", "peak_memory_bytes", "files_written", "files_found",
			     "resumed", "saturated", "nonfinite", "worst", "low_bit", "notes"]' \
			"j['output'] == 'out' and j['files_found'] == 0 and j['resumed'] is False" \
			'j["files_written"] >= 1' \
			'list(j["tensors"]) == ["quantized", "kept"] and list(j["worst"]) == ["tensor", "sqnr_db"]' \
			'(lambda p: all(j[k] == p["totals"][k] for k in ("input_bytes", "output_bytes")) and
			     all(j["tensors"][k] == p["totals"][k] for k in ("quantized", "kept")) and
			     j["worst"]["tensor"] in [t["name"] for t in p["tensors"] if t["recipe"]] and
			     (j["recipe"], j["format"]) == (p["recipe"], p["format"]))(json.load(open("plan")))' \
			'j["saturated"] == j["nonfinite"] == 0 < j["peak_memory_bytes"]' \
			'j["seconds"] > 0 < j["bytes_per_second"]'
		rm -rf out
	done
done
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" --dry-run --json >plan
json plan 'j["output"] is None'

# As text.
cd "$SAMPLES" || exit
"$FP8CONV" quantize tiny-moe/fused --dry-run | grep -v 'layers.1\|^memory\|^disk'

mkdir "$work/next"
cd "$work/next" || exit
need "python3()"
# On a terminal, a reason that is too long for its line stands below it; the source of a rule too, below the reason where
# one line cannot hold both.
python3 "$CLI/../families/families.py" . nemotron3_super kimi_k3 spark2_5
plan() {
	python3 "$CLI/terminal.py" "$FP8CONV" quantize "$1" --dry-run | tr -d '\r' >"$1.screen"
	[ "$(sed '/note: /d' "$1.screen" | wc -L)" -le 80 ] || awk 'length > 80' "$1.screen"
}
plan nemotron3_super
grep -A 1 'layers.5.mixer.q_proj' nemotron3_super.screen
plan kimi_k3
grep -A 1 'mlp_res_proj' kimi_k3.screen
grep -A 2 'self_attn.q_proj' kimi_k3.screen
plan spark2_5
grep -A 2 'self_attn.g_proj' spark2_5.screen
# In a pipe a tensor is one line.
"$FP8CONV" quantize nemotron3_super --dry-run --quiet | grep 'layers.5.mixer.q_proj'

#1> recipe    blockwise
#1> format    hf
#1> from      tiny-moe/fused
#1>
#1> model.embed_tokens.weight                       BF16  [256, 128]  65.5 kB  65.5 kB  kept: embedding
#1> model.layers.0.input_layernorm.weight           BF16  [128]         256 B    256 B  kept: norm
#1> model.layers.0.mlp.experts.0.down_proj.weight   BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.1.down_proj.weight   BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.2.down_proj.weight   BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.0.gate_proj.weight   BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.0.up_proj.weight     BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.1.gate_proj.weight   BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.1.up_proj.weight     BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.2.gate_proj.weight   BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.experts.2.up_proj.weight     BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.mlp.gate.weight                  BF16  [3, 128]      768 B    768 B  kept: router gate
#1> model.layers.0.post_attention_layernorm.weight  BF16  [128]         256 B    256 B  kept: norm
#1> model.layers.0.self_attn.k_norm.weight          BF16  [32]           64 B     64 B  kept: norm
#1> model.layers.0.self_attn.k_proj.weight          BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.self_attn.o_proj.weight          BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.self_attn.q_norm.weight          BF16  [32]           64 B     64 B  kept: norm
#1> model.layers.0.self_attn.q_proj.weight          BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.layers.0.self_attn.v_proj.weight          BF16  [128, 128]  32.8 kB  16.4 kB  blockwise
#1> model.norm.weight                               BF16  [128]         256 B    256 B  kept: norm
#1>
#1> tensors   38: 26 quantized, 12 kept
#1> input     921 kB (920576 bytes)
#1> output    495 kB (494696 bytes)
#1> tp        1
#1> backbone.layers.5.mixer.q_proj.weight        131 kB
#1>     kept: attention, as in the release [modelopt mamba_moe_disabled_quantizers]
#1> language_model.model.layers.0.mlp_res_proj.weight       512 B
#1>     kept: engines build it without quantization [vllm kimi_k3/nvidia/model.py]
#1> language_model.model.lay...0.self_attn.q_proj.weight   131 kB
#1>     kept: fused with 'language_model.model.layers.0.self_attn.b_proj.weight',
#1>     which is kept
#1> model.layers.0.self_attn.g_proj.weight  [256, 256]   131 kB
#1>     kept: SGLang builds it without quantization, and skips a scale silently
#1>     [sglang spark2_5.py]
#1> backbone.layers.5.mixer.q_proj.weight                    BF16  [256, 256]    131 kB   131 kB  kept: attention, as in the release [modelopt mamba_moe_disabled_quantizers]
