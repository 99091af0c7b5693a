#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a random model of a real one's shape, with transformers, for the rows of `calibrate`.

    random_model.py NAME DIR        DIR/model: the checkpoint; DIR/products: the shapes of its products (products.c)
"""
import pathlib
import sys
from itertools import groupby

import torch
import transformers as t

MIXERS = {"M": "mamba", "-": "mlp", "*": "attention"}

# As Qwen3.5-0.8B; as Nemotron-H, of 1 B parameters; as LFM2-1.2B; as Qwen3-30B-A3B, 4 layers of it; as DeepSeek-V3.2, 2 layers of
# it without experts, which choose a quarter of its keys; as DeepSeek-V4-Flash, 3 layers with 16 of its experts.
MODELS = {
    "qwen3_5": (t.Qwen3_5ForCausalLM, lambda: t.Qwen3_5TextConfig(
        hidden_size=1024, intermediate_size=3584, num_hidden_layers=24, num_attention_heads=8, num_key_value_heads=2,
        linear_num_key_heads=16, linear_num_value_heads=16, tie_word_embeddings=True)),
    "nemotron_h": (t.NemotronHForCausalLM, lambda: t.NemotronHConfig(
        hidden_size=2048, intermediate_size=8192, num_attention_heads=16, num_key_value_heads=4, mamba_num_heads=64,
        layers_block_type=[MIXERS[letter] for letter in "M-M-M-M*-M-M-" * 2], tie_word_embeddings=True)),
    "lfm2": (t.Lfm2ForCausalLM, lambda: t.Lfm2Config(
        hidden_size=2048, num_hidden_layers=16, full_attn_idxs=[2, 5, 8, 10, 12, 14])),
    "deepseek_v32": (t.DeepseekV32ForCausalLM, lambda: t.DeepseekV32Config(
        vocab_size=49152, num_hidden_layers=2, mlp_layer_types=["dense"] * 2, index_topk=512)),
    "deepseek_v4": (t.DeepseekV4ForCausalLM, lambda: t.DeepseekV4Config(
        vocab_size=49152, num_hidden_layers=3, n_routed_experts=16, index_topk=128, mlp_layer_types=["hash_moe", "moe", "moe"],
        layer_types=["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"])),
    "qwen3_moe": (t.Qwen3MoeForCausalLM, lambda: t.Qwen3MoeConfig(
        hidden_size=2048, moe_intermediate_size=768, num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=4,
        num_experts=128, num_experts_per_tok=8, head_dim=128, norm_topk_prob=True)),
}


def layer_products(layer: torch.nn.Module, config: t.PretrainedConfig) -> list[tuple[int, int]]:
    """(n, k) of the products of a layer.  Of experts as many as a token has: over all tokens of a step as many rows go
    through all experts as through these."""
    found = [tuple(m.weight.shape) for m in layer.modules() if isinstance(m, torch.nn.Linear)]
    for module in layer.modules():
        if hasattr(module, "gate_up_proj") and module.gate_up_proj.ndim == 3:
            rows, hidden = module.gate_up_proj.shape[1:]
            found += [(module.num_experts, hidden)]  # the router
            found += [(rows // 2, hidden), (rows // 2, hidden), (hidden, rows // 2)] * config.num_experts_per_tok
    return found


def main() -> None:
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    made, configure = MODELS[name]
    config = configure()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    model = made(config)
    for module in model.modules():
        if hasattr(module, "tid2eid"):  # other experts for each token
            of_tokens, chosen = module.tid2eid.shape
            module.tid2eid.copy_((torch.arange(of_tokens)[:, None] * 7 + torch.arange(chosen)) % config.n_routed_experts)
    layers = [layer_products(layer, config) for layer in model.model.layers]
    groups = [(shapes, len(list(same))) for shapes, same in groupby(layers)]
    groups.append(([tuple(model.lm_head.weight.shape)], 1))
    model.save_pretrained(folder / "model")
    lines = [" ".join([str(n), *(f"{rows} {columns}" for rows, columns in shapes)]) for shapes, n in groups]
    (folder / "products").write_text("\n".join(lines) + "\n")


main()
