# SPDX-License-Identifier: Apache-2.0
"""States of TransformerEngine's modules, put together opcode by opcode as torch and pickle write them: dict of bytes by name of state.

states.py MODEL OUT KIND     a copy of a model whose file has a state for each linear module, or one that is damaged in a named way
"""
import pathlib
import pickle
import shutil
import struct
import sys

import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "sample_checkpoints"))
import broken_torch as b  # noqa: E402  pylint: disable=wrong-import-position

MAGIC = pickle.dumps(0x1950A86A20F9469CFC6C, 2)


def data(content):
    return b"B" + struct.pack("<I", len(content)) + content


def storage(values, kind="FloatStorage", stated=None, module="torch"):
    """A storage as torch.save() wrote it before it made archives: five pickles, the number of elements, the elements."""
    n = len(values) if stated is None else stated
    parts = [MAGIC, pickle.dumps(1001, 2), pickle.dumps({"little_endian": True}, 2),
             b"\x80\x02" + b.tup(b.text("storage"), b.glob(module, kind), b.text("0"), b.text("cpu"), b.num(len(values)), b"N") + b"Q.",
             pickle.dumps(["0"], 2)]
    return b"".join(parts) + struct.pack("<q", n) + struct.pack(f"<{len(values)}f", *values)


def tensor(values, shape, strides=None, content=None):
    strides = strides or ([shape[1], 1] if len(shape) == 2 else [1] * len(shape))
    load = b.glob("torch.storage", "_load_from_bytes") + b.tup(data(storage(values) if content is None else content)) + b"R"
    return b.REBUILD + b.tup(load, b.num(0), b.tup(*map(b.num, shape)), b.tup(*map(b.num, strides)), b"\x89", b.HOOKS) + b"R"


def recipe(margin=0):
    """DelayedScaling with the numbers of HYBRID."""
    te = "transformer_engine.common.recipe"
    maxima = b.glob(te, "_FormatHelper") + b.tup(b.num(448), b.num(57344)) + b"\x81"
    values = b"}(" + b.text("margin") + b.num(margin) + b.text("fp8_format") + b.glob(te, "Format") + b.tup(maxima) + b"R" + b"u"
    return b.glob(te, "DelayedScaling") + b")\x81" + values + b"b"


def state(history=None, scale=None, margin=0, extra=b""):
    """history: rows as TransformerEngine keeps them, the current step first."""
    pairs = [b.named("recipe", recipe(margin))]
    if history is not None:
        flat = history if isinstance(history, bytes) else tensor([v for row in history for v in row], [len(history), len(history[0])])
        pairs.append(b.named("amax_history_fwd", flat))
    if scale is not None:
        pairs.append(b.named("scale_fwd", scale if isinstance(scale, bytes) else tensor(scale, [len(scale)])))
    return b"\x80\x04}(" + b"".join(pairs) + extra + b"u."


STEPS = [[0.0] * 3, [1.0, 2.5, 3.0], [7.25, 1.5, 2.0], [0.5, 0.25, 0.125]]
SCALES = [448 / 7.25, 448 / 2.5, 448 / 3.0]
ROWS = [v for row in STEPS for v in row]
GOOD = state(STEPS, SCALES)

KINDS = {
    "good": GOOD,
    # Megatron's default: a history of one step, which is 0 after each step.  The scales are for margin 1.
    "one-step": state([[0.0] * 3], [448 / 8.0 / 2, 448 / 4.0 / 2, 1.0], margin=1),
    "operation": b"\x80\x04}(" + b.named("forward", GOOD[2:-1]) + b"u.",
    "stateless": b"",
    "global": state(STEPS, SCALES, extra=b.named("x", b.glob("os", "system"))),
    "opcode": b"\x80\x04ios\nsystem\n.",
    "list": b"\x80\x04].",
    "negative": state([[0.0] * 3, [1.0, -2.0, 3.0]], SCALES),
    "nan": state([[0.0] * 3, [1.0, float("nan"), 3.0]], SCALES),
    "flat": state(tensor(ROWS, [12]), SCALES),
    "cube": state(tensor(ROWS, [2, 2, 3], [6, 3, 1]), SCALES),
    "no-scale": state(STEPS),
    "no-history": state(None, SCALES),
    "two-scales": state(STEPS, SCALES[:2]),
    "text": state(b.text("x"), SCALES),
    "half": state(tensor(ROWS, [4, 3], content=storage(ROWS, "HalfStorage")), SCALES),
    "stated": state(tensor(ROWS, [4, 3], content=storage(ROWS, stated=11)), SCALES),
    "cut": state(tensor(ROWS, [4, 3], content=storage(ROWS)[:-1]), SCALES),
    "cut-pickle": state(tensor(ROWS, [4, 3], content=storage(ROWS)[:60]), SCALES),
    "other-global": state(tensor(ROWS, [4, 3], content=storage(ROWS, "load")), SCALES),
    "outside": state(tensor(ROWS, [5, 3]), SCALES),
    "wraps": state(tensor(ROWS, [2 ** 40, 3], [2 ** 40, 1]), SCALES),
    "broadcast": state(tensor(ROWS, [2 ** 40, 3], [0, 1]), SCALES),
    "empty": state(tensor([], [0, 3], [3, 1]), SCALES),
    "truncated": GOOD[:-1],
}


def main():
    model, out, kind = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    shutil.copytree(model, out)
    tensors = checkpoint.read(model)
    states = {name.removesuffix("weight") + "_extra_state": ("U8", [len(KINDS[kind])], KINDS[kind]) for name in tensors if "_proj.weight" in name}
    checkpoint.write(out / "model.safetensors", tensors | states, {"format": "pt"})


if __name__ == "__main__":
    main()
