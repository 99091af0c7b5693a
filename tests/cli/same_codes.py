# SPDX-License-Identifier: Apache-2.0
"""FP8 weights that have their recipe already, made and compared without fp8conv.

same_codes.py make KIND DIR         a checkpoint in DIR
same_codes.py check KIND OUT HOW    HOW "kept": OUT has its codes and the values of its scales; "again": no scale of them
same_codes.py flip DIR NAME [BYTE]  changes the lowest bit of a byte of a tensor

The largest code of each tile is 224 of 448, so that to quantize again halves every scale.
"""
import json
import math
import pathlib
import random
import struct
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
    """The scales of a weight as (bytes, value)."""
    word, dtype, _, pow2, _, _ = KINDS[kind]
    r = random.Random(kind if kind == "tensor-one" else kind + stem)
    out = []
    for _ in range(math.prod(tiles(kind, SHAPES[stem]))):
        value = 2.0 ** r.randrange(-12, -4) * (1 if pow2 else 1 + r.randrange(1, 127) / 128)
        data = {"F32": lambda: struct.pack("<f", value), "BF16": lambda: struct.pack("<f", value)[2:],
                "F8_E8M0": lambda: bytes([round(math.log2(value)) + 127])}[dtype]()
        out.append((data, value))
    if kind == "nan-scale" and stem == Q:
        out[2] = (struct.pack("<f", math.nan), math.nan)
    return out


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
    header, data = {}, b""
    for stem, shape in SHAPES.items():
        for name, tensor_dtype, sides, block in (
                (f"{stem}.{word}", dtype, [1] if KINDS[kind][2] == (0, 0) else tiles(kind, shape),
                 b"".join(scale for scale, _ in scales(kind, stem))),
                (stem + ".weight", code_dtype, shape, codes(kind, stem))):
            header[name] = {"dtype": tensor_dtype, "shape": sides, "data_offsets": [len(data), len(data) + len(block)]}
            data += block
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (folder / "config.json").write_text(json.dumps({"hidden_size": 256, "quantization_config": config}, indent=2))


def check(kind, out, how):
    found = {name: rest for name, *rest in checkpoint.read(out)}
    for stem in SHAPES:
        dtype, _, stored = found.pop(stem + ".weight")
        scale_dtype, _, data = next(found.pop(stem + word) for word in (".weight_scale_inv", ".weight_scale") if stem + word in found)
        values = ([math.ldexp(1.0, e - 127) for e in data] if scale_dtype == "U8" else struct.unpack(f"<{len(data) // 4}f", data))
        wanted = [value for _, value in scales(kind, stem)]
        if how == "kept" and (dtype != KINDS[kind][5] or stored != codes(kind, stem) or list(values) != wanted):
            print(f"{kind}: codes or scales of {stem} differ from the source's")
        if how == "again" and stored == codes(kind, stem):
            print(f"{kind}: {stem} has the codes of the source")
    if found:
        print(f"{kind}: {sorted(found)} is too many")


def flip(folder, name, at="0"):
    path = pathlib.Path(folder) / "model.safetensors"
    data = bytearray(path.read_bytes())
    n = int.from_bytes(data[:8], "little")
    data[8 + n + json.loads(data[8:8 + n])[name]["data_offsets"][0] + int(at)] ^= 1
    path.write_bytes(data)


if __name__ == "__main__":
    {"make": make, "check": check, "flip": flip}[sys.argv[1]](*sys.argv[2:])
