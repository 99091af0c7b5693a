# SPDX-License-Identifier: Apache-2.0
"""Many families in transformers: a small random model that it wrote itself is converted, loaded again by its own
fine-grained FP8 or compressed-tensors code, and gives the logits of weights that torch quantized by hand; the n-gram table of
Qwen3.8-Flash-Next in its FP8Embedding."""
import pathlib
import random
import re
import sys
from collections.abc import Iterator

import torch
from compressed_tensors.utils import match_name
from loguru import logger
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, CompressedTensorsConfig
from transformers.integrations.finegrained_fp8 import FP8Embedding
from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig
from transformers.quantizers.quantizers_utils import should_convert_module
from transformers.utils import logging

import engines                              # tests/families
import family_models
from harness import finish, quantize, report, run, scratch, silence, skip

PAIRS = [("blockwise", "hf"), ("channelwise", "compressed-tensors"), ("mxfp8", "hf")]
DENSE_PAIRS = [*PAIRS, ("blockwise", "compressed-tensors")]     # README.md says what transformers cannot load
LLAMA4_PAIRS = [("channelwise", "compressed-tensors")]

# transformers knows these experts only as they are in BF16, and partial blocks not at all.
EXPERTS_KEPT = ("--exclude", r"\.experts\.|block_sparse_moe\.(in|out)put_linear")
OPTIONS = {"gpt_oss": EXPERTS_KEPT, "granitemoe": EXPERTS_KEPT, "granitemoehybrid": EXPERTS_KEPT, "hy_v4": EXPERTS_KEPT, "lara_mini": EXPERTS_KEPT,
           "inkling2_text": EXPERTS_KEPT, "inkling2_loop_text": EXPERTS_KEPT,
           "nemotron_h": ("--target", "transformers")}
IDS = torch.arange(3, 60)[None] * 5 % 311


# What a recipe makes of a matrix, in torch: code * scale.

def cast(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).float()


def power_of_two(amax: torch.Tensor) -> torch.Tensor:
    """The smallest power of two S with 448 S >= amax; 1 for a block of zeros."""
    exponent = torch.ceil(torch.log2(amax.double() / 448))
    exponent = torch.where(448 * 2.0 ** (exponent - 1) >= amax.double(), exponent - 1, exponent)
    exponent = torch.where(448 * 2.0 ** exponent < amax.double(), exponent + 1, exponent)
    return torch.where(amax == 0, 1.0, 2.0 ** exponent).float()


