# SPDX-License-Identifier: Apache-2.0
"""What the forward pass reads of config.json: each tiny model with one key removed or changed gives the logits of transformers,
or is refused by the name of that key."""
import json
import pathlib
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from transformers.initialization import no_init_weights
from transformers.utils import logging

import tiny_models
from harness import finish, our_logits, report, scratch

LENGTH = 90
LIMIT = 1e-4        # of the logits
# Keys that another architecture reads, or none, each with a value that would change numbers if they had a meaning.
FOREIGN = {"attention_multiplier": 0.5, "attn_logit_softcapping": 3.0, "clip_qkv": 1.0, "final_logit_softcapping": 3.0,
           "is_causal": False, "layer_types": ["chunked_attention"] * 3, "logit_scale": 0.1, "logits_scaling": 8.0,
           "partial_rotary_factor": 0.5, "query_pre_attn_scalar": 7.0, "residual_multiplier": 0.2, "rope_interleave": True,
           "routed_scaling_factor": 3.0, "sliding_window": 5, "swiglu_alpha": 1.0, "use_bidirectional_attention": True,
           "linear_attn_config": {"head_dim": 4}, "mla_use_nope": False, "moe_router_activation_func": "softmax",
           "use_grouped_topk": False, "no_such_key": 1, "no_such_text": "on", "no_such_list": [1], "no_such_flag": True}
