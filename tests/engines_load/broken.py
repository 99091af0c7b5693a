# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of checkpoints that fp8conv wrote, and some that differ and are sound: what engines and verify make of them."""
import json
import pathlib
import shutil
from collections.abc import Callable

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]
Change = Callable[[Tensors, dict], object]
Base = tuple[str, str, str, bool]           # model, recipe, format, --kv-cache

LAYER = "model.layers.0."
DOWN, ATTENTION, EXPERTS = LAYER + "mlp.down_proj", LAYER + "self_attn.", LAYER + "mlp.experts."


def drop(*names: str) -> Change:
    return lambda tensors, _: [tensors.pop(name) for name in names]


def drop_all(ending: str) -> Change:
    return lambda tensors, _: [tensors.pop(name) for name in list(tensors) if name.endswith(ending)]


def change(name: str, how: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda tensors, _: tensors.update({name: how(tensors[name])})


def settings(**members: object) -> Change:
    """Of quantization_config; None takes a member out."""
    def apply(_: Tensors, quantization: dict) -> None:
        for key, value in members.items():
            quantization.pop(key, None) if value is None else quantization.update({key: value})
    return apply


def of_group(part: str | None, **members: object) -> Change:
    def apply(_: Tensors, quantization: dict) -> None:
        group = next(iter(quantization["config_groups"].values()))
        (group[part] if part else group).update(members)
    return apply


def skip(module: str, where: str = "modules_to_not_convert") -> Change:
    return lambda _, quantization: quantization[where].append(module)


def in_bf16(*modules: str) -> Change:
    def apply(tensors: Tensors, _: dict) -> None:
        for module in modules:
            tensors[module + ".weight"] = tensors[module + ".weight"].to(torch.bfloat16)
            del tensors[module + ".weight_scale_inv"]
    return apply


def halved(module: str) -> Change:
    """The same values but for codes that underflow, by another scale."""
    def apply(tensors: Tensors, _: dict) -> None:
        tensors[module + ".weight"] = (tensors[module + ".weight"].float() / 2).to(torch.float8_e4m3fn)
        tensors[module + ".weight_scale"] = tensors[module + ".weight_scale"] * 2
    return apply


def both(*changes: Change) -> Change:
    return lambda tensors, quantization: [apply(tensors, quantization) for apply in changes]


BLOCKS: Base = ("qwen3", "blockwise", "hf", False)
ROWS: Base = ("qwen3", "channelwise", "compressed-tensors", False)
STATIC: Base = ("qwen3", "delayed", "compressed-tensors", False)
MODELOPT: Base = ("qwen3", "delayed", "modelopt", False)
MOE_BLOCKS: Base = ("qwen3_moe", "blockwise", "hf", False)
MOE_STATIC: Base = ("qwen3_moe", "delayed", "compressed-tensors", False)

BROKEN: dict[str, tuple[Base, Change]] = {
    "a scale is missing": (BLOCKS, drop(ATTENTION + "o_proj.weight_scale_inv")),
    "a scale of an expert is missing": (MOE_BLOCKS, drop(EXPERTS + "3.up_proj.weight_scale_inv")),
    "a weight is missing": (BLOCKS, drop(ATTENTION + "o_proj.weight", ATTENTION + "o_proj.weight_scale_inv")),
    "a layer is missing": (ROWS, lambda tensors, _: [tensors.pop(n) for n in list(tensors) if ".layers.1." in n]),
    "an expert is missing": (MOE_BLOCKS, lambda tensors, _: [tensors.pop(n) for n in list(tensors) if ".experts.3." in n]),
    "the last norm is missing": (BLOCKS, drop("model.norm.weight")),
    "a grid of scales is transposed": (BLOCKS, change(DOWN + ".weight_scale_inv", lambda s: s.t())),
    "scales of rows in one dimension": (ROWS, change(DOWN + ".weight_scale", lambda s: s.flatten())),
    "a weight in FP8 is to be skipped": (BLOCKS, skip(DOWN)),
    "a weight in BF16 is not to be skipped": (BLOCKS, in_bf16(DOWN)),
    "an expert in BF16": (MOE_BLOCKS, in_bf16(*(f"{EXPERTS}2.{p}_proj" for p in ("gate", "up", "down")))),
    "k alone in BF16, and skipped": (BLOCKS, both(in_bf16(ATTENTION + "k_proj"), skip(ATTENTION + "k_proj"))),
    "an input scale is missing": (MODELOPT, drop(DOWN + ".input_scale")),
    "an input scale is NaN": (STATIC, change(DOWN + ".input_scale", lambda s: s * float("nan"))),
    "gate and up of an expert differ in input scales": (MOE_STATIC, change(EXPERTS + "1.up_proj.input_scale", lambda s: s * 1.5)),
    "E8M0 as a type of its own": (("qwen3", "mxfp8", "compressed-tensors", False), change(
        DOWN + ".weight_scale", lambda s: s.view(torch.float8_e8m0fnu))),
    "a scale of the head alone": (BLOCKS, lambda tensors, _: tensors.update({"lm_head.weight_scale_inv": torch.ones(4, 2)})),
    "a scale of outputs": (BLOCKS, lambda tensors, _: tensors.update({DOWN + ".output_scale": torch.ones(1)})),
    "the amax of a quantizer": (ROWS, lambda tensors, _: tensors.update({DOWN + ".weight_quantizer._amax": torch.ones(1)})),
    "no activation_scheme": (BLOCKS, settings(activation_scheme=None)),
    "an unknown member of weights": (ROWS, of_group("weights", zeta=1)),
    "keys of the cache have scales, values have none": (("qwen3", "delayed", "compressed-tensors", True), drop_all("v_scale")),
    "blocks of 64": (BLOCKS, settings(weight_block_size=[64, 64])),
    "the format is pack-quantized": (ROWS, both(settings(format="pack-quantized"), of_group(None, format="pack-quantized"))),
    "scales upside down": (BLOCKS, change(DOWN + ".weight_scale_inv", torch.reciprocal)),
    "sound: scales in BF16": (BLOCKS, lambda tensors, _: tensors.update(
        {n: s.to(torch.bfloat16) for n, s in tensors.items() if n.endswith("scale_inv")})),
    "sound: scales without dimensions": (("qwen3", "current", "hf", False), lambda tensors, _: tensors.update(
        {n: s.reshape(()) for n, s in tensors.items() if n.endswith("weight_scale")})),
    "sound: a pattern in ignore": (ROWS, settings(ignore=["re:.*lm_head"])),
    "sound: k has another scale": (STATIC, halved(ATTENTION + "k_proj")),
    "sound: an input scale of k of its own": (STATIC, change(ATTENTION + "k_proj.input_scale", lambda s: s * 2)),
}


def damage(name: str, base: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the variant of base, without its manifest."""
    shutil.copytree(base, folder, ignore=shutil.ignore_patterns("fp8conv-manifest.json"))
    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    BROKEN[name][1](tensors, config["quantization_config"])
    save_file({key: t.contiguous() for key, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
