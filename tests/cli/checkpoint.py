# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints without fp8conv, for the cases.

checkpoint.py make FILE NAME=DTYPE:SHAPE[:VALUE]...   a file of F32 values that count up, or of one value
checkpoint.py big DIR SHARDS MIB                      a directory of shards of MIB MiB each, of BF16 weights
checkpoint.py list PATH                               name, type, shape and CRC of every tensor, by name
checkpoint.py total PATH                              bytes of all tensors
"""
import json
import pathlib
import struct
import sys
import zlib


def read(path):
    """(name, dtype, shape, data) of every tensor of a file or a directory."""
    path = pathlib.Path(path)
    files = sorted(path.glob("model*.safetensors")) if path.is_dir() else [path]
    for file in files:
        data = file.read_bytes()
        n = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + n])
        header.pop("__metadata__", None)
        for name, t in header.items():
            begin, end = t["data_offsets"]
            yield name, t["dtype"], t["shape"], data[8 + n + begin:8 + n + end]


def number(dtype, value):
    if dtype == "F32":
        return struct.pack("<f", value)
    if dtype == "F16":
        return struct.pack("<e", value)
    return struct.pack("<f", value)[2:]                       # BF16, of values that it holds exactly


def make(file, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for spec in tensors:
        name, _, rest = spec.partition("=")
        dtype, shape, *value = rest.split(":")
        shape = [int(n) for n in shape.split("x")]
        count = 1
        for n in shape:
            count *= n
        values = [float(value[0])] * count if value else [i % 251 - 125 for i in range(count)]
        block = b"".join(number(dtype, v) for v in values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(block)]}
        data += block
    text = json.dumps(header).encode()
    pathlib.Path(file).write_bytes(len(text).to_bytes(8, "little") + text + data)


def big(folder, n_shards, mib):
    folder = pathlib.Path(folder)
    folder.mkdir()
    block = bytes(range(64)) * (1 << 14)                      # 1 MiB, no NaN and no infinity
    weight_map = {}
    for i in range(n_shards):
        file = f"model-{i + 1:05}-of-{n_shards:05}.safetensors"
        names = [f"model.layers.{i}.block_{t}.o_proj.weight" for t in range(mib)]
        weight_map.update(dict.fromkeys(names, file))
        header = json.dumps({name: {"dtype": "BF16", "shape": [512, 1024], "data_offsets": [t << 20, t + 1 << 20]}
                             for t, name in enumerate(names)}).encode()
        (folder / file).write_bytes(len(header).to_bytes(8, "little") + header + block * mib)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text('{"model_type": "llama"}')


def main():
    command, path, *rest = sys.argv[1:]
    if command == "make":
        make(path, rest)
    elif command == "big":
        big(path, *map(int, rest))
    elif command == "list":
        for name, dtype, shape, data in sorted(read(path)):
            print(name, dtype, "x".join(map(str, shape)), f"{zlib.crc32(data):08x}", sep="\t")
    elif command == "total":
        print(sum(len(data) for *_, data in read(path)))


if __name__ == "__main__":
    main()
