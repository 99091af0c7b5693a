# SPDX-License-Identifier: Apache-2.0
"""transformers whose linear layers are told to see FP8: inputs and weights go through numpy and ml_dtypes
(tests/golden/reference.py) on their way into torch's products."""
import functools
from collections.abc import Callable, Container

import numpy as np
import torch

import reference as ref
from reference import WHOLE, Spec

MERGED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up",
          "q_a_proj": "qkv_a", "kv_a_proj_with_mqa": "qkv_a"}


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


class Expert:
    """The matrices of one expert, and biases where the model has some: views of its parameters."""

    def __init__(self, module: torch.nn.Module, e: int) -> None:
        gate_up, down = module.gate_up_proj.data[e], module.down_proj.data[e]
        self.biases: list[torch.Tensor | None] = [None] * 3
        if hasattr(module, "gate_up_proj_bias"):              # GPT-OSS: transposed, gate and up side by side
            self.gate, self.up, self.down = gate_up.T[::2], gate_up.T[1::2], down.T
            both = module.gate_up_proj_bias.data[e]
            self.biases = [both[::2], both[1::2], module.down_proj_bias.data[e]]
        else:
            (self.gate, self.up), self.down = gate_up.chunk(2), down

    def activate(self, module: torch.nn.Module, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        if self.biases[0] is None:
            return module.act_fn(gate) * up
        return module._apply_gate(torch.stack((gate, up), -1).flatten(-2))


class Products:
    """A model whose matrix products see what enter() makes of their inputs: the products of the linear layers in names,
    and of every expert, called NAME.E.w1, w3 and w2 (gate, up and down)."""

    def __init__(self, model: torch.nn.Module, names: Container[str]) -> None:
        self.model = model
        for name, module in model.named_modules():
            if name in names:
                module.register_forward_pre_hook(lambda m, args, name=name: (self.enter(name, args[0]), *args[1:]))
                module.register_forward_hook(lambda m, args, y, name=name: self.leave(name, y))
            if type(module).__name__.endswith("Experts"):
                module.forward = functools.partial(self.experts, name, module)

    def enter(self, name: str, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def leave(self, name: str, y: torch.Tensor) -> None:
        pass

    def product(self, name: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        y = torch.nn.functional.linear(self.enter(name, x), weight, bias)
        self.leave(name, y)
        return y

    def experts(self, name: str, module: torch.nn.Module, x: torch.Tensor, chosen: torch.Tensor,
                weights: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        for e in range(len(module.down_proj)):
            tokens, place = (chosen == e).nonzero(as_tuple=True)
            if len(tokens) == 0:
                continue
            order = tokens.argsort()
            tokens, place = tokens[order], place[order]
            expert, at = Expert(module, e), f"{name}.{e}."
            gate = self.product(at + "w1", x[tokens], expert.gate, expert.biases[0])
            up = self.product(at + "w3", x[tokens], expert.up, expert.biases[1])
            down = self.product(at + "w2", expert.activate(module, gate, up), expert.down, expert.biases[2])
            out.index_add_(0, tokens, down * weights[tokens, place, None])
        return out


class Told(Products):
    """A model whose products take FP8, and the amax of what enters and leaves each; products of modules in kept do not."""

    def __init__(self, model: torch.nn.Module, w: Spec, x: Spec | None, kept: Container[str] = ()) -> None:
        self.kept = kept
        self.rows: list[dict[str, tuple[float, float]]] = []
        self.quantized: Callable[[str, torch.Tensor], torch.Tensor] = Delayed() if x is None else lambda _, t: values(t, x)
        linears = {name: module for name, module in model.named_modules()
                   if isinstance(module, torch.nn.Linear) and name != "lm_head" and name not in kept}
        super().__init__(model, linears)
        groups: dict[str, list[torch.nn.Linear]] = {}
        for name, module in linears.items():
            parent, _, last = name.rpartition(".")
            groups.setdefault(f"{parent}.{MERGED.get(last, last)}", []).append(module)
        for modules in groups.values():
            stacks = [modules] if w.tile == (WHOLE, WHOLE) else [[m] for m in modules]
            for stack in stacks:
                back = values(torch.cat([m.weight for m in stack]), w)
                for module, part in zip(stack, back.split([len(m.weight) for m in stack])):
                    module.weight = torch.nn.Parameter(part)
        for name, module in model.named_modules():
            if type(module).__name__.endswith("Experts"):
                for e in range(len(module.down_proj)):
                    self.quantize_expert(f"{name}.{e}.", Expert(module, e), w)

    def quantize_expert(self, at: str, expert: Expert, w: Spec) -> None:
        both = [expert.gate, expert.up]
        stacks = [[expert.down]] if at + "w2" not in self.kept else []
        if at + "w1" not in self.kept:
            stacks += [both] if w.tile == (WHOLE, WHOLE) else [[half] for half in both]
        for stack in stacks:
            back = values(torch.cat(stack), w)
            for matrix, part in zip(stack, back.split([len(m) for m in stack])):
                matrix.copy_(part)

    def enter(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.rows[-1][name] = (x.abs().max().item(), 0)
        return self.quantized(name, x)

    def leave(self, name: str, y: torch.Tensor) -> None:
        self.rows[-1][name] = (self.rows[-1][name][0], y.abs().max().item())

    def product(self, name: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        if name in self.kept:
            return torch.nn.functional.linear(x, weight, bias)
        return super().product(name, x, weight, bias)
