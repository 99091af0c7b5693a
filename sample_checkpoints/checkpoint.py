# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of made-up numbers: every tensor is drawn from its own generator, seeded by its name, so adding one changes no
other.  np.random.RandomState is used because numpy has frozen its streams.
"""
import json
import typing
import zlib

import numpy as np

# The order in which the reference serializer lays out types; within one, tensors lie by name.
LAYOUT = ["I64", "F64", "F32", "I32", "BF16", "F16", "I8", "U8", "BOOL"]
FLT_MAX = np.finfo(np.float32).max


class Tensor(typing.NamedTuple):
    dtype: str
    data: np.ndarray                        # BF16 is held as its bits, uint16


# Numbers

def rng(name):
    return np.random.RandomState(zlib.crc32(name.encode()))


def bf16(x):
    """fp32 to BF16, round to nearest even; x is finite and far from overflow."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return Tensor("BF16", np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, np.uint16))


def f16(x):
    return Tensor("F16", np.asarray(x, np.float16))


def f32(x):
    return Tensor("F32", np.asarray(x, np.float32))


def normal(name, shape, std=0.02):
    return (rng(name).standard_normal(shape) * std).astype(np.float32)


def weight(name, shape, std=0.02):
    """Gaussian with one outlier of 5 to 20 standard deviations in about 4096 elements."""
    x = normal(name, shape, std)
    r = rng(name + " outliers")
    where = r.randint(0, x.size, max(1, x.size // 4096))
    x.reshape(-1)[where] = std * r.uniform(5, 20, where.size) * r.choice([-1, 1], where.size)
    return x


def gain(name, n):
    """A norm's weight."""
    return 1 + normal(name, n, 0.1)


def with_amax(name, shape, amax):
    """Gaussian, scaled so that the largest magnitude is fp32(amax) exactly."""
    x = normal(name, shape, 1.0).astype(np.float64)
    top = np.unravel_index(np.abs(x).argmax(), x.shape)
    x *= float(amax) / np.abs(x[top])
    x[top] = amax
    return x.astype(np.float32)


def subnormal_bits(name, shape, n_mantissa):
    """Subnormal floats of 16 bits, as bits: exponent 0, any mantissa but 0, any sign."""
    r = rng(name)
    return (r.randint(1, 1 << n_mantissa, shape) | r.randint(0, 2, shape) << 15).astype(np.uint16)


# Files

def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_safetensors(path, tensors, metadata=None, ascii_header=False):
    """The reference's layout.  ascii_header: names escaped (\\u00e9), and listed against the
    order of the data, both of which a reader must take."""
    order = sorted(tensors, key=lambda name: (LAYOUT.index(tensors[name].dtype), name.encode()))
    header, end = {}, 0
    for name in order:
        dtype, data = tensors[name]
        begin, end = end, end + data.nbytes
        header[name] = {"dtype": dtype, "shape": data.shape, "data_offsets": [begin, end]}
    if ascii_header:
        header = dict(reversed(header.items()))
    header = {"__metadata__": {"format": "pt", **(metadata or {})}, **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=ascii_header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            data = tensors[name].data
            file.write(data.astype(data.dtype.newbyteorder("<")).tobytes())


def write_checkpoint(out, tensors, in_second=None, second=None):
    """One file; or two and an index, with in_second(name) true for those of the second file and
    `second` holding its further arguments of write_safetensors."""
    out.mkdir(parents=True, exist_ok=True)
    if not in_second:
        write_safetensors(out / "model.safetensors", tensors)
        return
    weight_map = {}
    for i in (0, 1):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        shard = {name: t for name, t in tensors.items() if bool(in_second(name)) == bool(i)}
        write_safetensors(out / file, shard, **(second or {} if i else {}))
        weight_map.update(dict.fromkeys(shard, file))
    write_json(out / "model.safetensors.index.json", {
        "metadata": {"total_size": sum(t.data.nbytes for t in tensors.values())},
        "weight_map": dict(sorted(weight_map.items()))})