# Values that are hostile, or that no forward pass can have.
HOSTILE = {"num_attention_heads": [0, -4, 3, 1e300, "4"], "num_key_value_heads": [3], "head_dim": [-8, 1.5, "32"],
           "global_attn_every_n_layers": [-1, 2.5, "4"], "mup_enabled": [1], "sliding_window": [0, -1, 2.5], "sliding_window_pattern": [0], "rms_norm_eps": [0, -1, "1e-6"],
           "layer_norm_eps": [0, -1, "1e-6"], "logit_scale": ["1", None],
           "query_pre_attn_scalar": [0, -3], "num_experts_per_tok": [0, 1000, -1], "n_group": [3, 1000], "topk_group": [0, 9],
           "moe_topk": [0, 1000, [2, 3, 3], ["3"] * 3], "moe_k": [0, 1000, -1],
           "rope_theta": [0, -1, "big"], "hidden_act": ["relu", "relu2", 3], "hidden_activation": ["relu", "relu2", None],
           "mlp_hidden_act": ["relu", None], "layer_types": [[], "full_attention"],
           "mamba_dt_rank": [0, -1, "big", 1e300], "attn_layer_period": [0, -1], "attn_layer_offset": [3, -1],
           "mamba_d_state": [0, 2000], "mamba_d_conv": [0, 100000], "mamba_expand": [0, 100000],
           "conv_L_cache": [0, -1, 2.5, "3", 100000], "full_attn_idxs": [[3], ["0"], 1], "norm_eps": [0, "x"],
           "num_hidden_layers": [0, 100000], "kv_lora_rank": [0], "index_topk": [0, -1, None], "index_topk_freq": [-1, "2"], "index_topk_blocks": [0, -1, None], "index_block_size": [0, 2.5, None], "index_local_blocks": [-1, 4],
           "indexer_types": [[], ["full", "shared"], ["shared", "full", "full"], ["full", "none", "full"], ["full", 1, "full"], "FSF"],
           "index_n_heads": [0, 4, 1e9],
           "index_head_dim": [0, 4, 9], "attention_chunk_size": [0, -1, None], "floor_scale": [0, -1], "no_rope_layer_interval": [0],
           "top_k_experts": [0, 1000, -1, None], "global_head_dim": [0, 7, -8, 1e9, "36", None], "num_global_key_value_heads": [0, 4, -1],
           "per_layer_config": [[], 3, {"1": 3}, {"9": {"head_dim": 36}}, {"-1": {"head_dim": 36}}, {"x": {}}, {"1": {"head_dim": 0}}, {"1": {"skip": ["mlp"]}},
                                {"1": {"num_key_value_heads": 4}}, {"1": {"intermediate_size": 20}}, {"1": {"head_dim": 36}, "3": {"head_dim": 20}}],
           "num_experts_per_token": [0, 1000, -1], "num_expert_group": [3, 1000], "linear_head_dim": [0, 300, 2.5], "linear_num_heads": [0, 4, 100000],
           "linear_conv_kernel_dim": [0, 2, -1], "linear_attn_config": [
               [], {"kda_layers": [1, 2, 3], "full_attn_layers": []}, {"kda_layers": [0, 1, 2, 3], "full_attn_layers": [4]},
               {"kda_layers": [1, 3, 4], "full_attn_layers": ["2"]}, {"kda_layers": 4, "full_attn_layers": [1]}, {"head_dim": 300},
               {"num_heads": 0}, {"short_conv_kernel_size": 2.5}, {"gate_lower_bound": -5.0}],
           "index_kpool": [0, -1, 3, 2.5, None], "index_kpool_always_select_tail": [False], "linear_lower_bound": [0, 1.0, "x"],
           "kda_lower_bound": [0, 1.0, "x", None], "kda_safe_gate": ["x", 1], "short_conv_kernel_size": [0, 2, 2.5, 100000], "layer_group_size": [0, -1, 2.5],
           "no_rope_layers": [[1], [0, "1", 1, 1]], "attn_scale": ["1", [2]], "vocab_size": [7],
           "gating": ["per-layer", 1, None], "moe_router_logit_softcapping": ["1", -1.0], "moe_routed_scaling_factor": ["1"],
           "v_head_dim": [0, 16, 2.5, 1e9, None], "attention_value_scale": ["1", 1e300], "sliding_window_size": [-1, 2.5], "hybrid_layer_pattern": [[0, 1], [0, 2, 1, 1, 1, 0, 1], [0] * 7, 1],
           "swa_num_attention_heads": [0, 5, 8], "swa_num_key_value_heads": [0, 3, 1], "swa_head_dim": [0, 32], "swa_v_head_dim": [0, 24, "20"], "swa_rope_theta": [0, -1.0, "x"],
           "partial_rotary_factor": [0, 0.3, 1.5, "x"],
           "num_sliding_attention_heads": [0, 5, -1, 2.5, "6"], "attention_other_setting": [[], {"num_attention_heads": 5}, {"num_attention_heads": 0}, {"no_such": 1},
                                       {"attention_type": "linear", "num_attention_heads": 6}, {"num_attention_heads": 6, "head_dim": 32}],
           "swiglu_limits": [[1.0], [-1.0] * 5, ["1"] * 5, 3.0], "swiglu_limits_shared": [[1.0], [-1.0] * 5, ["1"] * 5, 3.0], "moe_top_k": [0, 1000, -1],
           "moe_router_scaling_factor": ["1"], "partial_rotary_factors": [[0.5] * 3, [0.5, 1.0, 0.25, 1.0], 0.5, ["x"] * 4], "yarn_only_types": [["sliding_attention"], "full"],
           "layer_rope_theta": [[1e4], [-1.0] * 5, ["1"] * 5, 3.0, [0.5] * 5], "post_norm_eps": [0, -1.0, "x"], "qk_scale_factor": ["1", None], "output_multiplier": ["1", None],
           "compress_rope_theta": [0, 1e300, "x"], "compress_rates": [3, {"compressed_sparse_attention": 4}, {"compressed_sparse_attention": 4, "heavily_compressed_attention": 0}],
           "compress_ratios": [[0, 4], [0, 4, 5, 4, 4], ["4"] * 5, 4], "num_hash_layers": ["2", -1], "hc_mult": [0, 9, "3"], "hc_eps": [-1.0, "x"], "hc_sinkhorn_iters": [0, 1e9, 1.5],
           "o_groups": [0, 3], "scoring_func": ["relu", 3], "mlp_layer_types": [["moe"] * 2, ["dense"] * 5, 3], "q_lora_rank": [0],
           "conv_kernel_size": [0, 2, -1], "sconv_kernel_size": [0, 2, 2.5], "d_rel": [0, 3, "5", 2.5], "rel_extent": [0, 40, "x"], "log_scaling_n_floor": [0, -1, 2.5, "x"],
           "log_scaling_alpha": ["x", 1e300], "logits_mup_width_multiplier": [0, "x", None], "local_layer_ids": [[9], [-1], ["0"], 3], "dense_mlp_idx": [-1, 2, "x"],
           "unpadded_vocab_size": [0, -1, "x"], "n_shared_experts": [0, 2, 11, "3", None], "route_scale": ["x"],
           "hc_count": [0, 1, 9, "3"], "hc_lowrank": [0, 13, 1.5], "heads_per_ngram": [0, 5, -1], "indexer_budget": [0, 7, -4, None], "indexer_compress_ratio": [0, 5, None],
           "indexer_head_dim": [0, 4, 1e9, None], "indexer_kv_heads": [0, 2, None], "indexer_n_heads": [0, 5, None], "ngram_size": [0, 1, 17, 2.5], "output_gate_type": ["swish", 1],
           "ple_conv_kernel_size": [0, 5], "ple_embed_dim": [0, 50], "ple_layer_ids": [[0], [6], ["1"], 1], "eos_token_id": ["7", [], None],
           "num_attention_heads_per_layer": [[4, 6], [4, 0, 2], [4, 5, 2], [4, "6", 2], [4, 6, 1e9], 4]}
