# SPDX-License-Identifier: Apache-2.0
"""Makes the same experts twice, for the cases: as a family's release holds them, and cut into one tensor for each matrix.

experts.py gpt-oss DIR E H I     DIR/fused: [E, H, 2I] with rows of gate and up in turn, [E, I, H] and biases; DIR/split: P.E.*
experts.py flip FILE NAME        changes the last byte of a tensor
experts.py drop FILE NAME        calls a tensor "dropped", of a name as long
"""
import json
import pathlib
import random
import struct
import sys


def bf16(value):
    return struct.pack("<f", value)[2:]


class Matrix:
    """[rows, cols] of BF16 values, each as its two bytes."""

    def __init__(self, rows, cols, at):
        self.rows, self.cols = rows, cols
        self.data = [[at(r, c) for c in range(cols)] for r in range(rows)]

    def transposed(self):
        return Matrix(self.cols, self.rows, lambda r, c: self.data[c][r])

    def bytes(self):
        return b"".join(b"".join(row) for row in self.data)


def noise(rng, rows, cols):
    """Values whose size differs by row and column, so that no two tiles have one scale."""
    return Matrix(rows, cols, lambda r, c: bf16(rng.gauss(0, 1) * 2.0 ** ((7 * r + 3 * c) % 5) * (1 + r // 64 + c // 64)))


def in_turn(gate, up):
    """g0 u0 g1 u1: the rows of two matrices."""
    return Matrix(2 * gate.rows, gate.cols, lambda r, c: (up if r % 2 else gate).data[r // 2][c])


def write(folder, config, *files):
    """One file, or several with an index; each a list of (name, shape, bytes)."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config) + "\n")
    weight_map = {}
    for i, tensors in enumerate(files):
        name = "model.safetensors" if len(files) == 1 else "model-%05d-of-%05d.safetensors" % (i + 1, len(files))
        header, data = {"__metadata__": {"format": "pt"}}, b""
        for tensor, shape, block in tensors:
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(block)]}
            data += block
            weight_map[tensor] = name
        text = json.dumps(header).encode()
        (folder / name).write_bytes(len(text).to_bytes(8, "little") + text + data)
    if len(files) > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def change(file, name, drop):
    data = bytearray(pathlib.Path(file).read_bytes())
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    if drop:
        at = data.index(('"%s"' % name).encode())
        data[at + 1:at + 1 + len(name)] = b"dropped".ljust(len(name), b"_")
    else:
        data[8 + n + header[name]["data_offsets"][1] - 1] ^= 1
    pathlib.Path(file).write_bytes(data)


def gpt_oss(folder, n_experts, hidden, width):
    prefix, rng = "model.layers.0.mlp.experts", random.Random(1)
    stacked, split = {}, []
    for e in range(n_experts):
        parts = {"gate": noise(rng, width, hidden), "up": noise(rng, width, hidden), "down": noise(rng, hidden, width)}
        biases = {name: noise(rng, part.rows, 1) for name, part in parts.items()}
        for name in parts:
            split.append(("%s.%d.%s_proj.weight" % (prefix, e, name), [parts[name].rows, parts[name].cols], parts[name].bytes()))
            split.append(("%s.%d.%s_proj.bias" % (prefix, e, name), [parts[name].rows], biases[name].bytes()))
        for name, value in (("gate_up_proj", in_turn(parts["gate"], parts["up"]).transposed()),
                            ("gate_up_proj_bias", in_turn(biases["gate"], biases["up"])),
                            ("down_proj", parts["down"].transposed()),
                            ("down_proj_bias", biases["down"])):
            stacked[name] = stacked.get(name, b"") + value.bytes()
    shapes = {"gate_up_proj": [n_experts, hidden, 2 * width], "gate_up_proj_bias": [n_experts, 2 * width],
              "down_proj": [n_experts, width, hidden], "down_proj_bias": [n_experts, hidden]}
    config = {"model_type": "gpt_oss", "hidden_size": hidden, "intermediate_size": width}
    fused = [("%s.%s" % (prefix, name), shapes[name], data) for name, data in stacked.items()]
    write(folder / "fused", config, fused[::2], fused[1::2])      # biases in another file than their experts
    write(folder / "split", config, split)


if __name__ == "__main__":
    if sys.argv[1] in ("flip", "drop"):
        change(sys.argv[2], sys.argv[3], sys.argv[1] == "drop")
    else:
        {"gpt-oss": gpt_oss}[sys.argv[1]](pathlib.Path(sys.argv[2]), *(int(n) for n in sys.argv[3:]))
