# SPDX-License-Identifier: Apache-2.0
"""transformers whose linear layers are told to see FP8: inputs and weights go through numpy and ml_dtypes
(tests/golden/reference.py) on their way into torch's products."""
import functools
from collections.abc import Callable

import numpy as np
import torch

import reference as ref
from reference import WHOLE, Spec

MERGED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}


def values(x: torch.Tensor, spec: Spec) -> torch.Tensor:
    """x as FP8 holds it."""
    flat = x.detach().reshape(-1, x.shape[-1]).numpy()
    codes, scale_inv = ref.quantize(flat, spec, "f32")
    grid = ref.e8m0_to_f32(scale_inv) if spec.kind.startswith("e8m0") else scale_inv
    back = ref.dequantize(codes, ref.spread(grid, spec.tile, flat.shape), spec.fp8, "f32").view(np.float32)
    return torch.from_numpy(back).reshape(x.shape)


class Delayed:
    """x times a scale that comes from the passes before: 1 in the first."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def __call__(self, name: str, x: torch.Tensor) -> torch.Tensor:
        scale = np.float32(448) / np.float32(self.seen[name]) if name in self.seen else np.float32(1)
        self.seen[name] = max(self.seen.get(name, 0), x.abs().max().item())
        codes = ref.cast(x.detach().numpy() * scale, "e4m3")
        return torch.from_numpy(ref.dequantize(codes, np.float32(1) / scale, "e4m3", "f32").view(np.float32))


class Told:
    """A model whose products take FP8, and the amax of what enters and leaves each."""

    def __init__(self, model: torch.nn.Module, w: Spec, x: Spec | None) -> None:
        self.model = model
        self.rows: list[dict[str, tuple[float, float]]] = []
        self.quantized: Callable[[str, torch.Tensor], torch.Tensor] = Delayed() if x is None else lambda _, t: values(t, x)
        linears = {name: module for name, module in model.named_modules()
                   if isinstance(module, torch.nn.Linear) and name != "lm_head"}
        groups: dict[str, list[torch.nn.Linear]] = {}
        for name, module in linears.items():
            parent, _, last = name.rpartition(".")
            groups.setdefault(f"{parent}.{MERGED.get(last, last)}", []).append(module)
            module.register_forward_pre_hook(lambda m, args, name=name: self.enter(name, args[0]))
            module.register_forward_hook(lambda m, args, y, name=name: self.leave(name, y))
        for modules in groups.values():
            stacks = [modules] if w.tile == (WHOLE, WHOLE) else [[m] for m in modules]
            for stack in stacks:
                back = values(torch.cat([m.weight for m in stack]), w)
                for module, part in zip(stack, back.split([len(m.weight) for m in stack])):
                    module.weight = torch.nn.Parameter(part)
        for name, module in model.named_modules():
            if type(module).__name__.endswith("Experts"):
                for projection in (module.gate_up_proj, module.down_proj):
                    for matrix in projection.data:
                        whole = w.tile == (WHOLE, WHOLE) or projection is module.down_proj
                        halves = [matrix] if whole else matrix.chunk(2)
                        matrix.copy_(torch.cat([values(half, w) for half in halves]))
                module.forward = functools.partial(self.experts, name, module)

    def enter(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.rows[-1][name] = (x.abs().max().item(), 0)
        return self.quantized(name, x)

    def leave(self, name: str, y: torch.Tensor) -> None:
        self.rows[-1][name] = (self.rows[-1][name][0], y.abs().max().item())

    def product(self, name: str, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.linear(self.enter(name, x), weight)
        self.leave(name, y)
        return y

    def experts(self, name: str, module: torch.nn.Module, x: torch.Tensor, chosen: torch.Tensor,
                weights: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        for e, (gate_up, down) in enumerate(zip(module.gate_up_proj, module.down_proj)):
            tokens, place = (chosen == e).nonzero(as_tuple=True)
            if len(tokens) == 0:
                continue
            order = tokens.argsort()
            tokens, place = tokens[order], place[order]
            gate, up = gate_up.chunk(2)
            at = f"{name}.{e}."
            inner = module.act_fn(self.product(at + "w1", x[tokens], gate)) * self.product(at + "w3", x[tokens], up)
            out.index_add_(0, tokens, self.product(at + "w2", inner, down) * weights[tokens, place, None])
        return out