# Other values that transformers accepts, where the architecture reads the key.
OTHER = {"rms_norm_eps": [0.01], "layer_norm_eps": [0.01], "logit_scale": [0.7], "rope_theta": [300.0], "sliding_window": [7, None], "use_sliding_window": [False], "max_window_layers": [2],
         "top_k_experts": [1], "enable_moe_block": [True, False], "attention_k_eq_v": [True, False], "per_layer_config": [None, {}],
         "use_bidirectional_attention": ["vision", "all"], "hidden_size_per_layer_input": [0, 8], "num_kv_shared_layers": [0, 1, 2], "use_double_wide_mlp": [True, False],
         "norm_topk_prob": [True, False], "routed_scaling_factor": [0.7], "router_scaling_factor": [0.7], "route_scale": [0.7], "mup_enabled": [False], "num_experts_per_tok": [1], "moe_topk": [1], "moe_k": [1], "topk_group": [1], "n_group": [2],
         "attention_chunk_size": [100], "floor_scale": [3], "attn_scale": [0.2], "attn_temperature_tuning": [False, True],
         "no_rope_layer_interval": [2], "topk_method": ["greedy", "group_limited_greedy", "noaux_tc"],
         "attn_logit_softcapping": [None, 2.0], "final_logit_softcapping": [None, 3.0], "query_pre_attn_scalar": [9],
         "swiglu_alpha": [1.0], "swiglu_limit": [0.5], "rope_interleave": [False], "hidden_act": ["gelu_pytorch_tanh"],
         "hidden_activation": ["silu"], "head_dim": [192], "layer_types": None, "attention_bias": [True, False], "mlp_bias": [True, False],
         "mamba_conv_bias": [True, False], "mamba_proj_bias": [True, False], "use_bias": [True, False], "use_conv_bias": [True, False],
         "use_qk_norm": [True, False], "residual_multiplier": [0.9], "logits_scaling": [3.0], "attention_multiplier": [0.2],
         "mamba_dt_rank": ["auto"], "attn_layer_offset": [0], "attn_layer_period": [2], "conv_bias": [True, False], "conv_L_cache": [2], "norm_eps": [0.01], "full_attn_idxs": [[0], None], "use_expert_bias": [False],
         "moe_renormalize": [True, False], "num_experts_per_token": [1], "num_expert_group": [2], "linear_attn_config": [{}, {"head_dim": 13, "num_heads": 5}],
         "kda_safe_gate": [True, False], "kda_lower_bound": [-2.0], "layer_group_size": [2], "gated_attention_proj_granularity_type": ["head_wise"],
         "gating": [True, "per-head", "per-element"], "moe_router_logit_softcapping": [0.0, 0.5], "moe_routed_scaling_factor": [0.7],
         "num_attention_heads_per_layer": [None, [4, 4, 4]], "index_topk": [1, 5, 14, 89, 300], "linear_lower_bound": [None, -0.5, -20.0], "index_topk_blocks": [1, 50], "index_block_size": [1, 5, 64], "index_local_blocks": [0, 2, 3], "indexer_types": [["full", "full", "shared"], None],
         "attention_value_scale": [None, 1.3, 1.0], "num_sliding_attention_heads": [4, None], "swiglu_limits": [None, [], [0.2] * 5], "swiglu_limits_shared": [None, [], [0.2] * 5], "moe_router_scaling_factor": [0.7],
         "moe_top_k": [1], "layer_rope_theta": [None, [1e4] * 5, [1e3, 0, 0, 1e5, 1e3], [1e3, 0, 1e5]], "post_norm_eps": [0.3], "qk_scale_factor": [0.7], "output_multiplier": [0.9],
         "use_attention_gate": [True, False], "use_sandwich_norm": [True, False], "embedding_multiplier": [0.5], "time_step_min": [0.5], "linear_num_key_heads": [1],
         "log_scaling_n_floor": [None, 1, 60, 500], "log_scaling_alpha": [0.0, 0.3, -0.2], "logits_mup_width_multiplier": [1.0, 5.5], "unpadded_vocab_size": [None, 280, 300, 400],
         "local_layer_ids": [None, [0], [0, 2, 4], [4, 2, 2, 0]], "conv_kernel_size": [2], "sconv_kernel_size": [3], "d_rel": [4], "rel_extent": [40, 60], "dense_mlp_idx": [0, 3],
         "shared_expert_sink": [True, False], "use_sconv": [False], "use_embed_norm": [False], "use_gate_bias": [False], "use_global_scale": [False], "norm_after_topk": [False],
         "gate_activation": ["softmax"], "rms_norm_eps_moe_gate": [0.5], "number_of_conv_states": [2], "num_mtp_layers": [1], "chain_hidden_post_norm": [True],
         "mtp_hidden_states_first": [False], "mtp_local_layer_ids": [[0]], "embedding_multiplier": [0.5], "sliding_window_size": [19], "n_shared_experts": [2],
         "swa_num_attention_heads": [3], "swa_num_key_value_heads": [6], "swa_head_dim": [10],
         "compress_rope_theta": [300.0], "compress_rates": [None, {"compressed_sparse_attention": 4, "heavily_compressed_attention": 13, "more": 3}],
         "compress_ratios": [[0, 4, 128, 4, 4], [0, 4, 4, 4, 4]], "qk_rope_head_dim": [16], "partial_rotary_factor": [0.5], "num_hash_layers": [1, 2, 3],
         "output_gate_type": [None, "silu", "sigmoid"], "indexer_budget": [4, 7, 28, 56, 2000], "indexer_compress_ratio": [1, 2, 3, 5, 6, 8, 12, 35], "ple_layer_ids": [[3, 1, 3], [2, 2]],
         "eos_token_id": [5, [7, 5], [5, 7]], "heads_per_ngram": [2], "seed": [3],
         "hc_mult": [2], "hc_eps": [0.0, 0.1], "hc_sinkhorn_iters": [1, 7], "o_groups": [1, 4], "o_lora_rank": [10], "scoring_func": ["sigmoid"]}
