# SPDX-License-Identifier: Apache-2.0
"""diff: every number of it against torch, of high precision, FP8 of every recipe and format, low-bit weights and fused experts."""
import json
import math
import pathlib
from collections.abc import Iterator

import torch
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from cases import Case, pairs, plain, tuned
from checkpoint import shard_names
from damage import shards
from harness import finish, quantize, real_model, report, run, sample, scratch, silence
from test_experts import gpt_oss, granite, split

SCALES = ("_scale_inv", "_scale")
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def content(folder: pathlib.Path) -> dict[str, torch.Tensor]:
    return {name: tensor for file in shard_names(folder) for name, tensor in load_file(folder / file).items()}


def scale_of(tensors: dict, name: str) -> torch.Tensor | None:
    return next((tensors[name + end] for end in SCALES if name + end in tensors), None)


def factors(scale: torch.Tensor) -> torch.Tensor:
    if scale.dtype == torch.uint8:
        scale = torch.exp2(scale.float() - 127).masked_fill(scale == 255, math.nan)
    return scale.float()


def values(tensors: dict, name: str) -> torch.Tensor:
    """fp32, by one product of code and scale."""
    weight = tensors[name]
    if weight.dtype in FLOATS:
        return weight.float()
    scale, (rows, cols) = factors(scale_of(tensors, name)), weight.shape
    if scale.numel() == 1 or scale.numel() == rows:
        return weight.float() * scale.reshape(-1, 1)
    tall = 1 if scale.shape[0] == rows else 128
    wide = 32 if tall == 1 else 128
    spread = scale.reshape(-(-rows // tall), -1).repeat_interleave(tall, 0)[:rows].repeat_interleave(wide, 1)[:, :cols]
    return weight.float() * spread


def ladder(tensor: torch.Tensor) -> torch.Tensor:
    """The place of each number among all of its type; -0 is 0."""
    bits = tensor.view(BITS[tensor.element_size()]).long() & (1 << 8 * tensor.element_size()) - 1
    top = 1 << 8 * tensor.element_size() - 1
    return torch.where(bits >= top, top - bits, bits)


def numbers(a: torch.Tensor, b: torch.Tensor) -> dict:
    """What a list of two fp32 tensors must give."""
    finite = torch.isfinite(a) & torch.isfinite(b)
    x, y = (a.double(), b.double()) if finite.all() else (a[finite].double(), b[finite].double())
    error = x - y
    signal, noise = x.square().sum().item(), error.square().sum().item()
    differ = (a.contiguous().view(torch.int32) != b.contiguous().view(torch.int32)) & ~(a.isnan() & b.isnan())
    return {"elements": a.numel(), "values_differ": int(differ.sum()),
            "sqnr_db": 10 * math.log10(signal / noise) if noise and signal else None,
            "max_error": error.abs().max().item() if error.numel() else 0,
            "nan": [int(t.isnan().sum()) for t in (a, b)], "inf": [int(t.isinf().sum()) for t in (a, b)]}


def elements(a: torch.Tensor, b: torch.Tensor) -> dict:
    if a.dtype != b.dtype:
        return {"codes_differ": None, "max_ulp": None}
    bits = BITS[a.element_size()]
    known = ~(a.float().isnan() | b.float().isnan())
    steps = (ladder(a) - ladder(b)).abs()[known]
    differ = a.contiguous().view(bits) != b.contiguous().view(bits)
    return {"codes_differ": int(differ.sum()), "max_ulp": int(steps.max()) if steps.numel() else 0}


def scales(a: torch.Tensor | None, b: torch.Tensor | None) -> dict:
    if a is None or b is None or a.shape != b.shape:
        return {"scales": None, "scales_differ": None}
    return {"scales": a.numel(), "scales_differ": int((factors(a) != factors(b)).sum())}


def problems_of(found: dict, wanted: dict) -> Iterator[str]:
    for key, value in wanted.items():
        said = found[key]
        same = said == value if not isinstance(value, float) else \
            said is not None and abs(said - value) <= max(1e-5 if key == "sqnr_db" else 0, 1e-7 * abs(value))
        if not same:
            yield f"{found['name']}: {key} is {said}, torch {value}"


def diff(a: pathlib.Path, b: pathlib.Path, *options: str) -> dict:
    done = run("diff", a, b, "--json", "--progress", "none", *options)
    found = json.loads(done.stdout)
    assert done.returncode == (not found["equal"]), done
    return found


def compare(a: pathlib.Path, b: pathlib.Path) -> Iterator[str]:
    """All tensors of two folders whose weights have the same names."""
    left, right = content(a), content(b)
    scale_names = {w + end for t in (left, right) for w in t for end in SCALES if w.endswith("weight") and w + end in t}
    found = {tensor["name"]: tensor for tensor in diff(a, b)["tensors"]}
    for name in sorted(left.keys() | right.keys()):
        if name in scale_names:
            continue
        if name not in left or name not in right:
            if found.pop(name, {}).get("kind") != ("only-b" if name not in left else "only-a"):
                yield f"{name} is not said to be on one side alone"
            continue
        entry = found.pop(name, None)
        if left[name].dtype not in FLOATS and scale_of(left, name) is None:     # as it is: integers, codes without a scale
            if entry:
                yield f"{name}, which is copied, is listed"
            continue
        wanted = numbers(values(left, name), values(right, name)) | elements(left[name], right[name]) | \
            scales(scale_of(left, name), scale_of(right, name))
        if entry:
            yield from problems_of(entry, wanted)
            if (entry["kind"] == "values") != (wanted["values_differ"] > 0):
                yield f"{name}: kind {entry['kind']}"
        elif wanted["values_differ"] or wanted["codes_differ"] or wanted["scales_differ"] or left[name].dtype != right[name].dtype:
            yield f"{name} is not listed, but {wanted}"
    yield from (f"{name} is listed" for name in found)


def against_source(source: pathlib.Path, case: Case) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *case.arguments()))
        yield from compare(source, tmp / "out")
        yield from compare(tmp / "out", source)


