# SPDX-License-Identifier: Apache-2.0
"""Every byte of every output: codes and scales against numpy and ml_dtypes, kept tensors against the
source, the container against the safetensors package, index and configuration against the formats."""
import json
import pathlib
import re
from collections.abc import Iterator
from itertools import product

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

import checks
from cases import DEFAULT_FORMAT, FORMATS, LOADS, RECIPES, TARGETS, Case, for_small, for_smollm2, loads_in, plain
from checkpoint import read_checkpoint
from expected import Codes, Model
from harness import SMALL, finish, quantize, real_model, report, run, sample, scratch, silence


def problems(model: Model, case: Case, arguments: list[str] | None = None) -> Iterator[str]:
    with scratch() as tmp:
        done = quantize(model.folder, tmp / "out", *(arguments or case.arguments()))
        yield from silence(done)
        if done.returncode == 0:
            yield from checks.everything(tmp / "out", model.folder, case, model.expect(case))


def type_of(folder: pathlib.Path) -> str:
    """The model type of the text part."""
    config = json.loads((folder / "config.json").read_text())
    return config.get("text_config", config)["model_type"]


def small_models() -> None:
    for name in SMALL:
        if folder := sample(name):
            model = Model(folder, Codes())
            for case in for_small(model.has_experts, type_of(folder)):
                report(f"bytes {name}: {case}", problems(model, case))


def real_models() -> None:
    """The same matrices in one file and in three, so codes are computed once."""
    codes = Codes()
    one, three = Model(real_model(1), codes), Model(real_model(3), codes)
    for case in for_smollm2():
        report(f"bytes smollm2: {case}", problems(one, case))
        if not case.options:
            report(f"bytes smollm2 in 3 files: {case}", problems(three, case))


def defaults(folder: pathlib.Path) -> None:
    """Recipe and format that nobody named."""
    model = Model(folder, Codes())
    report("default recipe and format", problems(model, plain("blockwise", "hf"), ["--quiet"]))
    for recipe, format in DEFAULT_FORMAT.items():
        report(f"default format of {recipe}", problems(model, plain(recipe, format), ["--recipe", recipe]))


def refused(folder: pathlib.Path, has_experts: bool) -> Iterator[str]:
    """What loads nowhere, or not in the target, is refused with one line; the rest is not."""
    for recipe, format, target in product((*RECIPES, "delayed"), FORMATS, (None, *TARGETS)):
        loads = loads_in(recipe, format, target, has_experts, type_of(folder)) if target else (recipe, format) in LOADS
        arguments = ["--recipe", recipe, "--format", format, *(["--target", target] if target else [])]
        done = run("quantize", folder, "--dry-run", *arguments)
        error = done.stderr.decode()
        if loads and done.returncode:
            yield f"{' '.join(arguments)} is refused: {error.strip()}"
        elif not loads and (done.returncode != 2 or done.stdout or not re.fullmatch(r"fp8conv[^\n]*\n", error)):
            yield f"{' '.join(arguments)}: exit status {done.returncode}, stderr {error.strip()!r}"


def preserved(folder: pathlib.Path) -> Iterator[str]:
    """--preserve-high-precision: exactly the sources of what was quantized."""
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "out", "--preserve-high-precision", str(tmp / "kept")))
        out = {name: tensor.dtype for _, name, tensor in read_checkpoint(tmp / "out")}
        source = {name: tensor for _, name, tensor in read_checkpoint(folder) if out.get(name) != tensor.dtype}
        found = {name: tensor for _, name, tensor in read_checkpoint(tmp / "kept")}
        if found.keys() != source.keys():
            yield f"preserved {sorted(found.keys() ^ source.keys())[:4]}"
        for name in found.keys() & source.keys():
            if problem := checks.difference(name, found[name], source[name]):
                yield problem
        yield from checks.container(tmp / "kept")


def nonfinite_model(folder: pathlib.Path) -> None:
    """One matrix with an inf and a NaN of either sign, one without."""
    random = np.random.RandomState(1)
    tensors = {f"model.layers.0.mlp.{name}_proj.weight": random.standard_normal((256, 256)).astype(ml_dtypes.bfloat16)
               for name in ("up", "down")}
    bits = tensors["model.layers.0.mlp.up_proj.weight"].view(np.uint16)
    bits[3, 200], bits[130, 7], bits[250, 250] = 0xFF80, 0xFFC1, 0x7FC0
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")