def scales_of(w: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The power of two of its block, for each element."""
    rows, cols = w.shape
    tall, wide = -(-rows // height), -(-cols // width)
    padded = torch.zeros(tall * height, wide * width)
    padded[:rows, :cols] = w.abs()
    scales = power_of_two(padded.reshape(tall, height, wide, width).amax((1, 3)))
    return scales.repeat_interleave(height, 0)[:rows].repeat_interleave(width, 1)[:, :cols]


def by_hand(w: torch.Tensor, recipe: str) -> torch.Tensor:
    """w (rows, cols) -> the value of its codes."""
    x = w.float()
    if recipe == "channelwise":
        amax = x.abs().amax(1, keepdim=True)
        factor = torch.full_like(amax, 448).div(amax)   # torch divides a number by a tensor in two roundings
        return cast(x * factor) * torch.ones_like(amax).div(factor)
    scale = scales_of(x, 128, 128) if recipe == "blockwise" else scales_of(x, 1, 32)
    return cast(x / scale) * scale


def matrices(model_type: str, name: str, w: torch.Tensor) -> list[torch.Tensor]:
    """The matrices [out, in] of a weight, as views of it: one, or one of every expert."""
    if w.dim() == 2:
        return [w]
    found = []
    for expert in w:
        if model_type in ("llama4_text", "gpt_oss"):
            expert = expert.T
        if "gate_up" not in name and "input_linear" not in name:
            found.append(expert)
        elif model_type == "gpt_oss":
            found += [expert[::2], expert[1::2]]
        else:
            found += expert.chunk(2)
    return found


def header(folder: pathlib.Path) -> dict[str, tuple[str, list[int]]]:
    with safe_open(folder / "model.safetensors", "pt") as f:
        return {k: (f.get_slice(k).get_dtype(), f.get_slice(k).get_shape()) for k in f.keys()}


def quantized_by_hand(source: pathlib.Path, out: pathlib.Path, recipe: str, folder: pathlib.Path) -> int:
    """The source with every weight that is FP8 in the output replaced by the value of its codes."""
    made = header(out)
    tensors = load_file(source / "model.safetensors")
    model_type = re.search(r'"model_type": "(\w+)"', (source / "config.json").read_text(encoding="utf-8"))[1]
    n = 0
    for name, w in tensors.items():
        if name in made and not made[name][0].startswith("F8"):
            continue
        if name not in made and w.dim() != 3:
            continue                        # a bias of experts, which was only cut
        w = tensors[name] = w.float()       # powers of two leave a BF16 value, other scales do not
        for matrix in matrices(model_type, name, w):
            matrix.copy_(by_hand(matrix, recipe))
            n += 1
    folder.mkdir()
    (folder / "config.json").write_bytes((source / "config.json").read_bytes())
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return n


# What transformers makes of the files.

@torch.no_grad()
def logits(folder: pathlib.Path, form: str | None = None) -> tuple[torch.Tensor, dict]:
    """hf is dequantized to BF16, exactly; compressed-tensors rounds scales to the type of the model."""
    more = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if form == "compressed-tensors" else {}
    dtype = torch.bfloat16 if form == "hf" else torch.float32
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True, **more)
    fp8 = [name for name, p in model.named_parameters() if p.dtype == torch.float8_e4m3fn]
    info = {key: value for key, value in info.items() if value} | ({"still FP8": fp8[:3]} if fp8 else {})
    return model.float().eval()(IDS).logits[0].double(), info


def error(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def problems(source: pathlib.Path, wanted: torch.Tensor, recipe: str, options: tuple[str, ...]) -> Iterator[str]:
    form = options[1]
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", "--recipe", recipe, *options))
        done = run("verify", tmp / "out", "--source", source, "--quiet")
        if done.returncode or done.stderr:
            yield f"verify: exit {done.returncode}: {(done.stdout + done.stderr).decode().splitlines()[0]}"
        n = quantized_by_hand(source, tmp / "out", recipe, tmp / "hand")
        found, info = logits(tmp / "out", form)
        if info:
            yield f"loading: {info}"
        hand, _ = logits(tmp / "hand")
        same, lost, bound = error(found, hand), error(found, wanted), error(hand, wanted)
        print(f"   {recipe}/{form}: {n} matrices, error {lost:.4f}, by hand {bound:.4f}, between the two {same:.2e}")
        if not n or not 0 < bound < 0.6:
            yield f"{n} matrices quantized by hand, error {bound:.4f}"
        if same > 1e-4 or lost > bound * 1.001:
            yield f"error {lost:.4f}, by hand {bound:.4f}, between the two {same:.2e}"


def pairs(name: str, source: pathlib.Path) -> list[tuple[str, str]]:
    if name == "llama4_text":
        return LLAMA4_PAIRS
    has_experts = any(".experts." in tensor or len(shape) == 3 and "conv" not in tensor
                      for tensor, (_, shape) in header(source).items())
    return PAIRS if has_experts else DENSE_PAIRS


# The n-gram table, whose parts in the file are rows of one table.

TABLE = "model.layers.1.ple.ple_embedding.ngram_embedding"
TABLE_SIZES = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
         "vocab_size": 320, "max_position_embeddings": 256, "initializer_range": 0.1, "num_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 128, "shared_expert_intermediate_size": 128, "linear_num_value_heads": 2,
         "linear_num_key_heads": 2, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
         "layer_types": ["full_attention", "linear_attention"], "hc_lowrank": 128, "ple_layer_ids": [2], "ple_embed_dim": 256,
         "heads_per_ngram": 4, "ngram_vocab_size_base": 300, "split_ngram_parts": 4, "indexer_n_heads": 2,
         "indexer_kv_heads": 1, "indexer_head_dim": 64, "indexer_budget": 32, "indexer_compress_ratio": 4, "bos_token_id": 1, "eos_token_id": 2}


def table_save(folder: pathlib.Path) -> None:
    torch.manual_seed(8)
    model = AutoModelForCausalLM.from_config(Qwen4ExpTextConfig(**TABLE_SIZES), dtype=torch.bfloat16)
    table = model.get_submodule(TABLE).weight
    table.data *= torch.linspace(0.01, 3, len(table))[:, None]          # parts of other sizes than each other
    model.save_pretrained(folder)


def table_load(folder: pathlib.Path) -> tuple[torch.nn.Module, dict]:
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True)
    return model.eval(), {key: value for key, value in info.items() if value}


def table_whole(folder: pathlib.Path) -> torch.Tensor:
    """The table of the file, without transformers."""
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors |= load_file(file)
    parts = [tensors[f"{TABLE}.shard_{i}.weight"].float() for i in range(TABLE_SIZES["split_ngram_parts"])]
    return torch.cat(parts) * tensors.get(TABLE + ".weight_scale", torch.ones(1)).float()


@torch.no_grad()
def table_problems(source: pathlib.Path, recipe: str) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", "--recipe", recipe, "--format", "hf"))
        done = run("verify", tmp / "out", "--source", source)
        if done.returncode:
            yield f"verify: {(done.stdout + done.stderr).decode().splitlines()[0]}"
        model, info = table_load(tmp / "out")
        if info:
            yield f"loading: {info}"
        table = model.get_submodule(TABLE)
        if type(table) is not FP8Embedding or table.weight.dtype != torch.float8_e4m3fn:
            yield f"the table is {type(table).__name__} of {table.weight.dtype}"
            return
        rows = table(torch.arange(table.num_embeddings)).float()
        wanted, before = table_whole(tmp / "out"), table_whole(source)
        if not torch.equal(rows, wanted.to(torch.bfloat16).float()):
            yield "the table is not code * scale of the file"
        scale = table.weight_scale.float().item()
        step = torch.maximum(before.abs() / 16, torch.full_like(before, scale / 1024))      # half a step of E4M3
        if ((wanted - before).abs() > step).any() or 448 * scale < before.abs().max() or 224 * scale >= before.abs().max():
            yield f"scale {scale}: the table is not the nearest of the source by the least power of two"
        found, other = (m(IDS).logits.float() for m in (model, table_load(source)[0]))
        error = ((found - other).norm() / other.norm()).item()
        print(f"   {recipe}: scale {scale}, error of logits {error:.3f}")
        if not error < 0.6:
            yield f"error of logits {error:.3f}"


# The judges of tests/families read skip lists as the packages do.

WORDS = ("model", "layers", "0", "1", "10", "mlp", "gate", "gate_proj", "proj", "q_proj", "experts", "shared_experts",
         "lm_head", "head", "up", "fc1", "fc10", "visual")


def matcher_problems(n: int) -> Iterator[str]:
    rng = random.Random(n)
    found = {True: 0, False: 0}
    for _ in range(n):
        name, entry = (".".join(rng.choices(WORDS, k=rng.randint(1, 4))) for _ in range(2))
        if rng.random() < 0.5:
            entry = name[rng.randrange(len(name)):] if rng.random() < 0.5 else name[:rng.randrange(len(name)) + 1]
        skips = not should_convert_module(name, [entry])
        found[skips] += 1
        if engines.transformers(name, [entry]) != skips:
            yield f"should_convert_module of {name!r}, {entry!r}: {not skips}"
        for target in (entry, "re:" + entry):
            if engines.exact(name, [target]) != match_name(name, target):
                yield f"compressed-tensors: {name!r}, {target!r}: {match_name(name, target)}"
    if min(found.values()) < n // 10:
        yield f"too few of one kind: {found}"


def main() -> None:
    logger.remove()
    logging.disable_progress_bar()
    report("names in skip lists", matcher_problems(50000))
    with scratch() as folder:
        table_save(folder / "source")
        for recipe in ("blockwise", "mxfp8"):
            report(f"n-gram table, {recipe}", table_problems(folder / "source", recipe))
    for name in sys.argv[1:] or family_models.MODELS:
        with scratch() as folder:
            try:
                family_models.save(name, folder / "in")
                wanted, _ = logits(folder / "in")
            except Exception as failure:    # not ours: the family cannot be made
                skip(name, f"{type(failure).__name__}: {str(failure).splitlines()[0]}")
                continue
            for recipe, form in pairs(name, folder / "in"):
                report(f"{name}: {recipe}/{form}", problems(
                    folder / "in", wanted, recipe, ("--format", form, *OPTIONS.get(name, ()))))
    finish()


if __name__ == "__main__":
    main()
