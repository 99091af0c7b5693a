# SPDX-License-Identifier: Apache-2.0
"""Experts of a layer in one tensor: the codes, scales and biases that fp8conv writes of GPT-OSS, Step, Inkling and both
Granites are those that the reference gives each matrix, as torch slices it."""
import json
import pathlib
from collections.abc import Iterator

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import reference as ref
from cases import RECIPES
from harness import finish, quantize, report, scratch, silence

E, H, I = 3, 384, 256


def noise(*shape: int) -> torch.Tensor:
    """No two tiles with one amax."""
    rows = torch.exp2(torch.randint(-6, 6, (*shape[:-1], 1)).float())
    return (torch.randn(shape) * rows * torch.linspace(0.1, 1, shape[-1])).to(torch.bfloat16)


def gpt_oss() -> tuple[dict, dict]:
    p = "model.layers.0.mlp.experts."
    return {p + "gate_up_proj": noise(E, H, 2 * I), p + "gate_up_proj_bias": noise(E, 2 * I),
            p + "down_proj": noise(E, I, H), p + "down_proj_bias": noise(E, H)}, {"model_type": "gpt_oss", "hidden_size": H}


def step() -> tuple[dict, dict]:
    p = "model.layers.3.moe."
    return {p + "gate_proj.weight": noise(E, I, H), p + "up_proj.weight": noise(E, I, H),
            p + "down_proj.weight": noise(E, H, I)}, {"model_type": "step3p5", "hidden_size": H}


def granite(model_type: str) -> tuple[dict, dict]:
    p = "model.layers.0.block_sparse_moe."
    return {p + "input_linear.weight": noise(E, 2 * I, H), p + "output_linear.weight": noise(E, H, I)}, \
        {"model_type": model_type, "hidden_size": H}


def inkling() -> tuple[dict, dict]:
    p = "model.llm.layers.0.mlp.experts."
    return {p + "w13_weight": noise(E, 2 * I, H), p + "w2_weight": noise(E, H, I)}, {"model_type": "inkling_mm_model"}


def split(source: dict, e: int) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """The matrices of an expert that is written alone, in groups that share the scale of a tensor."""
    for name, w in source.items():
        p = name.rpartition("gate_up_proj")[0]
        if name.endswith("gate_up_proj"):
            yield [(f"{p}{e}.gate_proj.weight", w[e, :, 0::2].T), (f"{p}{e}.up_proj.weight", w[e, :, 1::2].T)]
            yield [(f"{p}{e}.down_proj.weight", source[p + "down_proj"][e].T)]
        elif name.endswith("input_linear.weight"):
            p = name.removesuffix("input_linear.weight")
            yield [(f"{p}experts.{e}.w1.weight", w[e, :I]), (f"{p}experts.{e}.w3.weight", w[e, I:])]
            yield [(f"{p}experts.{e}.w2.weight", source[p + "output_linear.weight"][e])]


def stacked(source: dict, e: int) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """The same of experts that stay in one tensor."""
    for name, w in source.items():
        if name.endswith("gate_proj.weight"):
            up = name.replace("gate_proj", "up_proj")
            yield [(name, w[e]), (up, source[up][e])]
        elif not name.endswith("up_proj.weight"):
            yield [(name, w[e])]


def matrix_problems(out: dict, name: str, e: int | None, codes: np.ndarray, scale: np.ndarray) -> Iterator[str]:
    found = out.get(name)
    scales = out.get(name + "_scale_inv", out.get(name + "_scale"))
    if found is None or scales is None:
        yield f"{name} or its scale is missing"
        return
    if e is not None:
        found, scales = found[e], scales[e]
    if found.shape != codes.shape or (found.view(torch.uint8).numpy() != codes).any():
        yield f"{name} of expert {e} has other codes"
    if scales.numel() != scale.size or (scales.numpy().reshape(-1) != scale.reshape(-1)).any():
        yield f"the scale of {name} of expert {e} is {list(scales.shape)} or has other values"
    wanted = list(scale.shape) if scale.size > 1 else []
    if e is not None and list(scales.shape) != wanted:
        yield f"the scale of {name} has the shape {list(scales.shape)} of each expert, not {wanted}"


def bias_problems(out: dict, source: dict) -> Iterator[str]:
    p = "model.layers.0.mlp.experts."
    if p + "down_proj_bias" not in source:
        return
    both, down = source[p + "gate_up_proj_bias"], source[p + "down_proj_bias"]
    for e in range(E):
        for part, wanted in (("gate", both[e, 0::2]), ("up", both[e, 1::2]), ("down", down[e])):
            found = out.get(f"{p}{e}.{part}_proj.bias")
            if found is None or not torch.equal(found, wanted):
                yield f"the bias {part} of expert {e} is missing or another"


def problems(made: tuple[dict, dict], recipe: str, groups, alone: bool) -> Iterator[str]:
    source, config = made
    spec = RECIPES[recipe]
    with scratch() as folder:
        (folder / "in").mkdir()
        save_file({name: w.contiguous() for name, w in source.items()}, folder / "in" / "model.safetensors")
        (folder / "in" / "config.json").write_text(json.dumps(config))
        yield from silence(quantize(folder / "in", folder / "out", "--recipe", recipe))
        out = {}
        for file in pathlib.Path(folder / "out").glob("*.safetensors"):
            out |= load_file(file)
    for e in range(E):
        for group in groups(source, e):
            x = torch.cat([w for _, w in group]).float().numpy()
            codes, scale = ref.quantize(x, spec, "bf16")
            at, tiles = 0, 0
            for name, w in group:
                n = w.shape[0]
                down = n // spec.tile[0] if spec.tile[0] else 0          # 0: the tensor has one scale
                part = scale[tiles:tiles + down] if down else scale
                yield from matrix_problems(out, name, None if alone else e, codes[at:at + n], part)
                at, tiles = at + n, tiles + down
    yield from bias_problems(out, source)


def main() -> None:
    torch.manual_seed(1)
    for recipe in RECIPES:
        report(f"GPT-OSS, {recipe}", problems(gpt_oss(), recipe, split, True))
        report(f"Step, {recipe}", problems(step(), recipe, stacked, False))
        report(f"Granite 3 MoE, {recipe}", problems(granite("granitemoe"), recipe, split, True))
    for recipe in ("blockwise", "channelwise", "mxfp8"):
        report(f"Granite 4-H, {recipe}", problems(granite("granitemoehybrid"), recipe, stacked, False))
    report("Inkling, channelwise", problems(inkling(), "channelwise", stacked, False))
    finish()


if __name__ == "__main__":
    main()
