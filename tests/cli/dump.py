# SPDX-License-Identifier: Apache-2.0
"""Dumps of activations without fp8conv, for the cases.

dump.py make FILE TOKENS [DTYPE] MODULE=FEATURES...      values drawn by chance, of the file's name,
                                                         the largest among the last tokens
dump.py set FILE MODULE.input VALUE                      its third element becomes VALUE
dump.py check MODEL S.amax FILE...                       prints where the history is not what the dumps and weights say
dump.py own MODEL S.amax                                 prints where its w is not that of the model's tensors
dump.py weights S.amax TABLE                             prints where its w is not that of the table (of fp8.py amax)
"""
import math
import pathlib
import random
import sys
import zlib

import amax
import checkpoint

DTYPES = ("F32", "F16", "BF16", "I32")


def pack(dtype, values):
    return checkpoint.pack(dtype, [int(v) for v in values] if dtype == "I32" else list(values))


def make(path, n_tokens, *rest):
    chance = random.Random(zlib.crc32(pathlib.Path(path).name.encode()))
    n_tokens, dtype, tensors = int(n_tokens), "F32", {}
    for spec in rest:
        module, _, features = spec.partition("=")
        if not features:
            dtype = module
            continue
        n = n_tokens * int(features)
        values = [chance.gauss(0, 1) * (1 + 9 * i / n) for i in range(n)]
        tensors[f"{module}.input"] = dtype, [n_tokens, int(features)], pack(dtype, values)
    checkpoint.write(path, tensors)


def put(path, name, value):
    tensors = checkpoint.read(path)
    dtype, shape, data = tensors[name]
    element = pack(dtype, [float(value)])
    tensors[name] = dtype, shape, data[:2 * len(element)] + element + data[3 * len(element):]
    checkpoint.write(path, tensors)


def product_amax(x, w, k):
    rows = [w[i:i + k] for i in range(0, len(w), k)]
    return max(abs(math.fsum(a * b for a, b in zip(x[t:t + k], row))) for t in range(0, len(x), k) for row in rows)


def check(model, history, *dumps):
    weights = {name: (shape, checkpoint.unpack(dtype, data)) for name, (dtype, shape, data) in checkpoint.read(model).items()
               if dtype in DTYPES and name.endswith(".weight")}
    _, found = amax.read(history)
    for p, path in enumerate(dumps):
        for name, (dtype, shape, data) in checkpoint.read(path).items():
            module, x = name.removesuffix(".input"), checkpoint.unpack(dtype, data)
            _, w = weights[f"{module}.weight"]
            row = amax.unpack(found[f"{module}.amax_history"])[3 * p:3 * p + 3]
            wanted = max(map(abs, x)), max(map(abs, w)), product_amax(x, w, shape[1])
            if row[:2] != [amax.f32(v) for v in wanted[:2]] or abs(row[2] / wanted[2] - 1) > 1e-5:
                print(f"{name} in {path}: {row}, not {wanted}")
            if amax.unpack(found[f"{module}.tokens"])[p] != shape[0]:
                print(f"{name} in {path}: not {shape[0]} tokens")


def own(model, history):
    _, found = amax.read(history)
    for name, (dtype, _, data) in checkpoint.read(model).items():
        history = found.get(name.removesuffix("weight") + "amax_history")
        if history and amax.unpack(history)[1] != amax.f32(max(map(abs, checkpoint.unpack(dtype, data)))):
            print(f"{name}: w is {amax.unpack(history)[1]}, not {max(map(abs, checkpoint.unpack(dtype, data)))}")


def weights(history, table):
    """Lines of module, features, amax."""
    found = amax.read(history)[1]
    for line in pathlib.Path(table).read_text().splitlines():
        module, _, wanted = line.split()
        row = amax.unpack(found[f"{module}.amax_history"])
        if row[1] != float(wanted):
            print(f"{module}: w is {row[1]}, not {wanted}")


if __name__ == "__main__":
    {"make": make, "set": put, "check": check, "weights": weights, "own": own}[sys.argv[1]](*sys.argv[2:])