REMOVED = ("layer_rope_theta", "post_norm_eps", "qk_scale_factor", "output_multiplier", "use_attention_gate", "use_sandwich_norm", "num_sliding_attention_heads", "attention_other_setting", "swiglu_limits", "swiglu_limits_shared", "moe_router_scaling_factor", "partial_rotary_factors",
           "rope_theta", "rope_scaling", "yarn_only_types",
           "v_head_dim", "attention_value_scale", "sliding_window_size", "hybrid_layer_pattern", "swa_rope_theta", "swa_num_key_value_heads", "swa_v_head_dim", "gating", "moe_router_logit_softcapping", "moe_routed_scaling_factor", "num_attention_heads_per_layer",
           "attention_k_eq_v", "enable_moe_block", "per_layer_config", "top_k_experts", "hidden_size_per_layer_input", "num_kv_shared_layers", "use_double_wide_mlp",
           "global_head_dim", "num_global_key_value_heads", "attention_bias", "attn_logit_softcapping", "final_logit_softcapping", "head_dim", "hidden_act", "hidden_activation",
           "layer_types", "max_window_layers", "mlp_bias", "n_group", "norm_topk_prob", "num_experts_per_tok", "moe_topk", "moe_k", "query_pre_attn_scalar",
           "layer_norm_eps", "logit_scale", "rms_norm_eps", "rope_interleave", "rope_parameters", "routed_scaling_factor", "route_scale", "router_scaling_factor", "mup_enabled", "global_attn_every_n_layers", "sliding_window", "swiglu_alpha",
           "embedding_multiplier", "attention_multiplier", "logits_scaling", "residual_multiplier", "mamba_conv_bias", "mamba_proj_bias",
           "use_bias", "use_conv_bias", "mamba_expand", "mamba_d_head", "linear_conv_kernel_dim", "rotary_dim", "no_rope_layers", "index_topk", "indexer_types", "index_topk_blocks", "index_block_size", "index_local_blocks", "index_n_heads", "index_head_dim", "swiglu_alpha",
           "position_embedding_type", "swiglu_limit", "topk_group", "topk_method", "use_qk_norm", "use_sliding_window", "partial_rotary_factor",
           "index_kpool", "index_kpool_always_select_tail", "linear_lower_bound",
           "kda_lower_bound", "kda_safe_gate", "short_conv_kernel_size", "layer_group_size", "linear_attn_config", "linear_head_dim", "linear_num_heads", "moe_renormalize", "num_expert_group", "num_experts_per_token",
           "mamba_dt_rank", "mamba_d_conv", "mamba_d_state", "attn_layer_offset", "attn_layer_period",
           "attention_chunk_size", "floor_scale", "attn_scale", "attn_temperature_tuning", "no_rope_layer_interval", "conv_bias", "conv_L_cache", "norm_eps", "full_attn_idxs", "use_expert_bias",
           "compress_rope_theta", "compress_rates", "compress_ratios", "qk_rope_head_dim", "num_hash_layers", "hc_mult", "hc_eps", "hc_sinkhorn_iters", "o_groups", "o_lora_rank",
           "scoring_func", "q_lora_rank", "mlp_layer_types", "conv_kernel_size", "sconv_kernel_size", "d_rel", "rel_extent", "log_scaling_n_floor", "log_scaling_alpha",
           "logits_mup_width_multiplier", "local_layer_ids", "dense_mlp_idx", "unpadded_vocab_size", "n_shared_experts", "swa_head_dim",
           "eos_token_id", "hc_count", "hc_lowrank", "heads_per_ngram", "indexer_budget", "indexer_compress_ratio", "indexer_head_dim",
           "indexer_kv_heads", "indexer_n_heads", "ngram_size", "output_gate_type", "ple_conv_kernel_size", "ple_embed_dim", "ple_layer_ids")
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32}
ROPES = {"yarn with mscale_all_dim": YARN | {"mscale": 0.7, "mscale_all_dim": 1.3}, "yarn without factor": {key: value for key, value in YARN.items() if key != "factor"},
         "yarn with betas": YARN | {"beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.1},
         "linear": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0},
         "yarn with grown queries": YARN | {"llama_4_scaling_beta": 0.2, "max_position_embeddings": 7},
         "default with a part": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
         "dynamic with alpha": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0, "alpha": 50.0},
         "a factor that llama3 lacks": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0, "llama_4_scaling_beta": 0.1}}

LAYER_ROPES = ("gemma4", "laguna", "lfm3", "mimo_v2_flash", "step3p5")          # whose layers have ropes by their types alone
REFUSED = {"num_sliding_attention_heads": (0, 5)}       # by key and number, where transformers takes per_layer_config too
READ_BY = {"n_shared_experts": "inkling", "eos_token_id": "qwen4_exp"}         # the tensors of others say the same, or it changes no number
NESTS = ("thinker_config", "text_config")


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    """Relative; infinite where one of them is no number."""
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    return error if np.isfinite(error) else np.inf


