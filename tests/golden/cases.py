"""Which tensors and which specs tensor.txt holds.

Source of truth: the shapes at which TransformerEngine tests its block quantizers, with a zero
block, a denormal block, an inf and a NaN in each; the projections of SmolLM2-135M; one tile and
its neighbors.
"""
from collections.abc import Iterator
from dataclasses import replace

from inputs import Input, Overlay
from reference import WHOLE, Spec

FLOATS = [
    Spec("current", (WHOLE, WHOLE), kind="float"),
    Spec("channelwise", (1, WHOLE), kind="float"),
    Spec("channelwise", (1, WHOLE), kind="float", arith="deepseek"),
    Spec("blockwise", (128, 128), kind="float"),
    Spec("blockwise", (128, 128), kind="float", arith="deepseek"),
    Spec("blockwise", (128, 128), kind="float", arith="deepgemm"),
    Spec("blockwise", (1, 128), kind="float"),
    Spec("blockwise", (1, 128), kind="float", arith="deepseek"),
    Spec("blockwise", (1, 128), kind="float", arith="deepgemm"),
]
POW2 = [
    Spec("current", (WHOLE, WHOLE)),
    Spec("channelwise", (1, WHOLE)),
    Spec("blockwise", (128, 128)),
    Spec("blockwise", (1, 128)),
]
MX = [Spec("mxfp8", (1, 32), kind=f"e8m0-{rule}") for rule in ("up", "floor", "even")]
DEFAULTS = [FLOATS[0], FLOATS[1], POW2[2], POW2[3], MX[0]]
ALL = FLOATS + POW2 + MX

SHAPES = [(128, 128), (256, 272), (303, 300), (305, 256), (993, 512), (65, 96), (1, 16), (1024, 1), (512, 512),
          (1, 1), (3, 128), (127, 129), (129, 160), (192, 576)]
FILLS = ["normal", "outlier", "spread", "bits"]


def e5m2(specs: list[Spec]) -> list[Spec]:
    return [replace(s, fp8="e5m2") for s in specs]


def fitting(specs: list[Spec], cols: int) -> list[Spec]:
    """MX takes rows that are a multiple of 32 long."""
    return [s for s in specs if s.recipe != "mxfp8" or cols % 32 == 0]


def tiles(rows: int, cols: int, kinds: list[str]) -> tuple[Overlay, ...]:
    """One 128 x 128 tile of each kind, from the first on; the tiles that there are."""
    corners = [(r, c) for r in range(0, rows, 128) for c in range(0, cols, 128)]
    return tuple(Overlay(kind, r, c, min(128, rows - r), min(128, cols - c))
                 for kind, (r, c) in zip(kinds, corners))


def dirty(rows: int, cols: int) -> tuple[Overlay, ...]:
    """A zero and a denormal tile, and after them an inf and a NaN."""
    return (*tiles(rows, cols, ["zero", "denormal"]),
            Overlay("nan", rows // 2, cols // 2, 1, 1),
            Overlay("inf", rows - 1, cols - 1, 1, 1))


def every_shape() -> Iterator[tuple[Input, list[Spec]]]:
    for i, (rows, cols) in enumerate(SHAPES):
        specs = fitting(ALL, cols)
        yield Input("bf16", rows, cols, 100 + i, FILLS[i % 4]), specs
        yield Input("bf16", rows, cols, 200 + i, FILLS[(i + 1) % 3], dirty(rows, cols)), specs


def every_dtype() -> Iterator[tuple[Input, list[Spec]]]:
    for dtype in ("f32", "f16", "bf16"):
        for i, fill in enumerate(FILLS):
            rows, cols = [(256, 272), (303, 300), (65, 96), (129, 416)][i]
            specs = fitting(ALL, cols) + fitting(e5m2(ALL), cols)
            yield Input(dtype, rows, cols, 300 + i, fill), specs
            yield Input(dtype, rows, cols, 400 + i, fill, dirty(rows, cols)), specs


def every_special() -> Iterator[tuple[Input, list[Spec]]]:
    """A tensor that is one tile of one kind: all zero, all NaN, one inf..."""
    for dtype in ("bf16", "f16", "f32"):
        for i, kind in enumerate(("zero", "denormal", "tiny", "max", "nan", "inf")):
            whole = (Overlay(kind, 0, 0, 2, 96),)
            yield Input(dtype, 2, 96, 500 + i, "normal", whole), ALL + e5m2(ALL)
            one = (Overlay("zero", 0, 0, 1, 64), Overlay(kind, 0, 33, 1, 1))
            yield Input(dtype, 1, 64, 600 + i, "normal", one), ALL


def every_parameter() -> Iterator[tuple[Input, list[Spec]]]:
    for dtype in ("bf16", "f32"):
        specs = [replace(s, eps=eps, margin=margin) for eps in (0.0, 1e-12, 1.0) for margin in (0, 2)
                 for s in FLOATS + POW2 if (eps, margin) != (0.0, 0)]
        specs += e5m2([s for s in specs if s.margin == 2 and s.eps != 1.0])
        overlays = tiles(256, 272, ["zero", "denormal", "tiny"])
        yield Input(dtype, 256, 272, 700, "spread", overlays), specs


def large() -> Iterator[tuple[Input, list[Spec]]]:
    yield Input("bf16", 576, 1536, 800, "normal"), ALL
    yield Input("bf16", 1536, 576, 801, "outlier"), DEFAULTS
    yield Input("bf16", 2000, 1024, 802, "spread", dirty(2000, 1024)), DEFAULTS
    yield Input("bf16", 2048, 4096, 803, "normal"), [POW2[2], MX[0]]


def every_case() -> Iterator[tuple[Input, list[Spec]]]:
    yield from every_shape()
    yield from every_dtype()
    yield from every_special()
    yield from every_parameter()
    yield from large()
