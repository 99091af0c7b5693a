# SPDX-License-Identifier: Apache-2.0
"""Small random models of the architectures in architectures.json, whose names, shapes and configurations transformers wrote.

tiny.py list            the architectures
tiny.py make ARCH DIR   a model
tiny.py ids N...        sequences of N token ids, a line each, as data
"""
import itertools
import json
import math
import pathlib
import random
import re
import sys

import checkpoint

MODELS = json.loads(pathlib.Path(__file__).with_name("architectures.json").read_text())
# The upper half of a BF16: both signs, values from 2^-7 to below 2^-3.
HALVES = bytes((0x3C, 0xBC, 0x3D, 0xBD)[i % 4] for i in range(256))


def numbers(text):
    """"0,2-4": 0, 2, 3 and 4."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def names(pattern):
    """Each name of "a.[0-1].b"."""
    parts = re.split(r"\[([\d,-]+)\]", pattern)
    for places in itertools.product(*(numbers(text) for text in parts[1::2])):
        yield parts[0] + "".join(f"{place}{part}" for place, part in zip(places, parts[2::2]))


def values(name, n, source):
    """Norms and scales are from 0.5 to below 2, so that no layer fades; all else is small."""
    data = bytearray(source.randbytes(2 * n))
    near_one = "norm" in name and name.endswith("weight") or name.endswith(("scale", "scalar"))
    data[1::2] = bytes([0x3F] * n) if near_one else data[1::2].translate(HALVES)
    return bytes(data)


def experts_of_tokens(shape, n_experts):
    """The experts of each token of the vocabulary, which are different ones."""
    return b"".join(((token + i) % n_experts).to_bytes(8, "little") for token in range(shape[0]) for i in range(shape[1]))


def hash_of_ngrams(tensors, name, shape):
    """The integers of a hash whose heads have as many rows each of their table, all together fewer than it has."""
    base, last = name.rsplit(".", 1)
    rows = sum(part[0] for shard, (_, part, _) in tensors.items() if shard.startswith(f"{base}.ngram_embedding.shard_"))
    n_heads = tensors[f"{base}.ngram_heads_offsets"][1][0]
    numbers = {"layer_multipliers": lambda i: 0x1234567890ABCDE1 + 2 * i, "ngram_heads_vocab_sizes": lambda i: rows // n_heads,
               "ngram_heads_offsets": lambda i: i * (rows // n_heads)}
    return b"".join(numbers[last](i).to_bytes(8, "little") for i in range(shape[0]))


def make(arch, folder):
    model, source = MODELS[arch], random.Random(arch)
    folder.mkdir()
    tensors = {name: ("BF16", shape, values(name, math.prod(shape), source))
               for pattern, shape in model["tensors"].items() for name in names(pattern)}
    for name, (_, shape, _) in tensors.items():
        if name.endswith(".tid2eid"):
            tensors[name] = "I64", shape, experts_of_tokens(shape, model["config"]["n_routed_experts"])
        if name.endswith((".layer_multipliers", ".ngram_heads_vocab_sizes", ".ngram_heads_offsets")):
            tensors[name] = "I64", shape, hash_of_ngrams(tensors, name, shape)
    checkpoint.write(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(model["config"]))


if sys.argv[1] == "list":
    print(*MODELS, sep="\n")
elif sys.argv[1] == "ids":
    chosen = random.Random(5)
    for n in sys.argv[2:]:
        print(json.dumps({"input_ids": [chosen.randrange(300) for _ in range(int(n))]}))
else:
    make(sys.argv[2], pathlib.Path(sys.argv[3]))
