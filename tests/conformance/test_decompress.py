# SPDX-License-Identifier: Apache-2.0
"""compressed-tensors itself: its classes parse our configuration, its matcher gives every module the
scheme that its tensors have, and its decompressors give code * scale_inv."""
import json
import pathlib
from collections.abc import Iterator

import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, apply_quantization_config
from loguru import logger
from safetensors.torch import load_file

import reference as ref
from cases import Case, every_arithmetic, every_selection, plain, ragged
from checkpoint import read_file, shard_names
from expected import Codes, Expected, Model
from harness import SMALL, finish, quantize, real_model, report, sample, scratch, silence
from test_load import FP8, bits_of, scale_grid

STRATEGY = {"blockwise": "block", "channelwise": "channel", "current": "tensor", "mxfp8": "group"}


def cases() -> list[Case]:
    out = [plain(recipe, "compressed-tensors") for recipe in STRATEGY]
    out += [case for cases in (every_arithmetic(), every_selection(), ragged()) for case in cases
            if case.format == "compressed-tensors" and case.spec.fp8 == "e4m3"]
    return out


class Skeleton(torch.nn.Module):
    """A module for every path, without weights."""

    def add(self, path: str, shape: tuple[int, int]) -> None:
        at = self
        *parents, leaf = path.split(".")
        for name in parents:
            if name not in at._modules:
                at.add_module(name, torch.nn.Module())
            at = at._modules[name]
        at.add_module(leaf, torch.nn.Linear(shape[1], shape[0], bias=False, device="meta"))


def schemes(config: QuantizationConfig, expected: Expected) -> dict[str, QuantizationScheme]:
    """What apply_quantization_config() gives to a model that has our linear modules."""
    skeleton = Skeleton()
    for name in expected.recipes:
        skeleton.add(name.removesuffix(".weight"), expected.tensors[name].shape)
    for module in expected.kept:
        tensor = expected.tensors.get(f"{module}.weight")
        skeleton.add(module, tensor.shape if tensor and len(tensor.shape) == 2 else (1, 1))
    apply_quantization_config(skeleton, config)
    return {path: module.quantization_scheme for path, module in skeleton.named_modules()
            if getattr(module, "quantization_scheme", None) is not None}


def matched(config: QuantizationConfig, expected: Expected) -> Iterator[str]:
    found = {path: scheme.weights.strategy for path, scheme in schemes(config.model_copy(deep=True), expected).items()}
    wanted = {name.removesuffix(".weight"): STRATEGY[recipe] for name, recipe in expected.recipes.items()}
    for path in sorted(found.keys() | wanted.keys()):
        if found.get(path) != wanted.get(path):
            yield f"module {path}: {found.get(path)}, expected {wanted.get(path)}"


def decompressed(out: pathlib.Path, config: QuantizationConfig, expected: Expected) -> Iterator[str]:
    by_path = schemes(config.model_copy(deep=True), expected)
    for file in shard_names(out):
        tensors, raw = load_file(out / file), read_file(out / file)[1]
        for name in expected.recipes.keys() & tensors.keys():
            scheme = by_path[name.removesuffix(".weight")]
            compressor = BaseCompressor.get_value_from_registry(scheme.format or config.format)
            state = {"weight": tensors[name], "weight_scale": tensors[f"{name}_scale"]}
            found = compressor.decompress(state, scheme)["weight"]
            dtype = "bf16" if found.dtype == torch.bfloat16 else "f32"      # it computes MX in BF16
            grid = scale_grid(raw[f"{name}_scale"], raw[name])
            wanted = ref.dequantize(raw[name].array(), grid, FP8[raw[name].dtype], dtype)
            if not np.array_equal(bits_of(found), wanted):
                yield f"{name}: not code * scale_inv"


def problems(model: Model, case: Case) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(model.folder, tmp / "out", *case.arguments()))
        text = json.loads((tmp / "out/config.json").read_text(encoding="utf-8"))["quantization_config"]
        config = QuantizationConfig.model_validate(text)
        if strange := text.keys() - QuantizationConfig.model_fields.keys() - {"version"}:
            yield f"keys that QuantizationConfig has not: {sorted(strange)}"
        expected = model.expect(case)
        yield from matched(config, expected)
        yield from decompressed(tmp / "out", config, expected)


def main() -> None:
    logger.remove()
    for name in SMALL:
        if folder := sample(name):
            model = Model(folder, Codes())
            for case in cases():
                report(f"decompress {name}: {case}", problems(model, case))
    model = Model(real_model(3), Codes())
    for case in [plain(recipe, "compressed-tensors") for recipe in STRATEGY if recipe != "blockwise"] + list(ragged())[1:]:
        report(f"decompress smollm2 in 3 files: {case}", problems(model, case))
    finish()


if __name__ == "__main__":
    main()
