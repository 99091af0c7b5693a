# SPDX-License-Identifier: Apache-2.0
"""Makes the same experts twice, for the cases: as a family's release holds them, and cut into one tensor for each matrix.

experts.py gpt-oss DIR E H I     DIR/fused: [E, H, 2I] with rows of gate and up in turn, [E, I, H] and biases; DIR/split: P.E.*
experts.py step DIR E H I        DIR/stack: Step's X.moe.{gate,up,down}_proj.weight, [E, I, H] and [E, H, I]; DIR/split: P.E.*
experts.py granite DIR E H I     DIR/stack: X.block_sparse_moe.input_linear [E, 2I, H], gate first, and output_linear; DIR/split:
                                 P.E.{w1,w3,w2}; granitemoehybrid, and granitemoe in DIR/moe
experts.py fused SPLIT DIR       DIR: the FP8 experts P.E.* as P.gate_up_proj [E, 2I, H], gate first, and P.down_proj, with scales
experts.py kept SOURCE OUT DIR WORD...   DIR: OUT of compressed-tensors, with the matrices X.WORD.weight of SOURCE in high precision
experts.py joined STACK SPLIT    what differs between the tensors of a stack and the experts' tensors, one after another
experts.py drop FILE NAME        calls a tensor "dropped", of a name as long
"""
import json
import pathlib
import random
import sys

