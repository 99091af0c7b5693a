# SPDX-License-Identifier: Apache-2.0
"""Small random models of the families that engines have loaders of their own for, as transformers writes them."""
import json
import pathlib
import re
import sys

import torch
import transformers as t
from safetensors.torch import load_file, save_file
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import family_models                        # tests/conformance

MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
# Engines build attention over the latent for the head sizes of DeepSeek only.
LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "head_dim": 64,
          "num_hidden_layers": 3, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
          "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                              "mscale_all_dim": 1.0, "original_max_position_embeddings": 64}}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64}
# The rows of a Mamba mixer's in_proj, 2 * 512 + 2 * 128 + 8, are no multiple of a block's, as in the releases.
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128}
TOWER = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
         "patch_size": 14}
VISUAL = {"hidden_size": 128, "intermediate_size": 256, "depth": 1, "num_heads": 2, "out_hidden_size": 256, "patch_size": 16,
          "deepstack_visual_indexes": [0], "num_position_embeddings": 16}
VISUAL_MLP = {"hidden_size": 128, "intermediate_size": 256, "depth": 1, "num_heads": 2, "out_hidden_size": 256, "patch_size": 14}
VISUAL_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16, 8, 8], "mrope_interleaved": True}
TEXT = family_models.SIZES | {"intermediate_size": 512, "vocab_size": 512}

# name: the model type, and what differs from the model of this type in family_models.
MODELS: dict[str, tuple[str, dict]] = {
    "llama": ("llama", {}),
    "qwen3": ("qwen3", {}),
    "smollm2": ("llama", {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3,
                          "tie_word_embeddings": True}),
    "qwen3_moe": ("qwen3_moe", {}),
    "mixtral": ("mixtral", {}),
    "deepseek_v3": ("deepseek_v3", LATENT),
    "gemma3": ("gemma3_text", {"query_pre_attn_scalar": 64, "tie_word_embeddings": True}),
    "qwen3_next": ("qwen3_next", DELTA),
    "qwen3_5_moe": ("qwen3_5_moe_text", DELTA),
    "granite4": ("granitemoehybrid", MAMBA | {"position_embedding_type": "nope", "mamba_expand": 2}),
    "falcon_h1": ("falcon_h1", MAMBA | {"mamba_expand": 2, "mamba_rms_norm": False}),
    "nemotron_h": ("nemotron_h", {"n_groups": 8}),
    "jamba": ("jamba", MOE | {"mamba_dt_rank": 16, "mamba_expand": 2, "mamba_d_state": 16}),
    "gpt_oss": ("gpt_oss", {"sliding_window": 64}),
    "moe192": ("qwen3_moe", {"moe_intermediate_size": 192}),
    "qwen3_vl": ("qwen3_vl", {"text_config": TEXT | {"model_type": "qwen3_vl_text", "rope_parameters": VISUAL_ROPE},
                              "vision_config": VISUAL, "tie_word_embeddings": False}),
    "gemma3_mm": ("gemma3", {"text_config": TEXT | {"model_type": "gemma3_text", "query_pre_attn_scalar": 64, "tie_word_embeddings": True},
                             "vision_config": TOWER | {"model_type": "siglip_vision_model", "vision_use_head": False}, "mm_tokens_per_image": 4,
                             "tie_word_embeddings": True}),
    "qwen2_5_vl": ("qwen2_5_vl", {"text_config": TEXT | {"model_type": "qwen2_5_vl_text", "rope_parameters": VISUAL_ROPE},
                                  "vision_config": VISUAL_MLP | {"fullatt_block_indexes": [0]}, "tie_word_embeddings": False}),
    "glm4v_moe": ("glm4v_moe", {"text_config": TEXT | {
        "model_type": "glm4v_moe_text", "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [8, 4, 4], "partial_rotary_factor": 0.5}},
        "vision_config": VISUAL_MLP, "tie_word_embeddings": False}),
    "mistral3": ("mistral3", {"text_config": TEXT | {"model_type": "ministral3"}, "vision_config": TOWER | {"model_type": "pixtral"},
                              "image_token_index": 10}),
}
# Keys as the releases have them, where transformers writes newer ones.
RELEASED = {"granite4": {"layer_types": ["mamba", "attention"], "layers_block_type": ["mamba", "attention"]},
            "deepseek_v3": {"moe_layer_freq": 1},
            "qwen3_next": {"full_attention_interval": 2}, "qwen3_5_moe": {"full_attention_interval": 2},
            "nemotron_h": {"layers_block_type": None, "mtp_layers_block_type": None, "hybrid_override_pattern": "M*E-"}}
# Names as the releases have them.
RENAMED = {"gemma3_mm": (r"^(model\.)?vision_tower\.(?!vision_model)", r"\1vision_tower.vision_model.")}


def vary(name: str, weight: torch.Tensor, noise: torch.Generator) -> None:
    """Rows, columns and whole matrices on scales of their own: a scale in a wrong place is off by a factor."""
    weight.mul_(2.0 ** torch.randint(-2, 2, (*weight.shape[:-1], 1), generator=noise))
    if "embed" not in name:
        weight[..., torch.randint(0, weight.shape[-1], (2,), generator=noise)] *= 4
        weight.mul_(2.0 ** torch.randint(-1, 2, (1,), generator=noise))


def save(name: str, folder: pathlib.Path) -> None:
    """Writes the model in BF16."""
    model_type, changes = MODELS[name]
    sizes = {} if "text_config" in changes else TEXT | family_models.MODELS[model_type]
    torch.manual_seed(len(name))
    config = CONFIG_MAPPING[model_type](**sizes | changes)
    auto = t.AutoModelForImageTextToText if "vision_config" in changes else t.AutoModelForCausalLM
    model = auto.from_config(config, dtype=torch.bfloat16)
    noise = torch.Generator().manual_seed(len(name))
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if not weight.any():            # as some are made
                weight.normal_(0, 0.1, generator=noise)
            if weight.ndim > 1 and "conv" not in key:
                vary(key, weight, noise)
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text(encoding="utf-8")) | RELEASED.get(name, {})
    strange = family_models.MOE.keys() - type(config)().to_dict().keys() - RELEASED.get(name, {}).keys()
    (folder / "config.json").write_text(json.dumps({k: v for k, v in written.items() if k not in strange and v is not None}),
                                        encoding="utf-8")
    if name in RENAMED:
        tensors = load_file(folder / "model.safetensors")
        save_file({re.sub(*RENAMED[name], key): value for key, value in tensors.items()}, folder / "model.safetensors", {"format": "pt"})


if __name__ == "__main__":
    for asked in sys.argv[2:] or MODELS:
        save(asked, pathlib.Path(sys.argv[1]) / asked)
        print(asked, flush=True)
