"""What people write: a loop over tensors with torch, 128x128 blocks, one file at a time.

    torch_loop.py MODEL OUT
    torch_loop.py MODEL --calls     the weights in memory, by this loop and by fp8conv.quantize() of Python; prints the
                                    seconds of each

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


def time_calls(source: str) -> None:
    """One call for each weight.  The loop pads what is no multiple of a block."""
    import time

    import fp8conv
    weights = []
    for name in sorted(os.listdir(source)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(source, name), framework="pt") as file:
                weights += [w.clone() for w in map(file.get_tensor, file.keys())
                            if w.dim() == 2]

    def padded(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, cols = weight.shape
        codes, scale_inv = quantize(torch.nn.functional.pad(weight, (0, -cols % BLOCK, 0, -rows % BLOCK)))
        return codes[:rows, :cols].contiguous(), scale_inv

    for function in (padded, fp8conv.quantize):
        function(weights[0])
        begin = time.perf_counter()
        for weight in weights:
            function(weight)
        print(time.perf_counter() - begin)


def main() -> None:
    source, target = sys.argv[1:]
    if target == "--calls":
        time_calls(source)
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
