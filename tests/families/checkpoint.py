# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of one file, read by hand: headers, and single elements as numbers."""
import json
import math
import mmap
import os
import struct


class Checkpoint:
    """tensors: name to (dtype, shape); at(name, i): element i of it, in row-major order."""

    def __init__(self, folder):
        self.file = open(os.path.join(folder, "model.safetensors"), "rb")
        self.data = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        (size,) = struct.unpack("<Q", self.data[:8])
        header = json.loads(self.data[8:8 + size])
        header.pop("__metadata__", None)
        self.base = 8 + size
        self.tensors = {t: (v["dtype"], tuple(v["shape"])) for t, v in header.items()}
        self.where = {t: v["data_offsets"] for t, v in header.items()}

    def close(self):
        self.data.close()
        self.file.close()

    def raw(self, name):
        first, last = self.where[name]
        return self.data[self.base + first:self.base + last]

    def at(self, name, i):
        dtype = self.tensors[name][0]
        start = self.base + self.where[name][0]
        if dtype == "BF16":
            return struct.unpack("<f", b"\0\0" + self.data[start + 2 * i:start + 2 * i + 2])[0]
        if dtype == "F32":
            return struct.unpack("<f", self.data[start + 4 * i:start + 4 * i + 4])[0]
        if dtype == "F16":
            return struct.unpack("<e", self.data[start + 2 * i:start + 2 * i + 2])[0]
        byte = self.data[start + i]
        return e4m3(byte) if dtype == "F8_E4M3" else math.ldexp(1, byte - 127)


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    value = math.ldexp(8 + mantissa, exponent - 10) if exponent else math.ldexp(mantissa, -9)
    return -value if code & 128 else value


def scale_shape(recipe, form, shape):
    """Of a weight (rows, cols), or of a stack of experts (E, rows, cols)."""
    *stack, rows, cols = shape
    if recipe == "blockwise":
        tall, wide = -(-rows // 128), -(-cols // 128)
        return (tall, 1, wide, 1) if form == "modelopt" else (*stack, tall, wide)
    if recipe == "channelwise":
        return (rows,) if form == "modelopt" else (*stack, rows, 1)
    if recipe == "mxfp8":
        return (*stack, rows, cols // 32)
    return tuple(stack) or (1,)


def scale_index(recipe, scale, shape, e, i, j):
    """Which element of the scale belongs to element (e, i, j)."""
    rows, cols = shape[-2:]
    if recipe == "blockwise":
        tall, wide = -(-rows // 128), -(-cols // 128)
        return (e * tall + i // 128) * wide + j // 128
    if recipe == "channelwise":
        return e * rows + i
    if recipe == "mxfp8":
        return (e * rows + i) * (cols // 32) + j // 32
    return e if math.prod(scale) > 1 else 0
