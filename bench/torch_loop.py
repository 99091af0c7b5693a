"""What people write: a loop over tensors with torch, 128x128 blocks, one file at a time.

    torch_loop.py MODEL OUT
    torch_loop.py MODEL --calls N   the weights in memory, by this loop, by fp8conv.quantize() of Python, and by it into
                                    the tensors of the round before; N rounds in turn: the seconds of each, a line a round

The layout of DeepSeek-V3's checkpoints: codes under the weight's name, `weight_scale_inv` in fp32.
It is here to be timed; fp8conv shares nothing with it.  --calls wants the module on PYTHONPATH.
"""
import json
import os
import shutil
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file

BLOCK = 128
E4M3_MAX = 448.0


def quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (rows, cols) and scale_inv (rows / 128, cols / 128) of a bf16 matrix."""
    rows, cols = weight.shape
    blocks = weight.float().view(rows // BLOCK, BLOCK, cols // BLOCK, BLOCK)
    amax = blocks.abs().amax(dim=(1, 3), keepdim=True).clamp(min=1e-12)
    scale_inv = amax / E4M3_MAX
    codes = (blocks / scale_inv).view(rows, cols).to(torch.float8_e4m3fn)
    return codes, scale_inv.view(rows // BLOCK, cols // BLOCK)


def is_linear(name: str, weight: torch.Tensor) -> bool:
    return (name.endswith("_proj.weight") and weight.dim() == 2
            and all(side % BLOCK == 0 for side in weight.shape))


def convert_file(source: str, target: str) -> dict[str, int]:
    """Bytes of each tensor written."""
    tensors = {}
    with safe_open(source, framework="pt") as file:
        for name in file.keys():
            weight = file.get_tensor(name)
            if is_linear(name, weight):
                tensors[name], tensors[name + "_scale_inv"] = quantize(weight)
            else:
                tensors[name] = weight
    save_file(tensors, target, metadata={"format": "pt"})
    return {name: tensor.nbytes for name, tensor in tensors.items()}


def padded(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """quantize() of a matrix of any shape."""
    rows, cols = weight.shape
    if rows % BLOCK == 0 and cols % BLOCK == 0:
        return quantize(weight)
    codes, scale_inv = quantize(torch.nn.functional.pad(weight, (0, -cols % BLOCK, 0, -rows % BLOCK)))
    return codes[:rows, :cols].contiguous(), scale_inv


def time_calls(source: str, n_rounds: int) -> None:
    """One call for each weight; a first round is not counted."""
    import time

    import fp8conv
    weights = []
    for name in sorted(os.listdir(source)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(source, name), framework="pt") as file:
                weights += [w.clone() for w in map(file.get_tensor, file.keys())
                            if w.dim() == 2]
    made = [fp8conv.quantize(weight) for weight in weights]

    def loop() -> None:
        for weight in weights:
            padded(weight)

    def calls() -> None:
        for weight in weights:
            fp8conv.quantize(weight)

    def again() -> None:
        for weight, out in zip(weights, made):
            fp8conv.quantize(weight, out=out)

    for i in range(n_rounds + 1):
        seconds = []
        for function in (loop, calls, again):
            begin = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - begin)
        if i:
            print(*seconds)


def main() -> None:
    source, target = sys.argv[1:3]
    if target == "--calls":
        time_calls(source, int(sys.argv[3]))
        return
    os.makedirs(target, exist_ok=True)
    sizes, weight_map = {}, {}
    for name in sorted(os.listdir(source)):
        if name.endswith(".safetensors"):
            written = convert_file(os.path.join(source, name), os.path.join(target, name))
            sizes |= written
            weight_map |= dict.fromkeys(written, name)
        elif not name.endswith(".index.json"):
            shutil.copyfile(os.path.join(source, name), os.path.join(target, name))
    with open(os.path.join(target, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}, file)
    with open(os.path.join(source, "config.json")) as file:
        config = json.load(file)
    config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                     "weight_block_size": [BLOCK, BLOCK]}
    with open(os.path.join(target, "config.json"), "w") as file:
        json.dump(config, file, indent=2)


if __name__ == "__main__":
    main()
