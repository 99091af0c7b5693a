# SPDX-License-Identifier: Apache-2.0
"""dequantize and repack against torch and safetensors: variants of other tools, written here by safetensors, come back as
torch computes them, to the bit; transformers loads what was dequantized; repacked there and back is the same file."""
import hashlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from loguru import logger
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer
from transformers.utils import logging

from cases import LOADS, Case, plain, ragged
from harness import SMALL, finish, quantize, real_model, report, run, sample, scratch, silence
from test_load import dequantized, kl, load, logits, weight_problems
from test_same import contents, differences

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
E4M3, E5M2, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
HF = {"quant_method": "fp8", "activation_scheme": "dynamic"}
BLOCKS = HF | {"weight_block_size": [128, 128]}
KEPT = {"model.norm.weight": torch.arange(7, dtype=torch.bfloat16), "lm_head.weight": torch.ones(3, 5)}


def ct(strategy: str, **more: Any) -> dict:
    weights = {"num_bits": 8, "type": "float", "strategy": strategy, **more}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": weights, "input_activations": {"dynamic": True}}}}


# name of the scale, its type and shape, the codes' type and shape, the tile (0: all), the configuration, what is beside it.
VARIANTS: dict[str, tuple] = {
    "deepseek-v3": ("weight_scale_inv", torch.float32, (5, 3), E4M3, (576, 300), (128, 128), BLOCKS, ()),
    "hf per tensor": ("weight_scale", torch.float32, (1,), E5M2, (576, 300), (0, 0), HF, ("x.input_scale",)),
    "compressed-tensors channel": ("weight_scale", torch.bfloat16, (300, 1), E4M3, (300, 576), (1, 0), ct("channel"), ()),
    "compressed-tensors block": ("weight_scale", torch.float16, (3, 5), E4M3, (300, 576), (128, 128),
                                 ct("block", block_structure=[128, 128]), ("m.self_attn.k_scale", "m.self_attn.v_scale")),
    "modelopt": ("weight_scale", torch.float32, (), E4M3, (300, 576), (0, 0),
                 {"quant_method": "modelopt", "quant_algo": "FP8"}, ("x.input_scale", "m.k_proj.k_scale", "m.v_proj.v_scale")),
    "modelopt 4-D": ("weight_scale", torch.float32, (3, 1, 5, 1), E4M3, (384, 640), (128, 128),
                     {"quant_method": "modelopt", "quant_algo": "fp8_pb_wo"}, ()),
    "mxfp8 U8": ("weight_scale_inv", torch.uint8, (300, 18), E4M3, (300, 576), (1, 32), {"quant_method": "mxfp8"}, ()),
    "mxfp8 E8M0": ("weight_scale", E8M0, (300, 18), E5M2, (300, 576), (1, 32),
                   {"quant_method": "modelopt", "quant_algo": "MXFP8"}, ()),
    "deepseek-v4": ("scale", E8M0, (3, 5), E4M3, (300, 576), (128, 128), BLOCKS | {"scale_fmt": "ue8m0"}, ()),
    "comfyui": ("scale_weight", torch.float32, (), E4M3, (300, 576), (0, 0), None, ("scaled_fp8", "x.comfy_quant")),
    "gptqmodel": ("weight_scale_inv", torch.float32, (3, 5), E4M3, (300, 576), (128, 128),
                  BLOCKS | {"weight_scale_semantics": "inverse"}, ()),
}


def scale_of(variant: str, generator: torch.Generator) -> torch.Tensor:
    _, dtype, shape, *_ = VARIANTS[variant]
    if dtype in (torch.uint8, E8M0):
        codes = torch.randint(90, 126, shape, generator=generator, dtype=torch.uint8)
        codes.view(-1)[:3] = torch.tensor([0, 1, 127], dtype=torch.uint8)
        return codes.view(dtype)
    values = torch.rand(shape, generator=generator) * 2.0 ** torch.randint(-14, 0, shape, generator=generator)
    values = values + 2.0 ** -13
    return (values * 2.0 ** 14 if variant == "gptqmodel" else values).to(dtype)       # which divides by them


def tensors_of(variant: str) -> dict[str, torch.Tensor]:
    word, _, _, codes, shape, _, _, beside = VARIANTS[variant]
    generator = torch.Generator().manual_seed(len(variant))
    bits = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    bits[bits & 0x7F >= (0x7F if codes == E4M3 else 0x7C)] = 0x55           # dequantize refuses codes that are not finite
    out = {"x.weight": bits.view(codes),
           f"x.{word}": scale_of(variant, generator), **KEPT}
    for name in beside:
        out[name] = {"scaled_fp8": torch.zeros(2, dtype=E4M3),
                     "x.comfy_quant": torch.zeros(9, dtype=torch.uint8)}.get(name, torch.tensor(0.5))
    return out