def unreleased(config: dict) -> dict:
    """MiMo-V2-Flash's keys as transformers reads them: it ignores the release's."""
    thetas = {"full_attention": config.get("rope_theta", 5e6), "sliding_attention": config.get("swa_rope_theta", 1e4)}
    part = config.get("partial_rotary_factor", 0.334)
    types = [["full_attention", "sliding_attention"][i] for i in config["hybrid_layer_pattern"]] if config.get("hybrid_layer_pattern") else None
    ropes = {kind: {"rope_type": "default", "rope_theta": float(theta), "partial_rotary_factor": part} for kind, theta in thetas.items()}
    config = {"rope_parameters": ropes, "layer_types": types, "rms_norm_eps": config.get("layernorm_epsilon", 1e-5)} | config
    return config | ({"sliding_window": 1} if config.get("sliding_window_size") else {})


class Case:
    """A tiny model in a folder, whose config.json changes from case to case."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        tiny_models.save(name, folder)
        self.weights = tiny_models.load(name, folder).state_dict()
        self.name, self.folder, self.path = name, folder, folder / "config.json"
        self.asked = {"output_hidden_states": True} if name.startswith("gemma4") else {}
        self.whole = json.loads(self.path.read_text())
        self.config = self.inner(self.whole)        # of the language model
        self.draw(11)

    def draw(self, seed: int) -> None:
        self.ids = np.random.default_rng(seed).integers(0, self.config["vocab_size"], LENGTH).astype(np.uint32)

    def inner(self, level: dict) -> dict:
        return next((self.inner(level[key]) for key in NESTS if key in level), level)

    def outer(self, level: dict, config: dict) -> dict:
        """The level with another configuration of the language model."""
        return next((level | {key: self.outer(level[key], config)} for key in NESTS if key in level), config)

    def reads(self, key: str) -> bool:
        return key in self.config and self.name.startswith(READ_BY.get(key, ""))

    def write(self, config: dict) -> None:
        self.path.write_text(json.dumps(self.outer(self.whole, config)))

    def ours(self, config: dict) -> np.ndarray | str:
        """The logits, or the message."""
        self.write(config)
        found = our_logits(self.folder, self.ids)
        return found if isinstance(found, str) else found.astype(np.float64)

    def load(self) -> torch.nn.Module:
        """The model of the changed config.json with the weights as saved; where they are not all that it has, as transformers loads it."""
        config_class, model_class = tiny_models.MODELS[self.name][:2]
        with no_init_weights():
            model = model_class(config_class.from_pretrained(self.folder))
        try:
            missing = model.load_state_dict(self.weights, strict=False).missing_keys
        except RuntimeError:                # other shapes
            missing = True
        return tiny_models.load(self.name, self.folder) if missing else tiny_models.ready(model)

    def theirs(self, config: dict) -> np.ndarray:
        self.write(unreleased(config) if self.name.startswith("mimo_v2_flash, as released") else config)
        with torch.no_grad():
            model = self.load()
            # transformers fails where Gemma 4 shares keys and values, but has no inputs of layers, unless it is asked for more.
            return model(torch.tensor(self.ids[None].astype(np.int64)), **self.asked).logits.double().numpy().ravel()

    def equal(self, config: dict, key: str, must_run: bool = True) -> Iterator[str]:
        """The logits equal transformers', or the key is refused."""
        found = self.ours(config)
        if isinstance(found, str):
            if key not in found and "config.json implies" not in found and "is missing from" not in found and "is unexpected in" not in found:
                yield f"{key}: refused by another name: {found}"
            return
        try:
            wanted = self.theirs(config)
        except Exception as problem:        # noqa: BLE001: transformers fails in many ways
            if must_run:
                yield f"{key}: accepted, but transformers fails: {problem}"
            return
        error = distance(found, wanted)
        if error >= LIMIT and not self.is_tie(found, wanted, config):
            yield f"{key}: accepted, and logits differ by {error:.2e}"

    def is_tie(self, found: np.ndarray, wanted: np.ndarray, config: dict) -> bool:
        """Whether a single token differs, and none of another sequence: which of two experts with nearly the same score a token takes is
        decided by the last bits of sums, which are others on another processor."""
        tokens = zip(found.reshape(LENGTH, -1), wanted.reshape(LENGTH, -1))
        if not any("expert" in key for key in config) or sum(distance(a, b) >= LIMIT for a, b in tokens) > 1:
            return False
        self.draw(12)
        error = distance(self.ours(config), self.theirs(config))
        self.draw(11)
        return error < LIMIT


def removed(case: Case) -> Iterator[str]:
    """The default sections of a position fit no tiny head: they stay, and transformers fails where a default turns another part.
    The tensors say which layers have experts, but not which of these choose them by the token."""
    for key in REMOVED:
        if case.reads(key) and (key != "mlp_layer_types" or "hash_moe" in case.config[key]):
            kept = {k: v for k, v in case.config[key].items() if k == "mrope_section"} if key == "rope_parameters" else {}
            yield from case.equal({k: v for k, v in case.config.items() if k != key} | ({key: kept} if kept else {}), key, not kept)