import checkpoint


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
    return Matrix(rows, cols, lambda r, c: checkpoint.pack("BF16", [rng.gauss(0, 1) * 2.0 ** ((7 * r + 3 * c) % 5) * (1 + r // 64 + c // 64)]))


def in_turn(gate, up):
    """g0 u0 g1 u1: the rows of two matrices."""
    return Matrix(2 * gate.rows, gate.cols, lambda r, c: (up if r % 2 else gate).data[r // 2][c])


def write(folder, config, *files):
    """One file, or several with an index; each a list of (name, shape, bytes), and a type if it is not BF16."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config) + "\n")
    shards = [{name: (*dtype, "BF16")[:1] + (shape, data) for name, shape, data, *dtype in tensors} for tensors in files]
    if len(shards) > 1:
        checkpoint.write_shards(folder, shards, {"format": "pt"})
    else:
        checkpoint.write(folder / "model.safetensors", shards[0], {"format": "pt"})


def drop(file, name):
    data = bytearray(pathlib.Path(file).read_bytes())
    at = data.index(('"%s"' % name).encode())
    data[at + 1:at + 1 + len(name)] = b"dropped".ljust(len(name), b"_")
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


def parts_of(rng, hidden, width):
    return noise(rng, width, hidden), noise(rng, width, hidden), noise(rng, hidden, width)


def step(folder, n_experts, hidden, width):
    prefix, rng = "model.layers.3.moe.", random.Random(2)
    names, shapes = ("gate_proj", "up_proj", "down_proj"), ([width, hidden], [width, hidden], [hidden, width])
    experts = [parts_of(rng, hidden, width) for _ in range(n_experts)]
    stack = [(prefix + name + ".weight", [n_experts, *shape], b"".join(expert[i].bytes() for expert in experts))
             for i, (name, shape) in enumerate(zip(names, shapes))]
    split = [(prefix + "experts.%d.%s.weight" % (e, name), shape, expert[i].bytes())
             for i, (name, shape) in enumerate(zip(names, shapes)) for e, expert in enumerate(experts)]
    write(folder / "stack", {"model_type": "step3p5", "hidden_size": hidden}, stack[:1], stack[1:])
    write(folder / "split", {"model_type": "qwen3_moe", "hidden_size": hidden}, split)


def granite(folder, n_experts, hidden, width):
    prefix, rng = "model.layers.0.block_sparse_moe.", random.Random(3)
    experts = [parts_of(rng, hidden, width) for _ in range(n_experts)]
    stack = [(prefix + "input_linear.weight", [n_experts, 2 * width, hidden],
              b"".join(gate.bytes() + up.bytes() for gate, up, _ in experts)),
             (prefix + "output_linear.weight", [n_experts, hidden, width], b"".join(down.bytes() for _, _, down in experts))]
    split = [(prefix + "experts.%d.%s.weight" % (e, name), [part.rows, part.cols], part.bytes())
             for e, expert in enumerate(experts) for name, part in zip(("w1", "w3", "w2"), expert)]
    write(folder / "stack", {"model_type": "granitemoehybrid", "hidden_size": hidden}, stack)
    write(folder / "moe", {"model_type": "granitemoe", "hidden_size": hidden}, stack)
    write(folder / "split", {"model_type": "mixtral", "hidden_size": hidden}, split)


def fused(split, folder):
    parts = checkpoint.read(split)
    prefix = next(iter(parts)).split(".experts.")[0] + ".experts."
    ends = sorted({name.rpartition(".")[2] for name in parts if ".experts." in name})
    tensors = []
    for end in ends:
        for name, words in (("gate_up_proj", ("gate", "up")), ("down_proj", ("down",))):
            data, e = b"", 0
            while (found := [parts.get("%s%d.%s_proj.%s" % (prefix, e, word, end)) for word in words])[0]:
                dtype, shape, block = found[0]
                if shape == [1]:                              # of the whole tensor: gate and up have the same
                    assert block == found[-1][2]
                    found = found[:1]
                data += b"".join(part[2] for part in found)
                e += 1
            shape = [e, 1, 1] if shape == [1] else [e, shape[0] * len(words), *shape[1:]]
            tensors.append((prefix + name + end.removeprefix("weight"), shape, data, dtype))
    write(pathlib.Path(folder), json.loads(pathlib.Path(split, "config.json").read_text()), tensors)


# A tensor of the stack, and what it has of each expert.
JOINED = {"gate_proj": ("gate_proj",), "up_proj": ("up_proj",), "down_proj": ("down_proj",),
          "input_linear": ("w1", "w3"), "output_linear": ("w2",)}


def joined(stack, split):
    parts, wanted = checkpoint.read(split), {}
    for name in {name.split(".experts.")[0] for name in parts}:
        for module, words in JOINED.items():
            for end in {part.rpartition(".")[2] for part in parts if ".%s." % words[0] in part}:
                data, e = b"", 0
                while (part := [parts.get("%s.experts.%d.%s.%s" % (name, e, word, end)) for word in words])[0]:
                    dtype, shape, _ = part[0]
                    data += b"".join(p[2] for p in part)
                    e += 1
                rows = [] if shape == [1] else [shape[0] * len(words)] + shape[1:]
                wanted["%s.%s.%s" % (name, module, end)] = (dtype, [e] + rows, data)
    checkpoint.compare(checkpoint.read(stack), wanted)


def kept(source, out, folder, *words):
    folder = pathlib.Path(folder)
    config = json.loads(pathlib.Path(out, "config.json").read_text())
    modules = {name.removesuffix(".weight") for name in checkpoint.read(source)
               if any(name.endswith(f".{word}.weight") for word in words)}
    tensors = {name: tensor for name, tensor in checkpoint.read(out).items() if name.rpartition(".")[0] not in modules}
    tensors |= {name: tensor for name, tensor in checkpoint.read(source).items() if name.removesuffix(".weight") in modules}
    config["quantization_config"]["ignore"] += sorted(modules)
    folder.mkdir()
    checkpoint.write(folder / "model.safetensors", tensors, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    if sys.argv[1] in ("drop", "joined", "fused", "kept"):
        {"drop": drop, "joined": joined, "fused": fused, "kept": kept}[sys.argv[1]](*sys.argv[2:])
    else:
        {"gpt-oss": gpt_oss, "step": step, "granite": granite}[sys.argv[1]](pathlib.Path(sys.argv[2]), *(int(n) for n in sys.argv[3:]))