def hurt(tensor: torch.Tensor) -> torch.Tensor:
    """Any bits in some elements, NaN and infinity among them; the neighbors of others."""
    bits = tensor.clone().view(BITS[tensor.element_size()]).flatten()
    where = torch.randperm(bits.numel())[:max(1, bits.numel() // 50)]
    bits[where] = torch.randint(-(1 << 31), 1 << 31, where.shape).to(bits.dtype)
    bits[where[0]] ^= 1
    return bits.reshape(tensor.shape).view(tensor.dtype)


def damaged(source: pathlib.Path, case: Case) -> Iterator[str]:
    """Two conversions, one with other codes and scales: steps, scales, NaN."""
    with scratch() as tmp:
        for name in ("a", "b"):
            yield from silence(quantize(source, tmp / name, *case.arguments()))
        if not diff(tmp / "a", tmp / "b")["equal"]:
            yield "two equal conversions differ"
        for path in shards(tmp / "b"):
            tensors = load_file(path)
            for i, name in enumerate(tensors):
                if i % 3 == 0 or "embed" in name:
                    tensors[name] = hurt(tensors[name])
            tensors = {name: t for name, t in tensors.items() if "layers.3.input_layernorm" not in name}
            save_file(tensors | {"model.extra": torch.ones(2)}, path, metadata={"format": "pt"})
        yield from compare(tmp / "a", tmp / "b")


def high_precision() -> Iterator[str]:
    with scratch() as tmp:
        tensors = {f"{str(dtype)[6:]}.{n}": torch.randn(n, 70).to(dtype) for dtype in FLOATS for n in (1, 3, 5000)}
        for name, change in (("a", lambda t: t), ("b", hurt), ("c", lambda t: t.to(torch.float32)), ("d", lambda t: t.to(torch.bfloat16))):
            (tmp / name).mkdir()
            save_file({k: change(t).contiguous() for k, t in tensors.items()}, tmp / name / "model.safetensors")
            (tmp / name / "config.json").write_text("{}")
        for name in "bcd":
            yield from compare(tmp / "a", tmp / name)


def experts(source: dict, config: dict) -> Iterator[str]:
    """Fused experts against each matrix by itself, in FP8 and in high precision, both ways."""
    with scratch() as tmp:
        (tmp / "in").mkdir()
        save_file({name: tensor.contiguous() for name, tensor in source.items()}, tmp / "in/model.safetensors")
        (tmp / "in/config.json").write_text(json.dumps(config))
        yield from silence(quantize(tmp / "in", tmp / "out", "--recipe", "channelwise"))
        out = content(tmp / "out")
        whole = {name: matrix for e in range(3) for group in split(source, e) for name, matrix in group}
        for a, b in (("in", "out"), ("out", "in")):
            found = {tensor["name"]: tensor for tensor in diff(tmp / a, tmp / b)["tensors"]}
            for name, matrix in whole.items():
                sides = [matrix.float(), values(out, name)]
                yield from problems_of(found[name], numbers(*(sides if a == "in" else sides[::-1])) | {"kind": "values"})
            others = {tensor["kind"] for name, tensor in found.items() if name not in whole}
            if others - {"stored"}:                              # biases, cut as the matrices are
                yield f"{a} {b}: kinds {others} beside the matrices"
        loose = {name: matrix.contiguous() for name, matrix in whole.items()}
        loose |= {name: tensor for name, tensor in out.items() if name.endswith("bias")}
        (tmp / "loose").mkdir()
        save_file(loose, tmp / "loose/model.safetensors")
        (tmp / "loose/config.json").write_text(json.dumps(config))
        if kinds := {tensor["kind"] for tensor in diff(tmp / "in", tmp / "loose")["tensors"]} - {"stored"}:
            yield f"the same matrices in high precision: {kinds}"


def stacked() -> Iterator[str]:
    """FP8 experts in one tensor, with scales of blocks, against the same codes one by one and other scales of one expert."""
    prefix, parts = "model.layers.0.mlp.experts.", {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
    loose, whole = {}, {}
    for name, names in parts.items():
        rows, cols = (256, 384) if len(names) == 2 else (384, 256)
        codes = [[torch.randn(rows, cols).to(torch.float8_e4m3fn) for _ in names] for _ in range(3)]
        scale = [[torch.rand(rows // 128, cols // 128) + 0.5 for _ in names] for _ in range(3)]
        whole[prefix + name] = torch.stack([torch.cat([c.view(torch.uint8) for c in e]) for e in codes]).view(torch.float8_e4m3fn)
        whole[prefix + name + "_scale_inv"] = torch.stack([torch.cat(e) for e in scale])
        for e in range(3):
            for part, c, s in zip(names, codes[e], scale[e]):
                loose |= {f"{prefix}{e}.{part}.weight": c, f"{prefix}{e}.{part}.weight_scale_inv": s.clone()}
    changed = prefix + "2.up_proj.weight"
    loose[changed + "_scale_inv"][1, 2] *= 2
    with scratch() as tmp:
        for name, tensors in (("a", whole), ("b", loose)):
            (tmp / name).mkdir()
            save_file(tensors, tmp / name / "model.safetensors")
            (tmp / name / "config.json").write_text(json.dumps({"model_type": "qwen3_moe", "quantization_config": {
                "quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}}))
        found = diff(tmp / "a", tmp / "b")["tensors"]
        after = values(loose, changed)
        before = after.clone()
        before[128:, 256:] /= 2
        yield from problems_of(found[0], numbers(before, after) | {"name": changed, "kind": "values", "codes_differ": 0, "scales": 6, "scales_differ": 1})
        if len(found) != 9 or any(t["kind"] != "stored" or t["codes_differ"] or t["scales_differ"] for t in found[1:]):
            yield f"beside it: {[(t['name'], t['kind'], t['scales_differ']) for t in found[1:]]}"


def packed_write(folder: pathlib.Path, blocks: torch.Tensor, scale: torch.Tensor, shape: tuple, gpt: bool) -> None:
    folder.mkdir()
    names = ("experts.gate_up_proj_blocks", "experts.gate_up_proj_scales") if gpt else ("up_proj.weight_packed", "up_proj.weight_scale")
    save_file({f"model.layers.0.mlp.{names[0]}": blocks.reshape(*shape, -1, 16) if gpt else blocks.reshape(*shape, -1),
               f"model.layers.0.mlp.{names[1]}": scale.reshape(*shape, -1)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "gpt_oss"}' if gpt else "{}")


def low_bit(gpt: bool) -> Iterator[str]:
    """MXFP4 against its values in BF16 by the packages' own unpacking, and against other codes and scales."""
    shape, cols = ((2, 64) if gpt else (128,)), 256
    blocks = torch.randint(0, 256, (*shape, cols // 2), dtype=torch.uint8)
    scale = torch.randint(115, 130, (*shape, cols // 32), dtype=torch.uint8)
    name = "model.layers.0.mlp." + ("experts.gate_up_proj" if gpt else "up_proj.weight")
    with scratch() as tmp:
        packed_write(tmp / "a", blocks, scale, shape, gpt)
        if gpt:
            plain_values = convert_moe_packed_tensors(blocks.reshape(*shape, -1, 16), scale)
        else:
            plain_values = unpack_fp4_from_uint8(blocks, 128, cols, dtype=torch.float32) * factors(scale).repeat_interleave(32, 1)
        noisy = (plain_values.float() + 0.01 * torch.randn(plain_values.shape)).to(torch.bfloat16)
        (tmp / "b").mkdir()
        save_file({name: noisy.contiguous()}, tmp / "b/model.safetensors")
        (tmp / "b/config.json").write_text("{}")
        (entry,) = diff(tmp / "a", tmp / "b")["tensors"]
        yield from problems_of(entry, numbers(plain_values.float(), noisy.float()) | {"name": name, "kind": "values"})
        codes, other = blocks.clone(), scale.clone()
        codes.view(-1)[:10] ^= 0x31                              # both codes of ten bytes
        codes.view(-1)[100] ^= 0x20
        other.view(-1)[-3:] += 1
        packed_write(tmp / "c", codes, other, shape, gpt)
        (entry,) = diff(tmp / "a", tmp / "c")["tensors"]
        yield from problems_of(entry, {"name": name, "codes_differ": 21, "scales": scale.numel(), "scales_differ": 3, "max_ulp": None})


def main() -> None:
    torch.manual_seed(7)
    if folder := sample("tiny-llama"):
        for case in (*pairs(), tuned(plain("mxfp8", "hf"), "--fp8-format", "e5m2", fp8="e5m2")):
            report(f"diff with the source: {case}", against_source(folder, case))
            report(f"diff with other codes: {case}", damaged(folder, case))
    if folder := sample("odd-shapes"):
        report("diff with the source: odd-shapes", against_source(folder, plain("blockwise", "hf", ragged=True)))
    for case in (plain("channelwise", "compressed-tensors"), plain("blockwise", "hf", ragged=True)):     # matrices of many pieces
        report(f"diff with the source: SmolLM2 {case}", against_source(real_model(3), case))
    report("diff with other codes: SmolLM2", damaged(real_model(1), plain("blockwise", "hf", ragged=True)))
    report("diff: high precision", high_precision())
    for source, config in (gpt_oss(), granite("granitemoe")):
        report(f"diff: experts of {config['model_type']}", experts(source, config))
    report("diff: FP8 experts in one tensor", stacked())
    report("diff: MXFP4", low_bit(gpt=False))
    report("diff: MXFP4 of GPT-OSS", low_bit(gpt=True))
    finish()


if __name__ == "__main__":
    main()