def other(case: Case) -> Iterator[str]:
    for key, values in OTHER.items():
        if not case.reads(key) or not values:
            continue
        for value in values:
            # null is as good as a missing key here; a class of transformers may refuse it
            yield from (f"{value}: {problem}" for problem in case.equal(case.config | {key: value}, key, value is not None))


def foreign(case: Case) -> Iterator[str]:
    """Each key alone, against a model that transformers makes with all of them; one by one where that differs."""
    found = {key: case.ours(case.config | {key: value}) for key, value in FOREIGN.items() if key not in case.config}
    accepted = {key: FOREIGN[key] for key, logits in found.items() if not isinstance(logits, str)}
    try:
        wanted = case.theirs(case.config | accepted)
    except Exception:        # noqa: BLE001: transformers fails in many ways
        accepted = {}
    for key, logits in found.items():
        if key not in accepted or distance(logits, wanted) >= LIMIT:
            yield from case.equal(case.config | {key: FOREIGN[key]}, key)


def ropes(case: Case) -> Iterator[str]:
    """What transformers refuses here, it refuses for the type of rope, or for a head_dim of null."""
    if "full_attention" in case.config.get("rope_parameters", {"full_attention": None}):
        return
    for what, rope in ROPES.items():
        part = case.config["rope_parameters"].get("partial_rotary_factor")
        rope |= {} if part is None else {"partial_rotary_factor": part}
        yield from (f"{what}: {problem}" for problem in case.equal(case.config | {"rope_parameters": rope}, "rotary embedding", False))
        older = {k: v for k, v in case.config.items() if k != "rope_parameters"} | {"rope_scaling": rope, "rope_theta": 500.0}
        older["rope_scaling"] = {k: v for k, v in rope.items() if k != "rope_theta"}
        yield from (f"{what}, older spelling: {problem}" for problem in case.equal(older, "rotary embedding", False))


def wrong_types(case: Case) -> Iterator[str]:
    """A member of rope_parameters of another type is refused by its name, wherever it stands."""
    longrope = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 32, "short_factor": [], "long_factor": []}
    members = ROPES | {"yarn with truncate": YARN | {"truncate": False, "mscale": 0.7, "mscale_all_dim": 1.3}, "longrope": longrope}
    for what, rope in members.items():
        for key, value in rope.items():
            right = {str: "word", bool: True, float: 1.5, int: 3, list: [1.0]}
            same = (int, float) if type(value) in (int, float) else (type(value),)
            for wrong in [w for t, w in right.items() if t not in same] + [{"a": 1}, 1e300]:
                for config in (case.config | {"rope_parameters": rope | {key: wrong}},
                               {k: v for k, v in case.config.items() if k != "rope_parameters"} | {"rope_scaling": rope | {key: wrong}}):
                    found = case.ours(config)
                    if not isinstance(found, str) or key not in found:
                        yield f"{what}: {key} {wrong}: {found if isinstance(found, str) else 'accepted'}"
    alone = {key: value for key, value in case.config.items() if key != "rope_parameters"} | {"rope_theta": [1e4] * 3}
    if not isinstance(found := case.ours(alone), str) or "rope_theta" not in found:
        yield f"a list of rope_theta: {found if isinstance(found, str) else 'accepted'}"


def layer_ropes(case: Case) -> Iterator[str]:
    """A rope for each type of layers, where config.json has one for each alone."""
    ropes = case.config.get("rope_parameters", {})
    if not case.name.startswith(LAYER_ROPES) or not ropes:
        return
    parts = [{"partial_rotary_factor": part} for part in (0.0, 0.3, 1.0)]
    proportional = [{"rope_type": "proportional", "rope_theta": 300.0, **part} for part in (*parts, {}, {"factor": 4.0})]
    for layers, rope in ropes.items():
        changes = [*ROPES.values(), *proportional, *(rope | part for part in parts), {"rope_type": "default"}, {"rope_theta": 1e4}, {}, None]
        for change in changes:
            config = case.config | {"rope_parameters": ropes | {layers: change}}
            yield from (f"{layers} {change}: {problem}" for problem in case.equal(config, "rotary embedding", False))
        config = case.config | {"rope_parameters": {key: value for key, value in ropes.items() if key != layers}}
        yield from (f"no {layers}: {problem}" for problem in case.equal(config, "rotary embedding"))
    for flat in (None, {}, {"rope_type": "default", "rope_theta": 1e4}):
        yield from (f"{flat}: {problem}" for problem in case.equal(case.config | {"rope_parameters": flat}, "rotary embedding"))
    yield from case.equal(case.config | {"rope_theta": 77.0}, "rope_theta")
    yield from case.equal(case.config | {"rope_scaling": YARN}, "rope_scaling")


