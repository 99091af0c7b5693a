#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-moe"
cd "$SAMPLES" || exit
"$FP8CONV" quantize tiny-moe/fused --dry-run | grep -v 'layers.1\|^memory\|^disk'

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
