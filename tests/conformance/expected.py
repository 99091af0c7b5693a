# SPDX-License-Identifier: Apache-2.0
"""What a quantized checkpoint must hold, computed by numpy and ml_dtypes (tests/golden/reference.py)
from the source and from what each format promises.  It shares no code with fp8conv."""
import pathlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

import reference as ref
from cases import Case, Spec
from checkpoint import Tensor, read_checkpoint, tensor_of, to_f32
from reference import WHOLE
from selection import Matrix, kept_modules, select

DTYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
FP8 = {"e4m3": "F8_E4M3", "e5m2": "F8_E5M2"}


@dataclass
class Expected:
    tensors: dict[str, Tensor]
    files: dict[str, str]                   # tensor -> file
    scales: dict[str, str]                  # quantized weight -> its scale
    recipes: dict[str, str]                 # quantized weight -> its recipe
    kept: list[str]                         # modules that ignore lists name


class Codes:
    """Codes and scales of the source's matrices, remembered until another spec is asked for."""

    def __init__(self) -> None:
        self.known: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}
        self.spec: Spec | None = None

    def of_group(self, group: list[Matrix], spec: Spec) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """A per-tensor scale is computed over the stacked group; any other over its matrix alone."""
        if spec.tile != (WHOLE, WHOLE):
            return {m.name: self.of_stack([m], spec) for m in group}
        codes, scale = self.of_stack(group, spec)
        cuts = np.cumsum([m.values.shape[0] for m in group])[:-1]
        return {m.name: (part, scale) for m, part in zip(group, np.split(codes, cuts))}

    def of_stack(self, stack: list[Matrix], spec: Spec) -> tuple[np.ndarray, np.ndarray]:
        key = tuple(m.name for m in stack)
        if spec != self.spec:
            self.known.clear()
            self.spec = spec
        if key not in self.known:
            x = np.concatenate([to_f32(m.values) for m in stack])
            with np.errstate(all="ignore"):
                self.known[key] = ref.quantize(x, spec, DTYPES[stack[0].tensor.dtype])
        return self.known[key]


def scale_name_and_shape(case: Case, recipe: str, grid: np.ndarray) -> tuple[str, tuple[int, ...]]:
    """What is added to the weight's name, and the shape; grid is (tiles down, tiles across)."""
    down, across = grid.shape
    if case.format == "hf":
        if recipe == "current":
            return ("_scale_inv", ()) if case.target == "transformers" else ("_scale", (1,))
        return "_scale" if (recipe, case.target) == ("mxfp8", "vllm") else "_scale_inv", (down, across)
    if case.format == "compressed-tensors":
        return "_scale", (1,) if recipe == "current" else (down, across)
    return "_scale", {"channelwise": (down,), "blockwise": (down, 1, across, 1), "mxfp8": (down, across)}[recipe]


class Model:
    def __init__(self, folder: pathlib.Path, codes: Codes) -> None:
        self.folder = folder
        self.source = list(read_checkpoint(folder))
        self.has_experts = any(".experts." in name for _, name, _ in self.source)
        self.codes = codes

    def expect(self, case: Case) -> Expected:
        quantized, kept = select(self.source, case)
        out = Expected({name: tensor for _, name, tensor in kept}, {name: file for file, name, _ in kept},
                       {}, {}, kept_modules(kept, quantized, case))
        groups: dict[str, list[Matrix]] = defaultdict(list)
        for matrix in quantized:
            groups[matrix.group].append(matrix)
        for group in groups.values():
            spec = case.spec_of(group[0].recipe)
            for name, (codes, scale) in self.codes.of_group(group, spec).items():
                suffix, shape = scale_name_and_shape(case, group[0].recipe, scale)
                out.tensors[name] = tensor_of(codes, FP8[spec.fp8])
                out.tensors[name + suffix] = tensor_of(scale.reshape(shape), "U8" if scale.dtype == np.uint8 else "F32")
                out.scales[name] = name + suffix
                out.recipes[name] = group[0].recipe
        out.files |= {name: m.file for m in quantized for name in (m.name, out.scales[m.name])}
        return out


# The configuration.

def hf_config(case: Case, kept: list[str]) -> dict:
    mx = case.recipe == "mxfp8"
    out = {"quant_method": "mxfp8" if mx else "fp8", "activation_scheme": "dynamic", "fmt": case.spec.fp8}
    if case.recipe == "current":
        out |= {"weight_block_size": None} if case.target == "transformers" else {}
    else:
        out["weight_block_size"] = [1, 32] if mx else [128, 128]
        out |= {"scale_fmt": "ue8m0"} if mx or case.spec.kind == "pow2" else {}
    return out | {"ignored_layers" if mx and case.target == "vllm" else "modules_to_not_convert": kept}


def compressed_tensors_config(case: Case, kept: list[str]) -> dict:
    weights, inputs = {"blockwise": ("block", "group"), "channelwise": ("channel", "token"),
                       "current": ("tensor", "tensor"), "mxfp8": ("group", "group")}[case.recipe]
    mx = case.recipe == "mxfp8"

    def args(strategy: str, dynamic: bool) -> dict:
        out = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy, "dynamic": dynamic,
               "group_size": (32 if mx else 128) if strategy == "group" else None,
               "block_structure": [128, 128] if strategy == "block" else None,
               "actorder": None, "observer": None if dynamic else "minmax", "observer_kwargs": {}}
        return out | ({"scale_dtype": "torch.uint8"} if mx else {})

    name = "mxfp8-quantized" if mx else "float-quantized"
    group = {"targets": ["Linear"], "weights": args(weights, False), "input_activations": args(inputs, True),
             "output_activations": None}
    return {"quant_method": "compressed-tensors", "version": "0.15.0" if mx else "0.12.2", "format": name,
            "quantization_status": "compressed", "global_compression_ratio": None, "kv_cache_scheme": None,
            "ignore": kept, "config_groups": {"group_0": group | ({"format": name} if mx else {})}}


def modelopt_config(case: Case, kept: list[str], version: str) -> tuple[dict, dict]:
    """For config.json, and all of hf_quant_config.json."""
    algo = {"channelwise": "FP8_PER_CHANNEL_PER_TOKEN", "blockwise": "fp8_pb_wo", "mxfp8": "MXFP8"}[case.recipe]
    args = {"num_bits": 8, "type": "float"}
    mx = {"strategy": "group", "group_size": 32}
    weights = {"channelwise": {"strategy": "channel"}, "mxfp8": mx,
               "blockwise": {"strategy": "block", "block_structure": [128, 128]}}[case.recipe]
    inputs = {"channelwise": {"strategy": "token"}, "mxfp8": mx, "blockwise": None}[case.recipe]
    group = {"weights": {"dynamic": False, **args, **weights}, "targets": ["Linear"]}
    if inputs:
        group["input_activations"] = {"dynamic": True, **args, **inputs}
    producer = {"name": "fp8conv", "version": version}
    quantization = {"quant_algo": algo, "kv_cache_quant_algo": None, "exclude_modules": kept}
    return ({"quant_method": "modelopt", "quant_algo": algo, "ignore": kept, "config_groups": {"group_0": group},
             "kv_cache_scheme": None, "producer": producer}, {"producer": producer, "quantization": quantization})
