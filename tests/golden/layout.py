#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Headers written by the reference serializer, into layout.txt: tests/unit/test_safetensors.c lays their tensors out anew
and must arrive at the same header, byte for byte.  A line is a name, the bytes of data (all zero) and the header, with the
spaces that pad it.

    python layout.py [OUT]        (default: layout.txt beside this script)

Needs safetensors 0.8.0 (TensorSpec).  It writes metadata in the order of a hash map, another one in each call; ours
is sorted, so a file is written again until its keys come sorted.
"""
import ctypes
import json
import pathlib
import sys

from safetensors import TensorSpec, serialize

# Name in the package, bits, by the crate's names: every type the package can write (it has no F6).
TYPES = {
    "bool": 8, "float4_e2m1fn_x2": 8, "uint8": 8, "int8": 8, "float8_e5m2": 8, "float8_e4m3fn": 8,
    "float8_e8m0fnu": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "int16": 16, "uint16": 16, "float16": 16,
    "bfloat16": 16, "int32": 32, "uint32": 32, "float32": 32, "complex64": 64, "float64": 64, "int64": 64,
    "uint64": 64,
}
# Sorted bytewise, not by letter, digit or locale.
NAMES = ["a", "a.b", "a-b", "a_b", "ab", "a.10", "a.9", "B", "b", "Z", "é", "e", "😀", "～", " ", '"', "\\", "/", "",
         "model.layers.10.w", "model.layers.9.w", "model.layers.1.w", "x" * 300, "\u2028"]
SHAPES = [[], [1], [0], [2, 3], [3, 0, 1 << 40], [1, 1, 1, 1, 1, 1, 1, 1], [5, 4]]


def save(tensors, metadata=None):
    """tensors: name -> (type, shape); the data is zero."""
    room = ctypes.create_string_buffer(1 << 12)
    specs = {}
    for name, (dtype, shape) in tensors.items():
        n = TYPES[dtype] // 8
        for d in shape:
            n *= d
        specs[name] = TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(room), data_len=n)
    while True:
        data = serialize(specs, metadata)
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        keys = [k.encode() for k in header.get("__metadata__", {})]
        if keys == sorted(keys):
            return data


def files():
    yield "types", save({f"{prefix}.{dtype}": (dtype, [2, 2]) for prefix in ("b", "a") for dtype in TYPES},
                        {"format": "pt"})
    yield "names", save({name: ("bfloat16", [2]) for name in NAMES if name})
    yield "shapes", save({f"t{i}": (("float32", "uint8")[i % 2], shape) for i, shape in enumerate(SHAPES)},
                         {"format": "pt"})
    yield "metadata", save({"t": ("float32", [1])},
                           {"format": "pt", "Key": "\"\\/\b\f\n\r\t\x01\x1f\x7fé\u2028😀", "": ""})
    yield "nothing", save({})
    for n in range(8):                  # every length of padding
        yield f"padding-{n}", save({"t" * (n + 1): ("uint8", [1])})


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("layout.txt"))
    text = b""
    for name, data in files():
        end = 8 + int.from_bytes(data[:8], "little")
        text += b"%s %d %s\n" % (name.encode(), len(data) - end, data[8:end])
    out.write_bytes(text)


if __name__ == "__main__":
    main()