def computed(variant: str, tensors: dict[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """torch's own: both to fp32, the scale repeated over its tile, one product, one cast."""
    word, scale_dtype, _, _, shape, tile, _, _ = VARIANTS[variant]
    scale = tensors[f"x.{word}"]
    if scale_dtype in (torch.uint8, E8M0):
        scale = torch.ldexp(torch.ones(()), scale.view(torch.uint8).int() - 127)
    scale = 1 / scale.float() if variant == "gptqmodel" else scale.float()
    if scale.ndim == 4:
        scale = scale[:, 0, :, 0]
    if scale.numel() > 1:
        for axis, side in enumerate(tile):
            if side:
                scale = scale.repeat_interleave(side, axis).narrow(axis, 0, shape[axis])
    return (tensors["x.weight"].float() * scale).to(dtype)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """To the bit, but for which NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = torch.int16 if a.element_size() == 2 else torch.int32
    return bool(((a.view(bits) == b.view(bits)) | (a.isnan() & b.isnan())).all())


def write(folder: pathlib.Path, variant: str, tensors: dict[str, torch.Tensor]) -> str:
    """The checkpoint; returns the configuration that should be left of it."""
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {"model_type": "llama", "torch_dtype": "float16", "big": 10 ** 30, "z": [1, 2]}
    quantization = VARIANTS[variant][6]
    text = json.dumps(config | ({"quantization_config": quantization} if quantization else {}), indent=1)
    (folder / "config.json").write_text(text, encoding="utf-8")
    return json.dumps(config, indent=1)


def variant_back(variant: str) -> Iterator[str]:
    tensors = tensors_of(variant)
    with scratch() as tmp:
        config = write(tmp / "in", variant, tensors)
        for name, dtype in DTYPES.items():
            out = tmp / name
            yield from silence(run("dequantize", tmp / "in", "-o", out, "--dtype", name))
            found, wanted = load_file(out / "model.safetensors"), KEPT | {"x.weight": computed(variant, tensors, dtype)}
            for key in sorted(found.keys() ^ wanted.keys()):
                yield f"{name}: {key} is {'left' if key in found else 'missing'}"
            for key in found.keys() & wanted.keys():
                if not same(found[key], wanted[key]):
                    yield f"{name}: {key} differs"
            said = str(dtype).removeprefix("torch.")
            if (out / "config.json").read_text(encoding="utf-8") != config.replace("float16", said):
                yield f"{name}: config.json differs"


def own_back(folder: pathlib.Path, case: Case) -> Iterator[str]:
    """What fp8conv quantized: every weight as numpy computes it, in bf16 and f32, and config.json as it was."""
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "fp8", *case.arguments()))
        for name, n_threads in (("bf16", 1), ("f32", 2), ("bf16", 3)):
            yield from silence(run("dequantize", tmp / "fp8", "-o", tmp / f"{name}{n_threads}", "--dtype", name, "--threads",
                                   str(n_threads), "--max-memory", "40M"))
        yield from differences("1 and 3 threads", contents(tmp / "bf163"), contents(tmp / "bf161"))
        for name, out in (("bf16", tmp / "bf161"), ("f32", tmp / "f322")):
            wanted = dequantized(tmp / "fp8", name)
            for file in sorted(out.glob("*.safetensors")):
                for key, tensor in load_file(file).items():
                    kept = tensor.element_size() == 2 and name == "f32"
                    bits = tensor.view(torch.uint16 if tensor.element_size() == 2 else torch.uint32).numpy()
                    if not np.array_equal(bits.astype(np.uint32) << np.uint32(16) if kept else bits, wanted.pop(key)):
                        yield f"{name}: {key} differs"
            yield from (f"{name}: {key} is missing" for key in wanted)
        if (tmp / "bf161/config.json").read_bytes() != (folder / "config.json").read_bytes():
            yield "config.json is not the source's"


def loads(folder: pathlib.Path, case: Case, limit: float) -> Iterator[str]:
    """As any model, and near its source."""
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "fp8", *case.arguments()))
        yield from silence(run("dequantize", tmp / "fp8", "-o", tmp / "out"))
        model, info = load(tmp / "out", torch.bfloat16, False)
        if info:
            yield f"loading: {info}"
        if getattr(model.config, "quantization_config", None):
            yield "transformers takes it for quantized"
        yield from weight_problems(model, dequantized(tmp / "fp8", "bf16"))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        source, _ = load(folder, torch.float32, False)
        if not 0 < (value := kl(logits(source, tokenizer), logits(model.float(), tokenizer))) < limit:
            yield f"KL {value:.5f}, not in (0, {limit})"


def verified(out: pathlib.Path, folder: pathlib.Path, is_ragged: bool) -> Iterator[str]:
    """verify finds nothing, but in ragged blocks that not all engines load them."""
    problems = json.loads(run("verify", out, "--source", folder, "--progress", "none", "--json").stdout)["problems"]
    yield from (problem["message"] for problem in problems if not (is_ragged and problem["kind"] == "partial-blocks"))


def repacked(folder: pathlib.Path, recipe: str, more: tuple[str, ...]) -> Iterator[str]:
    """Between all formats of the recipe: what quantize writes there, and back again."""
    formats = [format for other, format in LOADS if other == recipe and (recipe, format) != ("blockwise", "modelopt")]
    with scratch() as tmp:
        for format in formats:
            yield from silence(quantize(folder, tmp / format, "--recipe", recipe, "--format", format, *more))
        quantized = {format: contents(tmp / format) for format in formats}
        for source in formats:
            for to in formats:
                out, back = tmp / f"{source} to {to}", tmp / f"{source} to {to} and back"
                yield from silence(run("repack", tmp / source, "-o", out, "--format", to))
                yield from verified(out, folder, "--ragged" in more)
                yield from differences(out.name, contents(out), quantized[to])
                yield from silence(run("repack", out, "-o", back, "--format", source))
                yield from differences(back.name, contents(back), quantized[source])


def whole_blocks(folder: pathlib.Path) -> Iterator[str]:
    """ModelOpt's blocks, for which quantize keeps what is no whole ones: into another format and back."""
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "in", "--format", "modelopt"))
        for format in ("hf", "compressed-tensors"):
            yield from silence(run("repack", tmp / "in", "-o", tmp / format, "--format", format))
            yield from silence(run("verify", tmp / format, "--source", folder, "--progress", "none"))
            yield from silence(run("repack", tmp / format, "-o", tmp / f"{format}-back", "--format", "modelopt"))
            yield from differences(format, contents(tmp / f"{format}-back"), contents(tmp / "in"))


