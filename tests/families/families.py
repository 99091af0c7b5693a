#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the cases as small checkpoints, each with what `quantize` must do with its tensors.

    python families.py OUT [NAME...]      OUT/NAME/{config.json,model.safetensors,expected.json}
    python families.py --list

Values are Gaussian, the same on every run.
"""
import json
import math
import os
import random
import struct
import sys

from cases import CASES

WIDTH = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "I8": 1, "I32": 4, "I64": 8, "F8_E4M3": 1, "F8_E8M0": 1}
PERIOD = 8191                           # a prime, so that rows and columns differ


def block(dtype):
    """PERIOD values, which a tensor repeats."""
    rng = random.Random(dtype)
    if dtype == "BF16":
        return b"".join(struct.pack("<f", rng.gauss(0, 0.02))[2:] for _ in range(PERIOD))
    if dtype in ("F32", "F16"):
        return b"".join(struct.pack("<f" if dtype == "F32" else "<e", rng.gauss(0, 0.02)) for _ in range(PERIOD))
    if dtype == "scales":               # of MXFP4: 2^-9 to 2^-2
        return bytes(rng.randrange(118, 126) for _ in range(PERIOD))
    return bytes(rng.randrange(256) for _ in range(PERIOD * WIDTH[dtype]))


BLOCKS = {}


def values(name, dtype, shape, tensors):
    if name.endswith("weight_shape"):
        rows, words = tensors[name[:-5] + "packed"][1]
        return struct.pack("<2i", rows, words * 8)
    size = math.prod(shape) * WIDTH[dtype]
    kind = "scales" if dtype == "U8" and name.endswith("_scales") else dtype
    if kind not in BLOCKS:
        BLOCKS[kind] = block(kind)
    start = len(name) * 97 % PERIOD * WIDTH[dtype]
    return (BLOCKS[kind] * (size // len(BLOCKS[kind]) + 2))[start:start + size]


def write(folder, one):
    os.makedirs(folder, exist_ok=True)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape) in one["tensors"].items():
        size = math.prod(shape) * WIDTH[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, (dtype, shape) in one["tensors"].items():
            f.write(values(name, dtype, shape, one["tensors"]))
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(one["config"], f, indent=2)
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump(one["expected"], f, indent=1)


def main(argv):
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    if argv[0] == "--list":
        print("\n".join(CASES))
        return 0
    unknown = [n for n in argv[1:] if n not in CASES]
    if unknown:
        print("families.py: no family %r; --list shows them" % unknown[0], file=sys.stderr)
        return 2
    for name in argv[1:] or CASES:
        write(os.path.join(argv[0], name), CASES[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
