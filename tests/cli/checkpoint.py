# SPDX-License-Identifier: Apache-2.0
"""Reads and writes checkpoints without fp8conv, for the cases; the other programs of this folder take the container from here.

checkpoint.py make FILE NAME=DTYPE:SHAPE[:VALUE]...   a file of F32 values that count up, or of one value
checkpoint.py big DIR SHARDS MIB                      a directory of shards of MIB MiB each, of BF16 weights
checkpoint.py list PATH                               name, type, shape and CRC of every tensor, by name
checkpoint.py total PATH                              bytes of all tensors
checkpoint.py same A B                                prints how the tensors of two checkpoints differ
checkpoint.py flip FILE NAME [BYTE]                   changes the lowest bit of a byte of a tensor; -1: of the last
"""
import json
import math
import pathlib
import struct
import sys
import zlib


LETTERS = {"F32": "f", "F16": "e", "I32": "i", "I64": "q", "U64": "Q"}


def pack(dtype, values):
    """BF16 is cut, not rounded: for values that it holds, or where any will do."""
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{LETTERS[dtype]}", *values)


def unpack(dtype, data):
    if dtype == "BF16":
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    letter = LETTERS["F32" if dtype == "BF16" else dtype]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data))


def header(data):
    """What the header of a file says by name, and where the data begin."""
    n = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + n]), 8 + n


def files(path):
    """(metadata, {name: (dtype, shape, data)}) of a file, or of each file of a directory."""
    path = pathlib.Path(path)
    for file in sorted(path.glob("model*.safetensors")) if path.is_dir() else [path]:
        data = file.read_bytes()
        entries, start = header(data)
        metadata = entries.pop("__metadata__", {})
        yield metadata, {name: (t["dtype"], t["shape"], data[slice(*(start + at for at in t["data_offsets"]))])
                         for name, t in entries.items()}


def read(path):
    """{name: (dtype, shape, data)} of all tensors of a file or a directory."""
    found = {}
    for _, tensors in files(path):
        assert not found.keys() & tensors.keys(), f"{path}: two files have the same tensor"
        found |= tensors
    return found


def head(sizes, metadata=None, align=1):
    """What a file of {name: (dtype, shape, bytes of data)} begins with; the header takes a multiple of align bytes."""
    entries, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, (dtype, shape, size) in sizes.items():
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % align)
    return len(text).to_bytes(8, "little") + text


def write(path, tensors, metadata=None, align=1):
    """A file of {name: (dtype, shape, data)}."""
    with open(path, "wb") as file:
        file.write(head({name: (dtype, shape, len(data)) for name, (dtype, shape, data) in tensors.items()}, metadata, align))
        file.writelines(data for _, _, data in tensors.values())


def write_shards(folder, shards, metadata=None):
    """A directory of several files, each of {name: (dtype, shape, data)}, with an index."""
    weight_map = {}
    for i, tensors in enumerate(shards):
        file = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write(folder / file, tensors, metadata)
        weight_map.update(dict.fromkeys(tensors, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def compare(found, wanted, what=""):
    """Prints how tensors {name: (dtype, shape, data)} differ from those that are expected."""
    for name in sorted(found.keys() | wanted.keys()):
        a, b = found.get(name), wanted.get(name)
        if a is None or b is None:
            print(f"{what}{name}: {'missing' if a is None else 'too many'}")
        elif (a[0], list(a[1])) != (b[0], list(b[1])):
            print(f"{what}{name}: {a[0]} {list(a[1])}, not {b[0]} {list(b[1])}")
        elif a[2] != b[2]:
            print(f"{what}{name}: other bytes")


def flip(path, name, byte=0):
    data = bytearray(pathlib.Path(path).read_bytes())
    entries, start = header(data)
    begin, end = entries[name]["data_offsets"]
    data[start + range(begin, end)[int(byte)]] ^= 1
    pathlib.Path(path).write_bytes(data)


def make(file, specs):
    tensors = {}
    for spec in specs:
        name, _, rest = spec.partition("=")
        dtype, shape, *value = rest.split(":")
        shape = [int(n) for n in shape.split("x")]
        count = math.prod(shape)
        values = [float(value[0])] * count if value else [i % 251 - 125 for i in range(count)]
        tensors[name] = dtype, shape, pack(dtype, values)
    write(file, tensors, {"format": "pt"})


def big(folder, n_shards, mib):
    folder = pathlib.Path(folder)
    folder.mkdir()
    block = bytes(range(64)) * (1 << 14)                      # 1 MiB, no NaN and no infinity
    write_shards(folder, [{f"model.layers.{i}.block_{t}.o_proj.weight": ("BF16", [512, 1024], block) for t in range(mib)}
                          for i in range(n_shards)])
    (folder / "config.json").write_text('{"model_type": "llama"}')


def main():
    command, path, *rest = sys.argv[1:]
    if command == "make":
        make(path, rest)
    elif command == "big":
        big(path, *map(int, rest))
    elif command == "list":
        for name, (dtype, shape, data) in sorted(read(path).items()):
            print(name, dtype, "x".join(map(str, shape)), f"{zlib.crc32(data):08x}", sep="\t")
    elif command == "total":
        print(sum(len(data) for _, _, data in read(path).values()))
    elif command == "same":
        compare(read(path), read(*rest))
    elif command == "flip":
        flip(path, *rest)


if __name__ == "__main__":
    main()
