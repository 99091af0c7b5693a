# SPDX-License-Identifier: Apache-2.0
"""Amax histories without fp8conv, for the cases: fp8conv-amax(5), and the formulas of fp8conv-recipes(7) in fp32.

amax.py make MODEL FILE [KEY=VALUE]...    a history of MODEL: amax of weights as they are, the others drawn by chance
    passes=3 seed=1 len=1024 histogram=0  how much, and whether there are histograms
    drop=MODULE quiet=MODULE              one that is left out; one that no token reached
    inf=MODULE                            one whose last x is infinite
    model=HEX precision=bf16              what the metadata says
amax.py merge append|ranks FILE A B...    what `merge` should write
amax.py same A B                          prints how the tensors and metadata of two histories differ
amax.py close A B by=BOUND                   the same for passes that two backends ran: amaxes may differ by BOUND of their size
amax.py fingerprint MODEL                 of a checkpoint
amax.py own MODEL FILE                     prints where w is not that of the tensors of MODEL
amax.py scales MODEL FILE OUT KEY=VALUE...   prints where the scales of the FP8 checkpoint OUT, made of MODEL with the
    history FILE, are not what the formulas say
    algo=max margin=0 min_tokens=1 uncovered=error kv=0
"""
import hashlib
import math
import random
import re
import struct
import sys

import checkpoint
from fp8 import f32

BINS = 2048
GROUPS = [("q_proj", "k_proj", "v_proj"), ("q_a_proj", "kv_a_proj_with_mqa"), ("gate_proj", "up_proj")]


def read(path):
    """Metadata, {name: (dtype, shape, data)} of a file, or of the files of a directory."""
    metadata = {}
    for more, _ in checkpoint.files(path):
        metadata |= more
    return metadata, checkpoint.read(path)


def write(path, metadata, tensors):
    """As the reference serializer: by type (U64, I64, F32), then by name."""
    order = sorted(tensors, key=lambda name: (["U64", "I64", "F32"].index(tensors[name][0]), name.encode()))
    checkpoint.write(path, {name: tensors[name] for name in order}, dict(sorted(metadata.items())), 8)


def pack(dtype, shape, values):
    return dtype, shape, checkpoint.pack(dtype, values)


def unpack(tensor):
    dtype, _, data = tensor
    return checkpoint.unpack(dtype, data)


