# SPDX-License-Identifier: Apache-2.0
"""Which matrices of the sample models are quantized: the rules for users, told again for names that
these models have.  Roles by name, --tensor, --exclude, shapes, and what engines fuse."""
import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from cases import Case, plain
from checkpoint import Tensor

FLOATS = ("F32", "F16", "BF16")
LOOKUP = re.compile(r"embed_tokens|norm")
KEPT = re.compile(r"(^|\.)lm_head\.|\.mlp\.gate\.|\.router\.|^vision_model\.|^multi_modal_projector\.")
FUSED = (r"\.self_attn\.(q_proj|k_proj|v_proj)\.weight$", r"\.(gate_proj|up_proj)\.weight$")
FREE = re.compile(r"^(embed_.*|.*embed|.*embeddings?|.*embedders?|wte|wpe)$|norm|conv")
EXPERTS_TENSOR = re.compile(r"(.*\.experts\.)(gate_up_proj|down_proj)$")


@dataclass
class Matrix:
    """A weight of the output, if it is quantized; `tensor` is the source it lies in."""
    name: str
    file: str
    tensor: Tensor
    values: np.ndarray                      # (out, in), in the source's type
    group: str                              # engines merge matrices of the same group
    recipe: str | None = None

    @property
    def bond(self) -> str:
        """Quantized together or not at all: a group, or the experts of a layer."""
        return re.sub(r"\.experts\..*", ".experts", self.group)


def group_of(name: str) -> str:
    for pattern in FUSED:
        if found := re.search(pattern, name):
            return name[:found.start()] + pattern
    return name


def is_linear(name: str, tensor: Tensor) -> bool:
    return (name.endswith(".weight") and len(tensor.shape) == 2 and tensor.dtype in FLOATS
            and not LOOKUP.search(name))


def split_experts(file: str, name: str, tensor: Tensor) -> list[Matrix]:
    """[E, 2I, H] and [E, H, I]; where gate_up is [E, H, 2I] (Llama 4), both are transposed."""
    prefix, which = EXPERTS_TENSOR.match(name).groups()
    array = tensor.array()
    if ".feed_forward." in name:
        array = array.swapaxes(1, 2)
    half = array.shape[1] // 2
    parts = {"down_proj": array} if which == "down_proj" else {"gate_proj": array[:, :half], "up_proj": array[:, half:]}
    return [Matrix(at, file, tensor, values[e], group_of(at))
            for part, values in parts.items() for e in range(len(array))
            for at in [f"{prefix}{e}.{part}.weight"]]


def recipe_of(name: str, case: Case) -> str | None:
    for pattern, recipe in reversed(case.rules):
        if re.search(pattern, name):
            return None if recipe == "skip" else recipe
    if KEPT.search(name) or (case.exclude and re.search(case.exclude, name)):
        return None
    return case.recipe


def fits(matrix: Matrix, case: Case) -> bool:
    """Whole tiles in both dimensions; a ragged edge only by --ragged, in blocks of formats other than ModelOpt's."""
    rows, cols = matrix.values.shape
    height, width = plain(matrix.recipe, case.format).spec.tile
    if 0 in (rows, cols):
        return False
    if case.format == "modelopt" and height > 1 and rows % height:
        return False
    if case.ragged and matrix.recipe == "blockwise":
        return True
    if width and cols % width:
        return False
    return not (height > 1 and rows % height)


def select(tensors: list[tuple[str, str, Tensor]], case: Case) -> tuple[list[Matrix], list[tuple[str, str, Tensor]]]:
    """What is quantized, and what is kept."""
    by_bond: dict[str, list[Matrix]] = defaultdict(list)
    source_of: dict[str, tuple[str, str, Tensor]] = {}
    for file, name, tensor in tensors:
        if EXPERTS_TENSOR.match(name):
            found = split_experts(file, name, tensor)
        elif is_linear(name, tensor):
            found = [Matrix(name, file, tensor, tensor.array(), group_of(name))]
        else:
            continue
        for matrix in found:
            matrix.recipe = recipe_of(name, case)
            by_bond[matrix.bond].append(matrix)
            source_of[matrix.name] = (file, name, tensor)
    quantized: dict[str, Matrix] = {}
    for bond in by_bond.values():
        if all(m.recipe and fits(m, case) for m in bond):
            quantized |= {m.name: m for m in bond}
    gone = {source_of[name][1] for name in quantized}
    return list(quantized.values()), [t for t in tensors if t[1] not in gone]


def needs_no_name(name: str, tensor: Tensor) -> bool:
    """Vectors, kernels, integers, and what engines know as an embedding, a norm or a convolution."""
    shape, module = tensor.shape, name.removesuffix(".weight").rpartition(".")[2]
    return (len(shape) < 2 or len(shape) > 3 or tensor.dtype not in FLOATS or bool(FREE.search(module))
            or (not name.endswith(".weight") and sum(n > 1 for n in shape) < 2))


def kept_modules(kept: list[tuple[str, str, Tensor]], quantized: list[Matrix], case: Case) -> list[str]:
    """What ignore lists name: whatever an engine could take for FP8, experts by what engines ask for, and the lm_head
    that a tied model hides."""
    names = set()
    for _, name, tensor in kept:
        if needs_no_name(name, tensor):
            continue
        experts = re.match(r"(.*\.experts)\.(\d+\.)?", name)
        if experts and case.format == "compressed-tensors":
            names |= {f"{experts[1]}.0.{word}_proj" for word in ("gate", "up", "down")}
        elif experts:
            names.add(experts[1])
        if not experts or not experts[2] or case.format == "compressed-tensors":
            names.add(name.removesuffix(".weight"))
    everywhere = names | {m.name.removesuffix(".weight") for m in quantized}
    if not any(re.search(r"(^|\.)lm_head$", name) for name in everywhere):
        names.add("lm_head")
    return sorted(names, key=str.encode)
