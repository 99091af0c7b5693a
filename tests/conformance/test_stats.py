# SPDX-License-Identifier: Apache-2.0
"""`fp8conv inspect --stats` against torch, the expected SQNR against the table of all codes."""
import json
import pathlib
from collections.abc import Iterator

import torch
from safetensors.torch import load_file

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


def main() -> None:
    if folder := sample("tiny-llama"):
        for case in (*map(lambda recipe: next(c for c in pairs() if c.recipe == recipe), RECIPES),
                     tuned(plain("mxfp8", "hf"), "--fp8-format", "e5m2", fp8="e5m2")):
            report(f"inspect --stats: {case}", stats(folder, case))
    finish()


if __name__ == "__main__":
    main()
