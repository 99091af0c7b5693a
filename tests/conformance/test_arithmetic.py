# SPDX-License-Identifier: Apache-2.0
"""`fp8conv verify --source` names the arithmetic of other people's files, made here by torch, and what it costs."""
import pathlib
import shutil
from collections.abc import Callable, Iterator

import torch
from safetensors.torch import load_file, save_file

from damage import shards, tensors, verify
from harness import finish, quantize, report, sample, scratch, silence

O = "model.layers.0.self_attn.o_proj.weight"


def blocks(weight: torch.Tensor) -> torch.Tensor:
    rows, cols = weight.shape
    padded = torch.zeros(-(-rows // 128) * 128, -(-cols // 128) * 128, dtype=weight.dtype)
    padded[:rows, :cols] = weight
    return padded.view(padded.shape[0] // 128, 128, padded.shape[1] // 128, 128)


def deepseek(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The loop that DeepSeek's repository shows."""
    tiles = blocks(weight.float())
    scale = tiles.abs().amax((1, 3), keepdim=True) / 448.0
    return (tiles / scale).clamp(-448, 448), scale


def deepgemm(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    tiles = blocks(weight.float())
    scale = tiles.abs().amax((1, 3), keepdim=True).clamp(1e-4) / 448.0
    return tiles * (1.0 / scale), scale


def floored(least: float) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    def made(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tiles = blocks(weight.float())
        scale = tiles.abs().amax((1, 3), keepdim=True).clamp(least) / 448.0
        return (tiles / scale).clamp(-448, 448), scale
    return made


def modelopt(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A scale without dimensions leaves torch's quotients in the type of the weight."""
    tiles = blocks(weight.to(torch.bfloat16))
    scale = tiles.float().abs().amax((1, 3), keepdim=True) / 448.0
    codes = torch.empty_like(tiles)
    for i in range(tiles.shape[0]):
        for j in range(tiles.shape[2]):
            codes[i, :, j, :] = tiles[i, :, j, :] / scale[i, 0, j, 0]
    return codes, scale


def in_bf16(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    tiles = blocks(weight.to(torch.bfloat16))
    scale = (tiles.abs().amax((1, 3), keepdim=True).float() / 448.0).to(torch.bfloat16)
    return (tiles / scale).clamp(-448, 448), scale


def quark(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    codes, _ = in_bf16(weight)
    return codes, blocks(weight.float()).abs().amax((1, 3), keepdim=True) / 448.0


def torchao(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    tiles = blocks(weight.float())
    scale = (tiles.abs().amax((1, 3), keepdim=True) / 448.0).to(torch.bfloat16).float()
    return (tiles / scale).clamp(-448, 448), scale


def unknown(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Right, by nobody's rule: a few percent above amax."""
    tiles = blocks(weight.float())
    scale = tiles.abs().amax((1, 3), keepdim=True) / 431.0
    return tiles / scale, scale


def decibel(values: torch.Tensor, back: torch.Tensor) -> float:
    return float(10 * torch.log10(values.double().square().sum() / (values.double() - back.double()).square().sum()))


def torch_costs(weights: dict[str, torch.Tensor], made: Callable) -> dict[str, tuple[float, float]]:
    """SQNR of somebody's codes and scales, and of TransformerEngine's: 448 / amax, then its reciprocal."""
    out = {}
    for name, weight in weights.items():
        tiles = blocks(weight.float())
        codes, stored = made(weight)
        scale = 448.0 / tiles.abs().amax((1, 3), keepdim=True)
        out[name] = (decibel(tiles, codes.to(torch.float8_e4m3fn).float() * stored.float()),
                     decibel(tiles, (tiles * scale).to(torch.float8_e4m3fn).float() * (1.0 / scale)))
    return out


FOREIGN = [(deepseek, "deepseek"), (deepgemm, "deepgemm"), (in_bf16, "division in bf16"),
           (quark, "division in bf16, another scale stored"), (torchao, "scale in bf16"),
           (modelopt, "quotients in bf16"), (unknown, None)]


def foreign(source: pathlib.Path, arithmetic: Callable, name: str | None, zero_block: bool = False) -> Iterator[str]:
    """A checkpoint of fp8conv with the codes and scales of somebody else."""
    with scratch() as tmp:
        shutil.copytree(source, tmp / "source")
        if zero_block:
            path = tmp / "source" / "model.safetensors"
            content = load_file(path)
            content[O][:128, :128] = 0
            save_file(content, path, metadata={"format": "pt"})
        yield from silence(quantize(tmp / "source", tmp / "out", "--scale-fmt", "float"))
        (tmp / "out" / "fp8conv-manifest.json").unlink()
        weights = {}
        for path in shards(tmp / "source"):
            weights |= load_file(path)

        def rewrite(content: dict[str, torch.Tensor]) -> None:
            for key in [key for key in content if key + "_scale_inv" in content]:
                rows, cols = content[key].shape
                codes, scale = arithmetic(weights[key])
                codes = codes.reshape(codes.shape[0] * 128, -1)[:rows, :cols]
                content[key] = codes.to(torch.float8_e4m3fn).contiguous()
                content[key + "_scale_inv"] = scale.reshape(scale.shape[0], -1).contiguous()

        tensors(rewrite)(tmp / "out")
        status, found = verify(tmp / "out", "--source", tmp / "source")
        if status or found["arithmetic"] != name:
            yield f"exit status {status}, arithmetic {found.get('arithmetic')}, {found['problems'][:2]}"
        worst = min(weight["sqnr_db"] for weight in found["weights"] if weight["sqnr_db"] is not None)
        if not 30 < worst < 33:
            yield f"worst SQNR {worst} dB"
        if not zero_block:
            yield from cost_problems(found, weights, arithmetic)


def cost_problems(found: dict, weights: dict[str, torch.Tensor], arithmetic: Callable) -> Iterator[str]:
    costs = torch_costs({weight["tensor"]: weights[weight["tensor"]] for weight in found["weights"]}, arithmetic)
    for weight in found["weights"]:
        theirs, own = costs[weight["tensor"]]
        if abs(weight["sqnr_db"] - theirs) > 1e-4 or abs(weight["own_sqnr_db"] - own) > 1e-4:
            yield f"{weight}, torch {theirs} and {own}"
    lost = [own - theirs for theirs, own in costs.values()]
    if abs(found["cost_db"] - sum(lost) / len(lost)) > 1e-4 or abs(found["worst_cost_db"] - max(lost)) > 1e-4:
        yield f"cost {found['cost_db']}, {found['worst_cost_db']}; torch {sum(lost) / len(lost)}, {max(lost)}"


def mx_spare(source: pathlib.Path) -> Iterator[str]:
    """llm-compressor's MXFP8: a binade to spare where amax is exactly 448 * 2^k."""
    with scratch() as tmp:
        shutil.copytree(source, tmp / "source")
        path = tmp / "source" / "model.safetensors"
        content = load_file(path)
        content[O].view(-1)[:4096:32] = 1.75 * 2.0 ** 3
        save_file(content, path, metadata={"format": "pt"})
        yield from silence(quantize(tmp / "source", tmp / "out", "--recipe", "mxfp8"))
        (tmp / "out" / "fp8conv-manifest.json").unlink()

        def rewrite(tensors_: dict[str, torch.Tensor]) -> None:
            for key in [key for key in tensors_ if key + "_scale_inv" in tensors_]:
                tiles = content[key].float().view(content[key].shape[0], -1, 32)
                mantissa, exponent = torch.frexp(tiles.abs().amax(2))
                code = exponent - 1 - 8 + 127 + (mantissa * 2 >= 1.75)
                tensors_[key + "_scale_inv"] = code.to(torch.uint8)
                values = tiles * torch.exp2(127.0 - code.float())[..., None]
                tensors_[key] = values.reshape(content[key].shape).clamp(-448, 448).to(torch.float8_e4m3fn)

        tensors(rewrite)(tmp / "out")
        status, found = verify(tmp / "out", "--source", tmp / "source")
        if status or found["arithmetic"] != "mx round up, a binade to spare":
            yield f"exit status {status}, arithmetic {found.get('arithmetic')}, {found['problems'][:2]}"


def main() -> None:
    if folder := sample("tiny-llama"):
        for arithmetic, name in FOREIGN:
            report(f"arithmetic of {arithmetic.__name__}", foreign(folder, arithmetic, name))
        for tool, least in (("slime", "1e-12"), ("SkyRL", "1e-10")):
            report(f"arithmetic of {tool}", foreign(folder, floored(float(least)), f"deepseek, amax at least {least}", zero_block=True))
        report("arithmetic of llm-compressor's mxfp8", mx_spare(folder))
    finish()


if __name__ == "__main__":
    main()
