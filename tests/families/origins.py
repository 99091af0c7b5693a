# SPDX-License-Identifier: Apache-2.0
"""Where each weight of an output comes from, element by element: how experts lie in one tensor, and
what the bits of MXFP4 and INT4 mean (OCP MX specification, compressed-tensors)."""
import re

E2M1 = (0, .5, 1, 1.5, 2, 3, 4, 6)


def same(source, tensor):
    """A weight under its own name, a matrix or a stack of them."""
    rows, cols = source.tensors[tensor][1][-2:]
    return lambda e, i, j: source.at(tensor, (e * rows + i) * cols + j)


def parts(source, tensor, layout):
    """What a fused or packed tensor becomes: names, each with the value of its element (e, i, j)."""
    shape = source.tensors[tensor][1]
    p, _, last = tensor.rpartition(".")
    if last == "weight_packed":
        return [(tensor.removesuffix("_packed"), int4(source, p + "."))]
    found = re.match(r"(gate_up|down)_proj(_bias|_blocks)?$", last)
    if found:
        end = ".bias" if found.group(2) == "_bias" else ".weight"
        words = ("gate_proj", "up_proj") if found.group(1) == "gate_up" else ("down_proj",)
    elif re.search(r"\.(in|out)put_linear\.weight$", tensor):
        p, end = tensor.rsplit(".", 2)[0] + ".experts", ".weight"
        words = ("w1", "w3") if "input_linear" in tensor else ("w2",)
    else:
        return []
    if last.endswith("_blocks"):
        element = mxfp4
    elif end == ".bias":
        element = bias
    else:
        element = {"plain": plain, "transposed": transposed, "interleaved": interleaved}[layout]
    return [("%s.%d.%s%s" % (p, expert, word, end), element(source, tensor, expert, half, len(words)))
            for expert in range(shape[0]) for half, word in enumerate(words)]


def plain(source, tensor, expert, half, n):
    """[E, out, in]: gate is the first half of gate_up's outputs."""
    _, a, b = source.tensors[tensor][1]
    return lambda e, i, j: source.at(tensor, (expert * a + half * (a // n) + i) * b + j)


def transposed(source, tensor, expert, half, n):
    _, a, b = source.tensors[tensor][1]
    return lambda e, i, j: source.at(tensor, (expert * a + j) * b + half * (b // n) + i)


def interleaved(source, tensor, expert, half, n):
    """GPT-OSS: [E, in, out]; of gate_up even outputs are gate, odd ones up."""
    _, a, b = source.tensors[tensor][1]
    return lambda e, i, j: source.at(tensor, (expert * a + j) * b + n * i + half)


def bias(source, tensor, expert, half, n):
    """GPT-OSS: [E, out], interleaved too."""
    _, a = source.tensors[tensor][1]
    return lambda e, i, j: source.at(tensor, expert * a + n * i + half)


def mxfp4(source, tensor, expert, half, n):
    """GPT-OSS: [E, out, blocks, 16], two codes a byte, the low one first; rows interleaved."""
    _, rows, n_blocks, _ = source.tensors[tensor][1]
    codes, scales = source.raw(tensor), source.raw(tensor.removesuffix("_blocks") + "_scales")

    def element(_, i, j):
        block = (expert * rows + n * i + half) * n_blocks + j // 32
        code = codes[block * 16 + j % 32 // 2] >> 4 * (j % 2) & 15
        return (-1 if code & 8 else 1) * E2M1[code & 7] * 2.0 ** (scales[block] - 127)
    return element


def int4(source, module):
    """[out, in / 8] words of eight values + 8, the first in the low bits; a scale for 32."""
    rows, words = source.tensors[module + "weight_packed"][1]
    codes = source.raw(module + "weight_packed")

    def element(_, i, j):
        code = codes[(i * words + j // 8) * 4 + j % 8 // 2] >> 4 * (j % 2) & 15
        return (code - 8) * source.at(module + "weight_scale", i * (words // 4) + j // 32)
    return element
