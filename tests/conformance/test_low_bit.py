# SPDX-License-Identifier: Apache-2.0
"""Low-bit weights: dequantize gives what transformers' and compressed-tensors' own unpacking gives, E2M1 is that of ml_dtypes,
and compressed-tensors finds both kinds of modules in what `quantize` passes on beside FP8."""
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import torch
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from harness import finish, quantize, report, run, scratch, silence
from test_decompress import Skeleton

LOW_BIT = pathlib.Path(__file__).resolve().parent.parent / "cli" / "low_bit.py"
COMPRESSED = ("ct-mxfp4", "ct-int4", "ct-nvfp4")


def make(packing: str, folder: pathlib.Path) -> dict[str, torch.Tensor]:
    subprocess.run([sys.executable, LOW_BIT, "finite", packing, folder], check=True)
    return load_file(folder / "model.safetensors")


def bits(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().numpy().view(np.uint32)


def same(found: torch.Tensor, wanted: torch.Tensor, name: str) -> Iterator[str]:
    if found.shape != wanted.shape or (bits(found) != bits(wanted)).any():
        yield f"{name} differs"


def gpt_oss() -> Iterator[str]:
    with scratch() as folder:
        source = make("gpt-oss", folder / "in")
        yield from silence(run("dequantize", folder / "in", "-o", folder / "out", "--progress", "none"))
        found = load_file(folder / "out" / "model.safetensors")
        for name in ("gate_up_proj", "down_proj"):
            name = f"model.layers.0.mlp.experts.{name}"
            yield from same(found[name], convert_moe_packed_tensors(source[name + "_blocks"], source[name + "_scales"]), name)


def unpacked(packing: str, source: dict[str, torch.Tensor], module: str) -> torch.Tensor:
    packed, scale = source[module + ".weight_packed"], source[module + ".weight_scale"]
    if packing == "ct-int4":
        shape = torch.Size(source[module + ".weight_shape"].tolist())
        return unpack_from_int32(packed, 4, shape).float() * scale.float().repeat_interleave(32, dim=1)
    codes = unpack_fp4_from_uint8(packed, packed.shape[0], 2 * packed.shape[1], torch.float32)
    if packing == "ct-nvfp4":
        return codes * (scale.float() / source[module + ".weight_global_scale"]).repeat_interleave(16, dim=1)
    return codes * torch.exp2(scale.float() - 127).repeat_interleave(32, dim=1)


def compressed(packing: str) -> Iterator[str]:
    with scratch() as folder:
        source = make(packing, folder / "in")
        yield from silence(run("dequantize", folder / "in", "-o", folder / "out", "--dtype", "f32", "--progress", "none"))
        found = load_file(folder / "out" / "model.safetensors")
        modules = [name.removesuffix(".weight_packed") for name in source if name.endswith(".weight_packed")]
        for module in modules:
            yield from same(found[module + ".weight"], unpacked(packing, source, module), module)
        if not modules:
            yield "no modules"


def elements() -> Iterator[str]:
    """All 256 bytes of packed E2M1, with scale 1."""
    with scratch() as folder:
        codes = np.arange(256, dtype=np.uint8)
        tensors = {"a.weight_packed": torch.from_numpy(codes.reshape(16, 16)),
                   "a.weight_scale": torch.full((16, 1), 127, dtype=torch.uint8)}
        save_file(tensors, folder / "in.safetensors")
        yield from silence(run("dequantize", folder / "in.safetensors", "-o", folder / "out.safetensors", "--progress", "none"))
        nibbles = np.stack([codes & 15, codes >> 4], axis=1).reshape(16, 32)
        wanted = nibbles.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
        yield from same(load_file(folder / "out.safetensors")["a.weight"], torch.from_numpy(wanted), "E2M1")


def beside(packing: str) -> Iterator[str]:
    with scratch() as folder:
        source = make(packing, folder / "in")
        yield from silence(quantize(folder / "in", folder / "out", "--format", "compressed-tensors"))
        config = json.loads((folder / "out" / "config.json").read_text())["quantization_config"]
        skeleton, wanted = Skeleton(), {"model.layers.0.self_attn.o_proj": 8, "lm_head": None}
        wanted |= {name.removesuffix(".weight_packed"): 4 for name in source if name.endswith(".weight_packed")}
        for module in wanted:
            skeleton.add(module, (256, 256))
        apply_quantization_config(skeleton, QuantizationConfig.model_validate(config))
        for module, num_bits in wanted.items():
            scheme = getattr(skeleton.get_submodule(module), "quantization_scheme", None)
            if (scheme and scheme.weights.num_bits) != num_bits:
                yield f"{module} has the scheme {scheme}"


report("low-bit, GPT-OSS: transformers' own unpacking", gpt_oss())
for packing in COMPRESSED:
    report(f"low-bit, {packing}: compressed-tensors' own unpacking", compressed(packing))
    report(f"low-bit, {packing}: compressed-tensors' schemes beside FP8", beside(packing))
report("low-bit, E2M1: all codes by ml_dtypes", elements())
finish()
