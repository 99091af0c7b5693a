# SPDX-License-Identifier: Apache-2.0
"""FP8 weights that have their recipe already, made and compared without fp8conv.

same_codes.py make KIND DIR         a checkpoint in DIR
same_codes.py check KIND OUT HOW    HOW "kept": OUT has its codes and the values of its scales; "again": no scale of them

The largest code of each tile is 224 of 448, so that to quantize again halves every scale.
"""
import json
import math
import pathlib
import random
import sys

import checkpoint
import fp8

Q, K, V = (f"model.layers.0.self_attn.{x}_proj" for x in "qkv")
TENSOR = fp8.HF
# word of the scale, its type, rows and columns of a tile (0: all), scales of each weight as powers of two (else floats),
# quantization_config; type of codes
KINDS = {
    "deepseek-v4": ("scale", "F8_E8M0", (128, 128), True, fp8.BLOCKS | {"scale_fmt": "ue8m0"}, "F8_E4M3"),
    "blocks": ("weight_scale_inv", "F32", (128, 128), True, fp8.BLOCKS, "F8_E4M3"),
    "blocks-float": ("weight_scale_inv", "F32", (128, 128), False, fp8.BLOCKS, "F8_E4M3"),
    "blocks-64": ("weight_scale_inv", "F32", (64, 64), True, fp8.HF | {"weight_block_size": [64, 64]}, "F8_E4M3"),
    "blocks-e5m2": ("weight_scale_inv", "F32", (128, 128), True, fp8.BLOCKS, "F8_E5M2"),
    "channel": ("weight_scale", "BF16", (1, 0), False, fp8.ct("channel"), "F8_E4M3"),
    "mxfp8": ("weight_scale", "F8_E8M0", (1, 32), True, fp8.modelopt("MXFP8"), "F8_E4M3"),
    "tensor-one": ("weight_scale", "F32", (0, 0), False, TENSOR, "F8_E4M3"),
    "tensor-several": ("weight_scale", "F32", (0, 0), False, TENSOR, "F8_E4M3"),
    "nan": ("weight_scale_inv", "F32", (128, 128), True, fp8.BLOCKS, "F8_E4M3"),
    "nan-scale": ("weight_scale_inv", "F32", (128, 128), True, fp8.BLOCKS, "F8_E4M3"),
}
SHAPES = {Q: (256, 256), K: (128, 256), V: (128, 256)}


def tiles(kind, shape):
    rows, cols = KINDS[kind][2]
    return shape[0] // (rows or shape[0]), shape[1] // (cols or shape[1])


def scales(kind, stem):
    """The bytes of the scales of a weight."""
    _, dtype, _, pow2, _, _ = KINDS[kind]
    r = random.Random(kind if kind == "tensor-one" else kind + stem)
    values = [2.0 ** r.randrange(-12, -4) * (1 if pow2 else 1 + r.randrange(1, 127) / 128)
              for _ in range(math.prod(tiles(kind, SHAPES[stem])))]
    if kind == "nan-scale" and stem == Q:
        values[2] = math.nan
    if dtype == "F8_E8M0":
        return bytes(round(math.log2(value)) + 127 for value in values)
    return checkpoint.pack(dtype, values)


def codes(kind, stem):
    r, (rows, cols) = random.Random(kind + stem + "codes"), SHAPES[stem]
    most = {"F8_E4M3": 0x76, "F8_E5M2": 0x7A}[KINDS[kind][5]]
    data = bytearray(r.randrange(most) | r.randrange(2) << 7 for _ in range(rows * cols))
    tall, wide = (side // n for side, n in zip((rows, cols), tiles(kind, (rows, cols))))
    for row in range(0, rows, tall):
        for col in range(0, cols, wide):
            data[(row + r.randrange(tall)) * cols + col + r.randrange(wide)] = most
    if kind == "nan" and stem == Q:
        data[5 * cols + 7] = 0xFF
    return bytes(data)


def make(kind, folder):
    word, dtype, _, _, config, code_dtype = KINDS[kind]
    folder = pathlib.Path(folder)
    folder.mkdir()
    tensors = {}
    for stem, shape in SHAPES.items():
        sides = [1] if KINDS[kind][2] == (0, 0) else tiles(kind, shape)
        tensors[f"{stem}.{word}"] = dtype, sides, scales(kind, stem)
        tensors[stem + ".weight"] = code_dtype, shape, codes(kind, stem)
    checkpoint.write(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({"hidden_size": 256, "quantization_config": config}, indent=2))


def check(kind, out, how):
    found = checkpoint.read(out)
    for stem in SHAPES:
        dtype, _, stored = found.pop(stem + ".weight")
        scale_dtype, _, data = next(found.pop(stem + word) for word in (".weight_scale_inv", ".weight_scale") if stem + word in found)
        values, wanted = fp8.scale_values(scale_dtype, data), fp8.scale_values(KINDS[kind][1], scales(kind, stem))
        if how == "kept" and (dtype != KINDS[kind][5] or stored != codes(kind, stem) or values != wanted):
            print(f"{kind}: codes or scales of {stem} differ from the source's")
        if how == "again" and stored == codes(kind, stem):
            print(f"{kind}: {stem} has the codes of the source")
    if found:
        print(f"{kind}: {sorted(found)} is too many")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