def nonfinite(recipe: str, format: str) -> Iterator[str]:
    with scratch() as tmp:
        nonfinite_model(tmp / "in")
        model = Model(tmp / "in", Codes())
        arguments = ["--recipe", recipe, "--format", format]
        done = quantize(tmp / "in", tmp / "refused", *arguments)
        if done.returncode != 3 or b"up_proj" not in done.stderr:
            yield f"not refused: exit status {done.returncode}, {done.stderr!r}"
        yield from problems(model, plain(recipe, format), [*arguments, "--on-nonfinite", "saturate"])
        skipping = plain(recipe, format, exclude="up_proj")
        yield from problems(model, skipping, [*arguments, "--on-nonfinite", "skip"])


def requantized(first: list[str], second: Case) -> Iterator[str]:
    """A source of FP8 is read through its scales, in fp32: the same as from what they say.  Of its own recipe it stays."""
    with scratch() as tmp:
        (tmp / "in").mkdir()
        x = np.random.RandomState(2).standard_normal((128, 16384)).astype(np.float32)
        x *= np.exp2(np.arange(16384) // 128 % 40 - 20).astype(np.float32)
        save_file({"model.layers.0.mlp.down_proj.weight": x}, tmp / "in/model.safetensors", {"format": "pt"})
        (tmp / "in/config.json").write_text("{}", encoding="utf-8")
        yield from silence(quantize(tmp / "in", tmp / "fp8", *first))
        yield from silence(quantize(tmp / "fp8", tmp / "again", *second.arguments(), "--requantize"))
        if first == ["--recipe", second.recipe]:
            yield from changed(tmp / "fp8", tmp / "again")
            return
        dequantized(tmp / "fp8", tmp / "plain")
        yield from checks.tensors(tmp / "again", Model(tmp / "plain", Codes()).expect(second))


def changed(before: pathlib.Path, after: pathlib.Path) -> Iterator[str]:
    """Tensors that are not the same, byte for byte."""
    folders = [{name: (tensor.array().dtype, tensor.array().tobytes()) for _, name, tensor in read_checkpoint(folder)}
               for folder in (before, after)]
    for name in folders[0].keys() | folders[1].keys():
        if folders[0].get(name) != folders[1].get(name):
            yield f"{name} differs"


def dequantized(fp8: pathlib.Path, out: pathlib.Path) -> None:
    """The one matrix of that file as fp32."""
    from reference import dequantize, e8m0_to_f32, from_bits, spread

    tensors = {name: tensor.array() for _, name, tensor in read_checkpoint(fp8)}
    name = next(name for name in tensors if name.endswith(".weight"))
    codes = tensors.pop(name)
    scale = next(iter(tensors.values()))
    scale = e8m0_to_f32(scale) if scale.dtype == np.uint8 else scale
    scale = scale.reshape(1, 1) if scale.size == 1 else scale
    tile = (codes.shape[0] // scale.shape[0], codes.shape[1] // scale.shape[1])
    out.mkdir()
    values = from_bits(dequantize(codes, spread(scale, tile, codes.shape), "e4m3", "f32"))
    save_file({name: values}, out / "model.safetensors", {"format": "pt"})


def main() -> None:
    small_models()
    for name in ("tiny-llama", "tiny-moe/per-expert"):
        if folder := sample(name):
            report(f"refused pairs of {name}", refused(folder, "moe" in name))
    for name in ("tiny-moe/per-expert", "tiny-moe/fused-transposed"):
        if folder := sample(name):
            report(f"preserved {name}", preserved(folder))
    if folder := sample("tiny-moe/per-expert"):
        defaults(folder)
    for recipe, format in DEFAULT_FORMAT.items():
        report(f"NaN and inf: {recipe}", nonfinite(recipe, format))
        for again in DEFAULT_FORMAT:
            report(f"requantize {recipe} to {again}",
                   requantized(["--recipe", recipe], plain(again, DEFAULT_FORMAT[again])))
    real_models()
    finish()


if __name__ == "__main__":
    main()
