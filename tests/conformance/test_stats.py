# SPDX-License-Identifier: Apache-2.0
"""`fp8conv inspect --stats` against torch, the expected SQNR against the table of all codes; `--recipe`, weights against the
codes that `quantize` writes, inputs against what hooks of torch see."""
import json
import pathlib
import shutil
from collections.abc import Iterator

import numpy as np
import torch
from safetensors.numpy import load_file as numpy_file
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import hooks
from cases import RECIPES, Case, pairs, plain, tuned
from damage import shards
from harness import finish, quantize, report, run, sample, scratch, silence


def expected_noise(codes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """By the table of all finite values: the mean square of the distance to the code, over what is nearest to it."""
    table = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    ladder = torch.unique(table[torch.isfinite(table)])
    middle = (ladder[1:] + ladder[:-1]) / 2
    low = torch.cat([2 * ladder[:1] - middle[:1], middle]) - ladder
    high = torch.cat([middle, 2 * ladder[-1:] - middle[-1:]]) - ladder
    noise = (high ** 3 - low ** 3) / (3 * (high - low))
    return noise[torch.searchsorted(ladder, codes.double())]


def stats(source: pathlib.Path, case: Case) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *case.arguments()))
        found = json.loads(run("inspect", tmp / "out", "--stats", "--json").stdout)["tensors"]
        content: dict[str, torch.Tensor] = {}
        for path in shards(tmp / "out"):
            content |= load_file(path)
        for tensor in found:
            said, data = tensor["stats"], content[tensor["name"]]
            if data.dtype in (torch.bfloat16, torch.float16, torch.float32) and not (
                    abs(said["amax"] - data.abs().max()) <= 1e-8 * said["amax"] and said["nonfinite"] == 0):
                yield f"{tensor['name']}: {said}"
            if not tensor["scale"]:
                continue
            scale = content[tensor["scale_inv"]]
            scale = torch.exp2(scale.float() - 127) if scale.dtype == torch.uint8 else scale.float()
            rows, cols = tensor["scale"]["tile"]
            grid = scale.reshape(-(-data.shape[0] // rows), -1)
            spread = grid.repeat_interleave(rows, 0)[:data.shape[0]].repeat_interleave(cols, 1)[:, :data.shape[1]]
            signal = (data.double() * spread).square()
            noise = expected_noise(data, data.dtype) * spread.double().square()
            largest = torch.finfo(data.dtype).max
            wanted = {"amax": (data.float() * spread).abs().max().item(), "nonfinite": 0,
                      "scale_least": scale.min().item(), "scale_most": scale.max().item(),
                      "saturated": int((data.float().abs() == largest).sum())}
            sqnr = said.pop("expected_sqnr_db")
            if not all(abs(said[key] - wanted[key]) <= 1e-8 * abs(wanted[key]) for key in wanted):
                yield f"{tensor['name']}: {said}, torch {wanted}"
            if abs(sqnr - float(10 * torch.log10(signal.sum() / noise.sum()))) > 1e-4:
                yield f"{tensor['name']}: {sqnr} dB, torch {10 * torch.log10(signal.sum() / noise.sum())}"


def decibels(signal: torch.Tensor, noise: torch.Tensor) -> float:
    return 10 * torch.log10(signal / noise).item()


def with_small(folder: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    """A copy whose matrices have zeros, and values that are small beside their neighbors."""
    shutil.copytree(source, folder)
    rng = torch.Generator().manual_seed(3)
    for path in shards(folder):
        tensors = load_file(path)
        for name, x in tensors.items():
            if x.dim() == 2:
                draw = torch.rand(x.shape, generator=rng)
                tensors[name] = torch.where(draw < 0.2, 0, torch.where(draw < 0.4, x * 2.0 ** -12, x)).to(x.dtype)
        save_file(tensors, path, {"format": "pt"})
    return folder


def weight_losses(model: pathlib.Path, recipe: str) -> Iterator[str]:
    with scratch() as tmp:
        source = with_small(tmp / "model", model)
        yield from silence(quantize(source, tmp / "out", "--recipe", recipe))
        shown = json.loads(run("inspect", source, "--stats", "--recipe", recipe, "--json").stdout)
        scales = {t["name"]: t for t in json.loads(run("inspect", tmp / "out", "--json").stdout)["tensors"] if t["scale"]}
        content: dict[str, torch.Tensor] = {}
        for path in (*shards(source), *shards(tmp / "out")):        # a converted weight takes the place of its source
            content |= {f"{path.parent == source} {name}": tensor for name, tensor in load_file(path).items()}
        if sorted(loss["name"] for loss in shown["losses"]) != sorted(scales) or shown["loss_recipe"] != recipe:
            yield f"{len(shown['losses'])} losses by {shown['loss_recipe']}, {len(scales)} scaled weights"
        for loss in shown["losses"]:
            x, codes = content[f"True {loss['name']}"].double(), content[f"False {loss['name']}"]
            scale = content[f"False {scales[loss['name']]['scale_inv']}"]
            scale = torch.exp2(scale.double() - 127) if scale.dtype == torch.uint8 else scale.double()
            rows, cols = scales[loss["name"]]["scale"]["tile"]
            spread = scale.reshape(-(-x.shape[0] // rows), -1).repeat_interleave(rows, 0)[:x.shape[0]]
            spread = spread.repeat_interleave(cols, 1)[:, :x.shape[1]]
            wanted = {"values": x.numel(),
                      "underflow_percent": 100 * ((codes.float() == 0) & (x != 0)).double().mean().item(),
                      "overflow_percent": 100 * ((x / spread).abs() > 464).double().mean().item(),      # 464: a tie of 448 and 480
                      "sqnr_db": decibels(x.square().sum(), (x - codes.double() * spread).square().sum())}
            if not all(abs(loss[key] - wanted[key]) <= 1e-5 for key in wanted) or not wanted["underflow_percent"]:
                yield f"{loss}, torch {wanted}"


def bin_of(x: torch.Tensor) -> np.ndarray:
    return x.float().abs().numpy().view(np.uint32) >> 20


def amax_of(counts: np.ndarray, most: float, share: float) -> float:
    """The upper edge of the first bin below which that share lies, or the maximum."""
    first = int(np.argmax(np.cumsum(counts) >= share * counts.sum()))
    return min(float(np.array([(first + 1) << 20], np.uint32).view(np.float32)[0]), most)


def input_losses(source: pathlib.Path) -> Iterator[str]:
    """Underflow and overflow within the counts of the bins that their limits split, and of their neighbors: the least values of
    two forward passes in fp32 differ."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    ids = np.random.default_rng(9).integers(0, model.config.vocab_size, (3, 100)).astype(np.int32)
    seen: dict[str, list[torch.Tensor]] = {}
    hooks.watch(model, lambda name, x, y: seen.setdefault(name, []).append(x))
    with torch.no_grad():
        for row in ids:
            model(torch.tensor(row[None].astype(np.int64)))
    with scratch() as tmp:
        np.save(tmp / "ids.npy", ids)
        yield from silence(run("calibrate", source, "--data", tmp / "ids.npy", "--precision", "f32", "--histogram", "--quiet",
                               "-o", tmp / "s.amax"))
        history = numpy_file(tmp / "s.amax")
        for recipe, algo, share in (("current", "max", 1), ("delayed", "max", 1), ("delayed", "percentile=98", 0.98)):
            shown = json.loads(run("inspect", tmp / "s.amax", "--recipe", recipe, "--amax-algo", algo, "--json").stdout)
            if sorted(loss["name"] for loss in shown["losses"]) != sorted(seen):
                yield f"{recipe}: {[loss['name'] for loss in shown['losses']]}, hooks of {sorted(seen)}"
            for loss in shown["losses"]:
                x = torch.cat(seen[loss["name"]])
                scale = 448 / amax_of(history[f"{loss['name']}.histogram"][:, 0],
                                      history[f"{loss['name']}.amax_history"][:, 0].max().item(), share)
                scaled = (x * scale).clamp(-448, 448)
                codes = scaled.to(torch.float8_e4m3fn).float()
                limits = {"underflow": 2.0 ** -10 / scale, "overflow": 464 / scale}
                wanted = {"underflow": (codes == 0) & (x != 0), "overflow": (x * scale).abs() > 464}
                if loss["values"] != x.numel():
                    yield f"{recipe}: {loss}, {x.numel()} values"
                for key, limit in limits.items():
                    share_of_bin = 100 * (np.abs(bin_of(x).astype(int) - bin_of(torch.tensor(limit))) <= 1).mean() + 1e-3
                    if abs(loss[f"{key}_percent"] - 100 * wanted[key].double().mean().item()) > share_of_bin:
                        yield f"{recipe}, {algo}: {loss}, torch {100 * wanted[key].double().mean().item()} of {key}"
                # The noise of values that are spread evenly in their bins is that of these values but for chance, whose
                # deviation is about the root of the sum of fourth powers; 3 % for eight values in the place of all in a bin.
                squares = (x.double() - codes.double() / scale).square()
                noise = x.double().square().sum().item() / 10 ** (loss["sqnr_db"] / 10)
                if abs(noise - squares.sum().item()) > 4 * squares.square().sum().sqrt().item() + 0.03 * noise:
                    yield f"{recipe}, {algo}: {loss}, torch {decibels(x.double().square().sum(), squares.sum())} dB"


def main() -> None:
    if folder := sample("tiny-llama"):
        for case in (*map(lambda recipe: next(c for c in pairs() if c.recipe == recipe), RECIPES),
                     tuned(plain("mxfp8", "hf"), "--fp8-format", "e5m2", fp8="e5m2")):
            report(f"inspect --stats: {case}", stats(folder, case))
        for recipe in ("blockwise", "channelwise", "current", "mxfp8"):
            report(f"inspect --stats --recipe {recipe}", weight_losses(folder, recipe))
        report("inspect of a history --recipe", input_losses(folder))
    finish()


if __name__ == "__main__":
    main()
