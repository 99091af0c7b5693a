# SPDX-License-Identifier: Apache-2.0
"""calibrate --fp8-forward against transformers whose linear layers are told to see FP8: inputs and weights go through numpy
and ml_dtypes (tests/golden/reference.py) on their way into torch's products."""
import functools
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers.utils import logging

import reference as ref
import tiny_models
from harness import FP8CONV, finish, report, run, scratch
from reference import WHOLE, Spec

FORWARD = pathlib.Path(FP8CONV).parent / "tests/conformance/forward"
N_SEQUENCES, SEQ_LEN = 6, 16

# Of w and of x, and what calibrate and forward are told.
RECIPES = {
    "blockwise": (Spec("", (128, 128)), Spec("", (1, 128)), ["blockwise"]),
    "blockwise, fp32 scales": (Spec("", (128, 128), kind="float"), Spec("", (1, 128), kind="float"), ["blockwise", "float"]),
    "current": (Spec("", (WHOLE, WHOLE), kind="float"), Spec("", (WHOLE, WHOLE), kind="float"), ["current"]),
    "channelwise": (Spec("", (1, WHOLE), kind="float"), Spec("", (1, WHOLE), kind="float"), ["channelwise"]),
    "mxfp8": (Spec("", (1, 32), kind="e8m0-up"), Spec("", (1, 32), kind="e8m0-up"), ["mxfp8"]),
    "delayed": (Spec("", (WHOLE, WHOLE), kind="float"), None, ["delayed"]),
}
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


def near(errors: list[float], what: str) -> Iterator[str]:
    """Where torch's last bit tips a value over the border between two codes, what follows differs by the width of a code.
    That is rare: three of four are the same but for fp32."""
    same = np.mean(np.array(errors) < 1e-4)
    if not same >= 0.75:
        yield f"{what}: {same:.0%} of {len(errors)} within 1e-4"


def logits_problems(folder: pathlib.Path, model: torch.nn.Module, plain: torch.nn.Module, row: np.ndarray,
                    told: list[str]) -> Iterator[str]:
    """Of the first pass, token by token; they are nowhere near those of high precision."""
    row.astype(np.uint32).tofile(folder / "ids")
    subprocess.run([FORWARD, folder, "f32", folder / "ids", folder / "logits", *told], check=True, capture_output=True)
    ids = torch.tensor(row[None], dtype=torch.long)
    wanted, high = model(ids).logits[0].double(), plain(ids).logits[0].double()
    found = torch.from_numpy(np.fromfile(folder / "logits", np.float32).reshape(wanted.shape)).double()
    yield from near(((found - wanted).norm(dim=1) / wanted.norm(dim=1)).tolist(), "logits")
    if ((found - high).norm() / high.norm()) < 0.02:
        yield "the logits are those of high precision"


def amax_problems(rows: list[dict], found: dict[str, np.ndarray]) -> Iterator[str]:
    errors = []
    for p, row in enumerate(rows):
        for name, (x, y) in row.items():
            site = name.replace(".mlp.", ".block_sparse_moe.") if ".experts." in name or name.endswith(".gate") else name
            history = found[f"{site}.amax_history"][p]
            errors += [abs(history[0] / x - 1), abs(history[2] / y - 1)]
    yield from near(errors, "amaxes")


def problems(name: str, recipe: str) -> Iterator[str]:
    w, x, told = RECIPES[recipe]
    options = ["--recipe", told[0], *(["--ragged"] if told[0] == "blockwise" else []), *[f"--scale-fmt={s}" for s in told[1:]]]
    with scratch() as folder, torch.no_grad():
        plain, model = tiny_models.save(name, folder), tiny_models.save(name, folder)
        seen = Told(model, w, x)
        ids = np.random.default_rng(11).integers(0, plain.config.vocab_size, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)
        np.save(folder / "ids.npy", ids)
        done = run("calibrate", folder, "--data", folder / "ids.npy", "--precision", "f32", "-o", folder / "s.amax", "--quiet",
                   "--seq-len", str(SEQ_LEN), "--fp8-forward", *options)
        if done.returncode:
            yield done.stderr.decode().strip()
            return
        for p, row in enumerate(ids):
            seen.rows.append({})
            if p == 0:
                yield from logits_problems(folder, model, plain, row, told)
            else:
                model(torch.tensor(row[None], dtype=torch.long))
        yield from amax_problems(seen.rows, load_file(folder / "s.amax"))


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in ("llama", "gemma2", "phi3", "mixtral"):
        for recipe in RECIPES:
            report(f"fp8 forward of {name}, {recipe}", problems(name, recipe))
    finish()


main()
