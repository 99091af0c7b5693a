#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