def fingerprint(model):
    tensors = read(model)[1]
    n, digest = len(tensors), hashlib.sha256()
    for i, name in enumerate(sorted(tensors, key=str.encode)):
        dtype, shape, data = tensors[name]
        digest.update(name.encode() + b"\0" + dtype.encode() + b"\0" + struct.pack("<Q", len(shape)))
        digest.update(struct.pack(f"<{len(shape)}Q", *shape))
        if n <= 4096 or i == 0 or i * 4096 // n != (i - 1) * 4096 // n:
            at = max(0, (len(data) - 4096) // 2)
            digest.update(data[at:at + 4096])
    return digest.hexdigest()[:32]


def bf16_amax(data):
    bits = max((b & 0x7fff for b in struct.unpack(f"<{len(data) // 2}H", data)), default=0)
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def weights(model):
    """{module: amax} of the BF16 matrices of a model, one for each expert."""
    found = {}
    for name, (dtype, shape, data) in read(model)[1].items():
        if len(shape) == 2 and name.endswith(".weight") and "embed" not in name:
            found[name[:-7]] = bf16_amax(data)
        if len(shape) == 3:                                  # Qwen3-MoE, fused: [experts, out, in]
            base, size = name.rsplit(".", 1)[0], len(data) // shape[0]
            for e in range(shape[0]):
                block = data[e * size:(e + 1) * size]
                if name.endswith("gate_up_proj"):
                    found[f"{base}.{e}.gate_proj"] = bf16_amax(block[:size // 2])
                    found[f"{base}.{e}.up_proj"] = bf16_amax(block[size // 2:])
                else:
                    found[f"{base}.{e}.down_proj"] = bf16_amax(block)
    return found


def histogram(chance, n):
    """Counts of n magnitudes, of which few are far out."""
    counts = [0] * BINS
    for _ in range(n):
        value = f32(chance.uniform(0.01, 8) * (1 + chance.random() if chance.random() < 0.004 else 1))
        counts[struct.unpack("<I", struct.pack("<f", value))[0] >> 20] += 1
    return counts


def make(model, file, passes="3", seed="1", len="1024", histogram_="0", drop="", quiet="", inf="", model_="",
         precision="bf16"):
    passes, chance, tensors = int(passes), random.Random(int(seed)), {}
    rows = min(passes, int(len))

    def site(name, suffix, triple, tokens):
        tensors[name + suffix] = pack("F32", [rows, 3], [f32(v) for _ in range(rows) for v in triple()])
        tensors[name + ".tokens"] = pack("I64", [rows], [tokens] * rows)

    for name, amax in sorted(weights(model).items()):
        attention = name.rsplit(".", 1)[0]
        if name.endswith("q_proj"):
            site(attention, ".amax_history_qkv", lambda: [chance.uniform(1, 9) for _ in range(3)], 16)
        if name == drop:
            continue
        x = 0 if name == quiet else 1
        site(name, ".amax_history", lambda: [x * chance.uniform(1, 99), amax, x * chance.uniform(1, 99)], 16 * x)
        if name == inf:
            values = unpack(tensors[name + ".amax_history"])
            values[-3] = math.inf
            tensors[name + ".amax_history"] = pack("F32", [rows, 3], values)
        if histogram_ == "1":
            counts = histogram(chance, 400 * x), histogram(chance, 400 * x)
            tensors[name + ".histogram"] = pack("U64", [BINS, 2], [c for pair in zip(*counts) for c in pair])
            for column in (0, 2):                            # a history that goes with it: the upper edge of the last bin
                last = max((b for b in range(BINS) if counts[column // 2][b]), default=0)
                values = unpack(tensors[name + ".amax_history"])
                values[column] = struct.unpack("<f", struct.pack("<I", ((last + 1) << 20) - 7))[0] if x else 0
                for row in range(1, rows):
                    values[3 * row + column] = values[column] / 2
                tensors[name + ".amax_history"] = pack("F32", [rows, 3], values)
    write(file, {"format": "pt", "fp8conv_amax": "1", "model": model_ or fingerprint(model),
                 "data": hashlib.sha256(seed.encode()).hexdigest()[:32], "tokens": str(16 * passes), "seq_len": "16",
                 "precision": precision, "backend": "cpu", "tool": "amax.py", "passes": str(passes),
                 "amax_history_len": len}, tensors)


def merge(how, file, *paths):
    metadata, tensors = read(paths[0])
    for path in paths[1:]:
        more, others = read(path)
        metadata["data"] = "%032x" % ((int(metadata["data"], 16) + int(more["data"], 16)) % 2**128)
        metadata["tokens"] = str(int(metadata["tokens"]) + int(more["tokens"]))
        metadata["seq_len"] = str(max(int(metadata["seq_len"]), int(more["seq_len"])))
        metadata["amax_history_len"] = str(max(int(metadata["amax_history_len"]), int(more["amax_history_len"])))
        metadata["backend"] = "+".join(sorted(set((metadata["backend"] + "+" + more["backend"]).split("+"))))
        if how == "append":
            metadata["passes"] = str(int(metadata["passes"]) + int(more["passes"]))
        for name, tensor in tensors.items():
            a, b = unpack(tensor), unpack(others[name])
            dtype, shape, _ = tensor
            if how == "append" and dtype != "U64":
                rows = min(shape[0] + others[name][1][0], int(metadata["amax_history_len"]))
                width = shape[1] if len(shape) > 1 else 1
                tensors[name] = pack(dtype, [rows, *shape[1:]], (a + b)[-rows * width:])
            else:
                join = max if dtype == "F32" else int.__add__
                tensors[name] = pack(dtype, shape, [join(x, y) for x, y in zip(a, b)])
    write(file, metadata, tensors)


def same(one, other):
    (a, x), (b, y) = read(one), read(other)
    for key in sorted((a.keys() | b.keys()) - {"tool"}):
        if a.get(key) != b.get(key):
            print(f"metadata {key}: {a.get(key)} in {one}, {b.get(key)} in {other}")
    for name in sorted(x.keys() | y.keys()):
        if x.get(name) != y.get(name):
            print(f"tensor {name} differs in {one} and {other}")


def close(one, other, by):
    """Histograms are left out: a value beside the border of a bin may be counted in the next."""
    (a, x), (b, y) = read(one), read(other)
    n = 0
    for key in sorted((a.keys() | b.keys()) - {"tool", "backend"}):
        if a.get(key) != b.get(key):
            print(f"metadata {key}: {a.get(key)} in {one}, {b.get(key)} in {other}")
    for name in sorted(x.keys() | y.keys()):
        if name not in x or name not in y or x[name][:2] != y[name][:2]:
            print(f"tensor {name} is not the same in {one} and {other}")
        elif x[name][0] == "F32":
            count = len(x[name][2]) // 4
            for i, (p, q) in enumerate(zip(*(struct.unpack(f"<{count}f", t[name][2]) for t in (x, y)))):
                n += 1
                if not abs(p - q) <= float(by) * max(abs(p), abs(q)):
                    print(f"{name}: element {i} is {p} in {one}, {q} in {other}")
        elif not name.endswith(".histogram") and x[name] != y[name]:
            print(f"tensor {name} differs in {one} and {other}")
    if not n:
        print(f"{one} has no amax")


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def group_of(module):
    """Whatever engines merge with it, itself included."""
    parent, _, name = module.rpartition(".")
    for group in GROUPS:
        if name in group:
            return [f"{parent}.{member}" for member in group]
    return [module]


def scale_inv(amax, margin):
    if amax == 0:
        return 1.0
    return f32(1 / f32(448 * 2.0**-margin / amax))


def percentile(counts, most, share):
    """The upper edge of the first bin up to which `share` percent of the values lie, within the maximum."""
    need, seen = -(-sum(counts) * round(share * 10**6) // 10**8), 0
    for b, n in enumerate(counts):
        seen += n
        if n and seen >= need:
            return min(float_of((b + 1) << 20), most)
    return most


def e4m3(v):
    """A magnitude rounded to E4M3, as a number."""
    if v == 0:
        return 0.0
    step = 2.0**(max(math.frexp(v)[1] - 1, -6) - 3)
    return min(round(v / step) * step, 448.0)                # round() is to even, and the quotient is exact


def squares(counts, amax):
    scale = f32(448 / amax)
    inverse, total = f32(1 / scale), 0.0
    for b, n in enumerate(counts):
        if n:
            points = [float_of(b << 20 | (2 * i + 1) << 16) for i in range(8)]
            total += n / 8 * sum((x - e4m3(f32(x * scale)) * inverse)**2 for x in points)
    return total


def least_squares(counts, most):
    """The maximum, or one of the 32 edges below it."""
    top = struct.unpack("<I", struct.pack("<f", most))[0] >> 20
    found = [most] + [float_of((top - i) << 20) for i in range(32) if top > i]
    return min(found, key=lambda amax: squares(counts, amax))  # of equals the first


class History:
    def __init__(self, path):
        self.tensors = read(path)[1]

    def rows(self, module, suffix=".amax_history"):
        values = unpack(self.tensors[module + suffix])
        return [values[i:i + 3] for i in range(0, len(values), 3)]

    def tokens(self, module):
        return sum(unpack(self.tensors[module + ".tokens"]))

    def amax(self, module, column, algo, suffix=".amax_history"):
        values = [row[column] for row in self.rows(module, suffix)]
        if algo == "most-recent":
            return next((v for v in reversed(values) if v), 0.0)
        if algo.startswith("percentile=") and column == 0 and suffix == ".amax_history":
            counts = unpack(self.tensors[module + ".histogram"])[0::2]
            return percentile(counts, max(values), float(algo.split("=")[1]))
        if algo == "mse" and column == 0 and suffix == ".amax_history":
            return least_squares(unpack(self.tensors[module + ".histogram"])[0::2], max(values))
        return max(values)


def expected_x(history, module, algo, min_tokens, uncovered):
    """amax of x; None: the module has no static scale."""
    if history.tokens(module) >= min_tokens:
        return history.amax(module, 0, algo)
    if uncovered != "group-max":
        return None
    like = re.sub(r"\.experts\.\d+\.", r".experts.N.", module)
    names = [n[:-13] for n in history.tensors if n.endswith(".amax_history")]
    return max(history.amax(n, 0, algo) for n in names
               if re.sub(r"\.experts\.\d+\.", r".experts.N.", n) == like and history.tokens(n) >= min_tokens)


def scales(model, file, out, algo="max", margin="0", min_tokens="1", uncovered="error", kv="0"):
    history, tensors, margin = History(file), read(out)[1], int(margin)
    n = 0
    for name, (dtype, _, data) in tensors.items():
        if not name.endswith("_scale") or dtype != "F32":
            continue
        module, _, what = name.rpartition(".")
        if what in ("k_scale", "v_scale"):
            attention = re.sub(r"\.[kv]_proj$", "", module)
            column = 1 if what[0] == "k" else 2
            if f"{attention}.latent_cache.tokens" in history.tensors:    # one vector, which has one scale
                attention, column = f"{attention}.latent_cache", 1
            amax = history.amax(attention, column, algo, ".amax_history_qkv")
        else:
            members = [m for m in group_of(module) if m + ".weight" in tensors]
            if what == "input_scale":
                amax = max(expected_x(history, m, algo, int(min_tokens), uncovered) for m in members)
            else:
                amax = max(history.amax(m, 1, algo) for m in members)
        n += 1
        wanted, found = scale_inv(amax, margin), struct.unpack("<f", data)[0]
        if wanted != found:
            print(f"{name} is {found}, not {wanted} (amax {amax})")
    if not n:
        print(f"{out} has no scales")


def own(model, history):
    """Prints where w of the history is not that of the model's tensors."""
    _, found = read(history)
    for name, (dtype, _, data) in checkpoint.read(model).items():
        row = found.get(name.removesuffix("weight") + "amax_history")
        amax = max(map(abs, checkpoint.unpack(dtype, data)))
        if row and unpack(row)[1] != f32(amax):
            print(f"{name}: w is {unpack(row)[1]}, not {amax}")


def main():
    command, *args = sys.argv[1:]
    plain = [a for a in args if not re.match(r"[a-z_]+=", a)]
    keys = dict(a.split("=", 1) for a in args if a not in plain)
    if command == "make":
        renamed = {"histogram": "histogram_", "model": "model_"}
        make(*plain, **{renamed.get(k, k): v for k, v in keys.items()})
    elif command == "fingerprint":
        print(fingerprint(*plain))
    else:
        {"merge": merge, "same": same, "close": close, "scales": scales, "own": own}[command](*plain, **keys)


if __name__ == "__main__":
    main()
