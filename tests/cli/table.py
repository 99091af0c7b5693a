# SPDX-License-Identifier: Apache-2.0
"""The n-gram table of Qwen3.8-Flash-Next in four parts over two shards, for the cases.

table.py make DIR            a model with such a table, in BF16
table.py check OUT           the table of OUT is FP8 by one power of two, of the largest value of all parts
table.py plain OUT TYPE      the table of OUT holds the codes of `check` times their scale, in TYPE
table.py kept OUT            the table of OUT is that of the source
"""
import bisect
import json
import math
import pathlib
import random
import sys

import checkpoint
import fp8

ROWS, DIM, N_PARTS = 300, 32, 4
LAYER = "model.language_model.layers.1."
TABLE = LAYER + "ple.ple_embedding.ngram_embedding"
MATRICES = {LAYER + "self_attn.o_proj.weight": (128, 256), LAYER + "mlp.shared_expert.down_proj.weight": (256, 128),
            "lm_head.weight": (64, 128)}
VALUES = [fp8.decode(code, "F8_E4M3") for code in range(0x7F)]      # 0 to 448, in order


def bf16(values):
    return b"".join(fp8.encode(v, "bf16") for v in values)


def parts():
    """The values of each part; the largest of all, which is no power of two times 448, is in the third."""
    r = random.Random("table")
    for i in range(N_PARTS):
        values = checkpoint.unpack("BF16", bf16(r.gauss(0, 0.01) * 4.0 ** (i - 2) for _ in range(ROWS * DIM)))
        if i == 2:
            values[77] = -0.71875
        yield f"{TABLE}.shard_{i}.weight", values


def make(folder):
    folder = pathlib.Path(folder)
    folder.mkdir()
    r, tables = random.Random(1), list(parts())
    weights = [(name, shape, bf16(r.gauss(0, 0.02) for _ in range(math.prod(shape)))) for name, shape in MATRICES.items()]
    tables = [(name, (ROWS, DIM), bf16(values)) for name, values in tables]
    shards = weights[:1] + tables[1:3], weights[1:] + [tables[0], tables[3]]
    checkpoint.write_shards(folder, [{name: ("BF16", shape, data) for name, shape, data in tensors} for tensors in shards])
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen4_exp", "text_config": {"model_type": "qwen4_exp_text"}}) + "\n")


def nearest(value):
    """The code of the nearest number; of two, the even one."""
    at = bisect.bisect_left(VALUES, abs(value))
    if at == len(VALUES):
        at -= 1
    elif at and (abs(value) - VALUES[at - 1], (at - 1) & 1) < (VALUES[at] - abs(value), at & 1):
        at -= 1
    return at | (0x80 if math.copysign(1, value) < 0 else 0)


def expected():
    tables = dict(parts())
    amax = max(abs(v) for values in tables.values() for v in values)
    scale = 2.0 ** math.ceil(math.log2(amax / 448))
    return scale, {name: bytes(nearest(v / scale) for v in values) for name, values in tables.items()}


def compare(out, wanted):
    checkpoint.compare({name: tensor for name, tensor in checkpoint.read(out).items() if name.startswith(TABLE)}, wanted)


def check(out):
    scale, codes = expected()
    wanted = {name: ("F8_E4M3", [ROWS, DIM], block) for name, block in codes.items()}
    wanted[TABLE + ".weight_scale"] = ("BF16", [1], fp8.encode(scale, "bf16"))
    compare(out, wanted)
    config = json.loads((pathlib.Path(out) / "config.json").read_text())["quantization_config"]
    if config.get("modules_to_convert") != ["ngram_embedding"]:
        print("modules_to_convert is", config.get("modules_to_convert"))
    if any("ngram" in name for key in ("modules_to_not_convert", "ignored_layers") for name in config.get(key, ())):
        print("the table is in the list of kept modules")


def plain(out, dtype):
    scale, codes = expected()
    compare(out, {name: (dtype.upper(), [ROWS, DIM], b"".join(fp8.encode(fp8.decode(c, "F8_E4M3") * scale, dtype)
                                                                for c in block)) for name, block in codes.items()})


def kept(out):
    compare(out, {name: ("BF16", [ROWS, DIM], bf16(values)) for name, values in parts()})
    if "modules_to_convert" in (pathlib.Path(out) / "config.json").read_text():
        print("config.json has modules_to_convert")


if __name__ == "__main__":
    {"make": make, "check": check, "plain": plain, "kept": kept}[sys.argv[1]](*sys.argv[2:])
