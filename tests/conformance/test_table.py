# SPDX-License-Identifier: Apache-2.0
"""The n-gram table of Qwen3.8-Flash-Next in transformers: a small random model that it wrote itself is converted in hf, and its
FP8Embedding holds the codes and the scale of the file, next to the table of the source."""
import pathlib
from collections.abc import Iterator

import torch
import transformers as t
from safetensors.torch import load_file
from transformers.integrations.finegrained_fp8 import FP8Embedding
from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig
from transformers.utils import logging

from harness import finish, quantize, report, run, scratch, silence

TABLE = "model.layers.1.ple.ple_embedding.ngram_embedding"
SIZES = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
         "vocab_size": 320, "max_position_embeddings": 256, "initializer_range": 0.1, "num_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 128, "shared_expert_intermediate_size": 128, "linear_num_value_heads": 2,
         "linear_num_key_heads": 2, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
         "layer_types": ["full_attention", "linear_attention"], "hc_lowrank": 128, "ple_layer_ids": [2], "ple_embed_dim": 256,
         "heads_per_ngram": 4, "ngram_vocab_size_base": 300, "split_ngram_parts": 4, "indexer_n_heads": 2,
         "indexer_kv_heads": 1, "indexer_head_dim": 64, "indexer_budget": 32, "indexer_compress_ratio": 4, "bos_token_id": 1, "eos_token_id": 2}
IDS = torch.arange(3, 60)[None] * 5 % 311


def save(folder: pathlib.Path) -> None:
    torch.manual_seed(8)
    model = t.AutoModelForCausalLM.from_config(Qwen4ExpTextConfig(**SIZES), dtype=torch.bfloat16)
    table = model.get_submodule(TABLE).weight
    table.data *= torch.linspace(0.01, 3, len(table))[:, None]          # parts of other sizes than each other
    model.save_pretrained(folder)


def load(folder: pathlib.Path) -> tuple[torch.nn.Module, dict]:
    model, info = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True)
    return model.eval(), {key: value for key, value in info.items() if value}


def whole(folder: pathlib.Path) -> torch.Tensor:
    """The table of the file, without transformers."""
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors |= load_file(file)
    parts = [tensors[f"{TABLE}.shard_{i}.weight"].float() for i in range(SIZES["split_ngram_parts"])]
    return torch.cat(parts) * tensors.get(TABLE + ".weight_scale", torch.ones(1)).float()


@torch.no_grad()
def problems(source: pathlib.Path, recipe: str) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", "--recipe", recipe, "--format", "hf"))
        done = run("verify", tmp / "out", "--source", source)
        if done.returncode:
            yield f"verify: {(done.stdout + done.stderr).decode().splitlines()[0]}"
        model, info = load(tmp / "out")
        if info:
            yield f"loading: {info}"
        table = model.get_submodule(TABLE)
        if type(table) is not FP8Embedding or table.weight.dtype != torch.float8_e4m3fn:
            yield f"the table is {type(table).__name__} of {table.weight.dtype}"
            return
        rows = table(torch.arange(table.num_embeddings)).float()
        wanted, before = whole(tmp / "out"), whole(source)
        if not torch.equal(rows, wanted.to(torch.bfloat16).float()):
            yield "the table is not code * scale of the file"
        scale = table.weight_scale.float().item()
        step = torch.maximum(before.abs() / 16, torch.full_like(before, scale / 1024))      # half a step of E4M3
        if ((wanted - before).abs() > step).any() or 448 * scale < before.abs().max() or 224 * scale >= before.abs().max():
            yield f"scale {scale}: the table is not the nearest of the source by the least power of two"
        found, other = (m(IDS).logits.float() for m in (model, load(source)[0]))
        error = ((found - other).norm() / other.norm()).item()
        print(f"   {recipe}: scale {scale}, error of logits {error:.3f}")
        if not error < 0.6:
            yield f"error of logits {error:.3f}"


def main() -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with scratch() as tmp:
        save(tmp / "source")
        for recipe in ("blockwise", "mxfp8"):
            report(f"n-gram table, {recipe}", problems(tmp / "source", recipe))
    finish()


if __name__ == "__main__":
    main()
