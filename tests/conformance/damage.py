# SPDX-License-Identifier: Apache-2.0
"""Changing a checkpoint on purpose, and what verify says of it."""
import json
import pathlib
from collections.abc import Callable

import torch
from safetensors.torch import load_file, save_file

from checkpoint import INDEX
from harness import run

Damage = Callable[[pathlib.Path], None]


def verify(out: pathlib.Path, *args: str | pathlib.Path) -> tuple[int, dict]:
    done = run("verify", out, "--json", "--progress", "none", *args)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"problems": [], "stderr": done.stderr.decode()}


def kinds(found: dict) -> set[str]:
    return {problem["kind"] for problem in found["problems"]}


def shards(out: pathlib.Path) -> list[pathlib.Path]:
    return sorted(out.glob("*.safetensors"))


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """Changes the tensors of every file, and the index with them."""
    def damage(out: pathlib.Path) -> None:
        places, total = {}, 0
        for path in shards(out):
            content = load_file(path)
            change(content)
            save_file(content, path, metadata={"format": "pt"})
            places |= {name: path.name for name in content}
            total += sum(tensor.nbytes for tensor in content.values())
        if (out / INDEX).exists():
            index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
            (out / INDEX).write_text(json.dumps(index))
    return damage


def one(name: str, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Damage:
    """Changes one tensor, or takes it away."""
    def apply(content: dict[str, torch.Tensor]) -> None:
        if name in content:
            changed = change(content.pop(name))
            if changed is not None:
                content[name] = changed.contiguous()
    return tensors(apply)


def extra(beside: str, name: str, tensor: torch.Tensor) -> Damage:
    return tensors(lambda content: content.update({name: tensor}) if beside in content else None)


def text(file: str, change: Callable[[dict], object]) -> Damage:
    def damage(out: pathlib.Path) -> None:
        content = json.loads((out / file).read_text())
        change(content)
        (out / file).write_text(json.dumps(content))
    return damage


def config(change: Callable[[dict], object]) -> Damage:
    return text("config.json", lambda content: change(content["quantization_config"]))


def both(*damages: Damage) -> Damage:
    def damage(out: pathlib.Path) -> None:
        for each in damages:
            each(out)
    return damage


def with_value(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor.reshape(-1)[0] = value
        return tensor
    return change


def with_code(value: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor.view(torch.uint8).reshape(-1)[7] = value
        return tensor
    return change