def spread(folder: pathlib.Path) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "fp8", "--ragged"))
        yield from silence(run("repack", tmp / "fp8", "-o", tmp / "mx", "--format", "hf", "--recipe", "mxfp8"))
        yield from silence(run("verify", tmp / "mx", "--progress", "none"))
        for name in ("fp8", "mx"):
            yield from silence(run("dequantize", tmp / name, "-o", tmp / f"{name}-out", "--dtype", "f32"))
        yield from differences("values of mxfp8", contents(tmp / "mx-out"), contents(tmp / "fp8-out"))
        codes = [{key: hashlib.sha256(t.view(torch.uint8).numpy()).digest() for file in sorted((tmp / name).glob("*.safetensors"))
                  for key, t in load_file(file).items() if t.dtype == E4M3} for name in ("fp8", "mx")]
        if codes[0] != codes[1] or not codes[0]:
            yield "codes differ"


def main() -> None:
    logger.remove()
    logging.disable_progress_bar()
    for variant in VARIANTS:
        report(f"dequantize {variant}", variant_back(variant))
    cases = [plain(*pair) for pair in LOADS]
    models = {name: folder for name in SMALL[:3] if (folder := sample(name))} | {"smollm2 in 3 files": real_model(3)}
    for name, folder in models.items():
        for case in cases + list(ragged()):
            if name.startswith("smollm2") and case.recipe == "blockwise" and not case.ragged:
                continue                    # 576 rows and columns are no whole blocks
            report(f"dequantize {name}: {case}", own_back(folder, case))
        for recipe in sorted({recipe for recipe, _ in LOADS}):
            if name.startswith("smollm2") and recipe == "blockwise":
                continue
            report(f"repack {name}: {recipe}", repacked(folder, recipe, ()))
        report(f"repack {name}: blockwise --ragged", repacked(folder, "blockwise", ("--ragged",)))
        report(f"repack {name}: blocks to mxfp8", spread(folder))
        if not name.startswith("smollm2"):
            report(f"repack {name}: whole blocks", whole_blocks(folder))
    for name, folder in (("tiny-llama", sample("tiny-llama")), ("smollm2", real_model(1))):
        for case in (next(ragged()), plain("channelwise", "compressed-tensors"), plain("mxfp8", "hf")):
            if folder:
                report(f"load {name}: {case}", loads(folder, case, 0.02))
    finish()


if __name__ == "__main__":
    main()
