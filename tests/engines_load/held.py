# SPDX-License-Identifier: Apache-2.0
"""What a model of an engine holds after its loader: the value of every parameter, codes times the scales beside them."""
import pathlib
import re
from dataclasses import dataclass, field

import torch
from safetensors import safe_open

CODES = (torch.float8_e4m3fn, torch.float8_e5m2)
EXPONENTS = (torch.uint8, torch.float8_e8m0fnu)
BLOCK = 128
MX = 32


class NoSuchLayout(Exception):
    """Scales that stand for no tiling of their weight."""


@dataclass
class Held:
    """values: BF16 by parameter; fp8: those that are codes; odd: what no value can be given for, and why.
    caches: the factors of keys and values by layer, as each of its attention modules uses them; None: not looked at.
    model: the class of the engine."""
    values: dict[str, torch.Tensor] = field(default_factory=dict)
    fp8: set[str] = field(default_factory=set)
    odd: dict[str, str] = field(default_factory=dict)
    caches: dict[int, list[tuple[float, float]]] | None = None
    model: str = ""

    def see_caches(self, model: torch.nn.Module, k: str, v: str) -> None:
        """k, v: what the engine's attention modules call the factors."""
        self.caches = {}
        for name, module in model.named_modules():
            if getattr(module, k, None) is not None:
                layer = int(re.search(r"layers\.(\d+)", name)[1])
                self.caches.setdefault(layer, []).append((getattr(module, k), getattr(module, v)))


def tile(n: int, n_scales: int, sizes: tuple[int, ...]) -> int:
    """How many of n neighbours share one of n_scales scales."""
    for size in (n, 1, *sizes):
        if -(-n // size) == n_scales:
            return size
    raise NoSuchLayout(f"{n_scales} scales for {n} elements")


def rows_of_parts(scale: torch.Tensor, widths: list[int]) -> torch.Tensor:
    """One row of scales a row of a merged weight, each part of which has blocks of its own."""
    heights = [-(-w // BLOCK) for w in widths]
    if sum(heights) != scale.shape[-2]:
        raise NoSuchLayout(f"parts of {widths} rows share {scale.shape[-2]} rows of scales")
    return torch.cat([part.repeat_interleave(BLOCK, -2)[:w] for part, w in zip(scale.split(heights, -2), widths)])


def spread(scale: torch.Tensor, shape: torch.Size, widths: list[int]) -> torch.Tensor:
    """scale for codes of this shape, [rows, cols] or [experts, rows, cols], broadcastable to it."""
    is_exponent = scale.dtype in EXPONENTS
    s = torch.exp2(scale.view(torch.uint8).float() - 127) if is_exponent else scale.float()
    *experts, rows, cols = shape
    if s.numel() == 1:
        return s.reshape([1] * len(shape))
    if s.ndim == 4 and not experts:         # ModelOpt's [rows, 1, cols, 1]
        s = s[:, 0, :, 0]
    if not experts and s.ndim == 1 and s.numel() == len(widths):
        return s.repeat_interleave(torch.tensor(widths))[:, None]
    if experts and s.ndim == 2 and s.shape[1] == 2:         # gate's and up's
        s = s.repeat_interleave(rows // 2, 1)
    while s.ndim < len(shape):
        s = s[..., None]
    if list(s.shape[:-2]) != experts:
        raise NoSuchLayout(f"scales {list(scale.shape)} for codes {list(shape)}")
    tall = tile(rows, s.shape[-2], (BLOCK,))
    wide = tile(cols, s.shape[-1], (MX, BLOCK) if is_exponent else (BLOCK,))
    if tall == BLOCK and any(w % BLOCK for w in widths[:-1]):
        s = rows_of_parts(s, widths)
    else:
        s = s.repeat_interleave(tall, -2)[..., :rows, :]
    return s.repeat_interleave(wide, -1)[..., :cols]


def poison(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """NaN in every weight, so that what the loader leaves out shows; and the scales of inputs as the engine made them."""
    for name, parameter in model.named_parameters():
        if "scale" not in name.rpartition(".")[2] and parameter.data.is_contiguous() and parameter.is_floating_point():
            parameter.data.view(torch.uint8).fill_(255)
    return {name: p.data.clone() for name, p in model.named_parameters() if name.endswith("input_scale")}


def hold(model: torch.nn.Module, before: dict[str, torch.Tensor]) -> Held:
    """Of a parameter W, vLLM and SGLang have the scales in W_scale_inv or W_scale.  before: what poison gave."""
    found = Held(model=type(model).__name__)
    for name, made in before.items():
        scale = model.get_parameter(name).data
        if not scale.isfinite().all() or (scale == made).any():
            found.odd[name] = "not loaded, or not finite"
    for prefix, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        for name, parameter in own.items():
            key = f"{prefix}.{name}".lstrip(".")
            if "scale" in name or "zero_point" in name:
                continue
            if parameter.dtype not in CODES:
                found.values[key] = parameter.data.to(torch.bfloat16, copy=True)
                continue
            found.fp8.add(key)
            scale = own.get(name + "_scale_inv", own.get(name + "_scale"))
            try:
                if scale is None:
                    raise NoSuchLayout("codes without a scale")
                factor = spread(scale.data, parameter.shape, list(getattr(module, "logical_widths", None) or ()))
                found.values[key] = (parameter.data.float() * factor).to(torch.bfloat16)
            except NoSuchLayout as reason:
                found.odd[key] = str(reason)
    return found


def caches_on_disk(folder: pathlib.Path) -> dict[int, tuple[float, float]]:
    """The factors of keys and values that the files have, by layer."""
    found: dict[int, dict[str, float]] = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as f:
            for key in f.keys():
                if match := re.search(r"layers\.(\d+)\..*\b([kv])_(?:proj\.)?(?:k_|v_)?scale$", key):
                    found.setdefault(int(match[1]), {})[match[2]] = float(f.get_tensor(key).float().max())
    return {layer: (kv.get("k", 1.0), kv.get("v", 1.0)) for layer, kv in found.items()}