def layer_heads(case: Case) -> Iterator[str]:
    """The keys of the hub for what transformers saves as per_layer_config."""
    if "per_layer_config" not in case.config or not case.name.startswith("gemma4"):
        return
    config = {key: value for key, value in case.config.items() if key != "per_layer_config"}
    heads = next(iter(case.config["per_layer_config"].values()))
    config |= {"global_head_dim": heads["head_dim"], "num_global_key_value_heads": heads.get("num_key_value_heads")}
    types = config["layer_types"]
    spellings = [config, config | {"layer_types": [*types[:-1], "sliding_attention"]}]      # the last one is full all the same
    if types == [("full" if i in (5, len(types) - 1) else "sliding") + "_attention" for i in range(len(types))]:
        spellings.append({key: value for key, value in config.items() if key != "layer_types"})
    for spelling in spellings:
        if isinstance(found := case.ours(spelling), str):
            yield f"refused: {found}"
        yield from case.equal(spelling, "nothing")
    whole, case.config = case.config, config
    for test in (removed, other, hostile):
        yield from test(case)
    case.config = whole


def shared_keys(case: Case) -> Iterator[str]:
    """The keys of the hub for what transformers saves as indexer_types; other layers lack the tensors of an indexer, or have too many."""
    if "index_topk" in case.config and "compress_rope_theta" not in case.config and not case.name.startswith(("dots3", "glm5_next")):
        found = case.ours(case.config | {"layer_types": ["indexed_attention", "full_attention", "indexed_attention"]})
        if "'layer_types' has 'full_attention'" not in found:
            yield f"a layer without an indexer: {found}"
    if case.config.get("indexer_types") != ["full", "shared", "full"]:
        return
    config = {key: value for key, value in case.config.items() if key != "indexer_types"}
    for spelling in ({"index_topk_pattern": "FSF"}, {"index_topk_freq": 2, "index_skip_topk_offset": 1},
                     {"index_topk_pattern": ["full", "shared", "full"]}, {"index_topk_pattern": "FSF", "index_topk_freq": 3}):
        if isinstance(found := case.ours(config | spelling), str):
            yield f"{spelling} is refused: {found}"
        yield from (f"{spelling}: {problem}" for problem in case.equal(config | spelling, "nothing"))
    for key, values in {"index_topk_pattern": ["FS", "SFF", "FXF", "FSS", ["full", "shared", "X"], 3], "index_topk_freq": [0, 1, 3, -1],
                        "index_skip_topk_offset": [0, 5]}.items():
        for value in values:
            found = case.ours(config | {key: value})
            if not isinstance(found, str) or (key not in found and ".self_attn.indexer." not in found):
                yield f"{key} {value}: {found if isinstance(found, str) else 'accepted'}"


def pooled_keys(case: Case) -> Iterator[str]:
    """GLM-5.3: the keys of the hub for indexer_types and for the sizes and the bound of linear attention; a layer that shares the keys of one
    without any, or of the layer before that one, is refused."""
    if case.name != "glm5_next":
        return
    config = {key: value for key, value in case.config.items() if key != "indexer_types"}
    for spelling in ({"index_topk_pattern": "SFFFS"}, {"index_topk_freq": 2, "index_skip_topk_offset": 0}, {"index_topk_pattern": ["shared", "full"] * 2 + ["shared"]}):
        if isinstance(found := case.ours(config | spelling), str):
            yield f"{spelling} is refused: {found}"
        yield from (f"{spelling}: {problem}" for problem in case.equal(config | spelling, "nothing"))
    for types in (["shared", "full", "full", "shared", "shared"], ["full", "shared", "full", "full", "shared"]):
        if not isinstance(found := case.ours(case.config | {"indexer_types": types}), str) or "indexer_types" not in found:
            yield f"{types}: {found}"
    sizes = {"head_dim": 13, "num_heads": 5, "short_conv_kernel_size": 3}
    for bound in (None, -0.5):
        for inner in ({}, sizes, {"gate_lower_bound": -2.0}, {"gate_lower_bound": None}, {"safe_gate": False}, {"gate_lower_bound": None, "safe_gate": False},
                      {"gate_lower_bound": -2.0, "safe_gate": False}, sizes | {"kda_layers": [1], "full_attn_layers": [2]}):
            config = case.config | {"linear_lower_bound": bound, "linear_attn_config": inner}
            if isinstance(found := case.ours(config), str):
                yield f"{bound}, {inner} is refused: {found}"
            yield from (f"{bound}, {inner}: {problem}" for problem in case.equal(config, "nothing"))
    for inner in ({"gate_lower_bound": 0.0}, {"gate_lower_bound": "x"}, {"safe_gate": 1}, {"no_such_key": 1}, {"num_heads": 4}):
        found = case.ours(case.config | {"linear_attn_config": inner})
        if not isinstance(found, str) or (next(iter(inner)) not in found and "config.json implies" not in found):
            yield f"{inner}: {found if isinstance(found, str) else 'accepted'}"


