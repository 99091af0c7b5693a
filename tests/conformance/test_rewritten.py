# SPDX-License-Identifier: Apache-2.0
"""Releases that transformers saved: its own save_pretrained() of configurations as they were published, of a tokenizer and of a
generation config is no difference for verify --source."""
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from harness import FP8CONV, SAMPLES, finish, report, scratch

BASE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "initializer_range": 0.02, "use_cache": True, "tie_word_embeddings": False,
        "max_position_embeddings": 512}
MOE = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_intermediate_size": 128}
# Members as the published configurations of these families have them.
CONFIGS = {
    "llama": {"architectures": ["LlamaForCausalLM"], "rope_theta": 500000.0, "attention_bias": False, "mlp_bias": False, "pretraining_tp": 1,
              "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128,
                               "rope_type": "llama3"}},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "rope_theta": 1000000.0, "sliding_window": 32768, "use_sliding_window": False,
              "max_window_layers": 28, "attention_dropout": 0.0},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "rope_theta": 1000000, "head_dim": 64, "rope_scaling": None, "sliding_window": None,
              "use_sliding_window": False, "max_window_layers": 36, "attention_bias": False},
    "mixtral": {"architectures": ["MixtralForCausalLM"], "rope_theta": 1e6, "num_local_experts": 4, "num_experts_per_tok": 2,
                "output_router_logits": False, "router_aux_loss_coef": 0.02, "sliding_window": None},
    "deepseek_v3": MOE | {"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 64, "q_lora_rank": 64, "qk_nope_head_dim": 32,
                          "qk_rope_head_dim": 32, "v_head_dim": 32, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
                          "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "ep_size": 1,
                          "num_nextn_predict_layers": 1, "rope_theta": 10000, "auto_map": {"AutoConfig": "configuration.Config"},
                          "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                                           "original_max_position_embeddings": 4096, "type": "yarn"}},
    "glm4_moe": MOE | {"architectures": ["Glm4MoeForCausalLM"], "head_dim": 64, "partial_rotary_factor": 0.5, "rope_theta": 1e6,
                       "rope_scaling": None, "use_qk_norm": True, "attention_bias": True},
    "phi3": {"architectures": ["Phi3ForCausalLM"], "rope_theta": 10000.0, "original_max_position_embeddings": 4096, "rope_scaling": None,
             "sliding_window": None, "resid_pdrop": 0.0, "pad_token_id": 3, "partial_rotary_factor": 1.0},
}


def told(out: pathlib.Path, source: pathlib.Path) -> set[tuple[str, str]]:
    done = subprocess.run([FP8CONV, "verify", out, "--source", source, "--json"], capture_output=True, text=True)
    return {(p["file"], p["message"]) for p in json.loads(done.stdout)["problems"]
            if p["kind"] in ("config-changed", "file-changed", "file-missing")}


def rewritten(tmp: pathlib.Path) -> Iterator[str]:
    quantized, source = tmp / "quantized", tmp / "source"
    shutil.copytree(SAMPLES / "tiny-llama", source)
    subprocess.run([FP8CONV, "quantize", source, "-o", quantized, "--quiet"], check=True)
    (quantized / "fp8conv-manifest.json").unlink()
    quantization = json.loads((quantized / "config.json").read_text())["quantization_config"]
    AutoTokenizer.from_pretrained(source).save_pretrained(quantized)
    GenerationConfig.from_pretrained(source).save_pretrained(quantized)
    for model_type, members in CONFIGS.items():
        (source / "config.json").write_text(json.dumps(BASE | members | {"model_type": model_type}))
        AutoConfig.from_pretrained(source).save_pretrained(quantized)
        config = json.loads((quantized / "config.json").read_text()) | {"quantization_config": quantization}
        (quantized / "config.json").write_text(json.dumps(config))
        if found := told(quantized, source):
            yield f"{model_type}: {found}"
        (quantized / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.5}))
        if len(found := told(quantized, source)) != 1:
            yield f"{model_type}, another rms_norm_eps: {found}"


def main() -> None:
    with scratch() as tmp:
        report("files that transformers wrote anew", rewritten(tmp))
    finish()


if __name__ == "__main__":
    main()