def chosen_blocks(case: Case) -> Iterator[str]:
    """The object of MiniMax-M3's releases for what transformers saves as layer_types and index_*, whose sizes win over those."""
    if "index_topk_blocks" not in case.config:
        return
    sizes = {"index_n_heads": "sparse_num_index_heads", "index_head_dim": "sparse_index_dim", "index_block_size": "sparse_block_size",
             "index_topk_blocks": "sparse_topk_blocks", "index_local_blocks": "sparse_local_block"}
    released = {new: case.config[old] for old, new in sizes.items()} | {
        "sparse_attention_freq": [0, 0, 1, 1], "use_sparse_attention": True, "sparse_score_type": "max", "sparse_init_block": 0,
        "sparse_disable_index_value": [0, 0, 1, 1]}
    flat = {key: value for key, value in case.config.items() if key not in (*sizes, "layer_types", "mlp_layer_types")}
    flat |= {"moe_layer_freq": [0, 1, 1, 1], "hidden_act": "swigluoai", "use_gemma_norm": True, "qk_norm_type": "per_head", "use_qk_norm": True,
             "scoring_func": "sigmoid", "use_routing_bias": True, "n_shared_experts": 1, "attention_output_gate": False, "num_mtp_modules": 7}
    for spelling in (flat, flat | {"index_topk_blocks": 1}, case.config):
        for inner in (released, {key: value for key, value in released.items() if "local" not in key}, released | {"sparse_block_size": 5}):
            config = spelling | {"sparse_attention_config": inner}
            if isinstance(found := case.ours(config), str):
                yield f"refused: {found}"
            yield from case.equal(config, "nothing")
    for key, values in {"sparse_num_index_heads": [0, 3, "2"], "sparse_index_dim": [0, 4], "sparse_block_size": [0, 1.5], "sparse_topk_blocks": [0, -1],
                        "sparse_local_block": [9, -1], "sparse_attention_freq": [[], [0, 1, 1], 3, [0, 0, 0, 1]], "sparse_init_block": [1],
                        "use_sparse_attention": [False], "sparse_score_type": ["mean"], "sparse_disable_index_value": [[1, 1, 0, 1], [], 1],
                        "no_such_key": [1]}.items():
        for value in values:
            found = case.ours(flat | {"sparse_attention_config": released | {key: value}})
            named = (key, *(old for old, new in sizes.items() if new == key), "self_attn.index_")
            if not isinstance(found, str) or not any(name in found for name in named):
                yield f"{key} {value}: {found if isinstance(found, str) else 'accepted'}"


def hostile(case: Case) -> Iterator[str]:
    for key, values in HOSTILE.items():
        for value in values if case.reads(key) else []:
            if "use_sliding_window" in case.config:
                case.config["use_sliding_window"] = True
            found = case.ours(case.config | {key: value})
            if value in REFUSED.get(key, ()) and f"'{key}' is {value}" not in found:
                yield f"{key} {value}: not refused by its key: {found}"
            elif isinstance(found, str) and (found.startswith("exit") or "config.json" not in found):
                yield f"{key} {value}: {found}"
            elif not isinstance(found, str):        # an architecture that does not read the key
                yield from (f"{value} is accepted: {problem}" for problem in case.equal(case.config | {key: value}, key))


def patterns(case: Case) -> Iterator[str]:
    """A pattern of windows that is not a number above 0 counts for nothing beside layer_types, and without them it is refused."""
    for key, values in (("sliding_window_pattern", (0, "LG")), ("global_attn_every_n_layers", (0,))):
        for value in values if key in case.config else ():
            config = case.config | {key: value}
            yield from (f"{value}: {problem}" for problem in case.equal(config, "no key"))
            alone = {k: v for k, v in config.items() if k != "layer_types"}
            if key not in (found := case.ours(alone)):
                yield f"{value} without layer_types: {found}"
        if case.config.get(key):
            yield from case.equal({k: v for k, v in case.config.items() if k != "layer_types"}, "no key")


def ties(case: Case) -> Iterator[str]:
    """A head that the files lack is the embedding where one level of config.json says so: transformers asks the outer, vLLM the inner one."""
    saved, inner = case.whole, case.config
    if inner is saved or not saved.get("tie_word_embeddings") or "tie_word_embeddings" not in inner:
        return
    tied = case.ours(inner)
    yield from case.equal(inner | {"tie_word_embeddings": False}, "nothing")
    for outer, flag, wanted in ((True, False, tied), (False, True, tied), (False, False, "lm_head.weight' is missing")):
        case.whole = saved | {"tie_word_embeddings": outer}
        found = case.ours(inner | {"tie_word_embeddings": flag})
        if wanted not in found if isinstance(wanted, str) else isinstance(found, str) or distance(found, wanted):
            yield f"outer {outer}, inner {flag}: {found}"
    case.whole = saved


def main() -> None:
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    for name in tiny_models.MODELS:
        with scratch() as folder:
            case = Case(name, folder)
            report(f"{name}: as saved", case.equal(case.config, "nothing"))
            for test in (removed, other, foreign, ropes, layer_ropes, layer_heads, shared_keys, pooled_keys, chosen_blocks, hostile, patterns, ties):
                report(f"{name}: {test.__name__}", test(case))
            if name == "llama":                                         # the types of members are the same for all
                report(f"{name}: {wrong_types.__name__}", wrong_types(case))
    finish()


main()
