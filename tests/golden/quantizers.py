"""What quantizer.txt and fused.txt hold: a slot of a recipe, and both copies of a tensor that its quantizer makes.

Sources of truth: TransformerEngine's recipes (which format, which blocks for which role) and its
get_scale_shape() of Float8BlockQuantizer and MXFP8Quantizer for tensors in memory.
"""
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import reference as ref
from cases import dirty
from inputs import Input, make, to_f32
from reference import F32, FMAX, WHOLE, Spec

TENSOR = (WHOLE, WHOLE)
RECIPES = {     # the specs of x, w and gradients
    "delayed": (Spec("delayed", TENSOR, kind="float"), Spec("delayed", TENSOR, kind="float"),
                Spec("delayed", TENSOR, "e5m2", "float")),
    "current": (Spec("current", TENSOR, kind="float"), Spec("current", TENSOR, kind="float"),
                Spec("current", TENSOR, "e5m2", "float")),
    "channelwise": (Spec("channelwise", (1, WHOLE), kind="float"), Spec("channelwise", (1, WHOLE), kind="float"),
                    Spec("channelwise", (1, WHOLE), "e5m2", "float")),
    "blockwise": (Spec("blockwise", (1, 128)), Spec("blockwise", (128, 128)), Spec("blockwise", (1, 128))),
    "mxfp8": (Spec("mxfp8", (1, 32), kind="e8m0-up"),) * 3,
}
SLOTS = [("forward", 0), ("forward", 1), ("backward", 0)]
SHAPES = [(128, 128), (256, 272), (303, 300), (305, 256), (2000, 1024), (993, 512), (65, 96), (1, 16), (1024, 1),
          (512, 512)]
SCALES = [F32(15000), F32(1), ref.FLT_MAX]      # of delayed scaling; the first one saturates some


@dataclass(frozen=True)
class Copy:
    """The codes and the three orders of scale_inv; gemm is None where it is padded."""
    codes: np.ndarray
    compact: np.ndarray
    padded: np.ndarray
    gemm: np.ndarray | None


def spec_of(recipe: str, mode: str, slot: int) -> Spec:
    return RECIPES[recipe][2 if mode == "backward" else 1 if slot % 3 == 1 else 0]


def pad(grid: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Zeros below and to the right, up to multiples of rows and cols."""
    return np.pad(grid, ((0, -grid.shape[0] % rows), (0, -grid.shape[1] % cols)))


def copy(x: np.ndarray, spec: Spec, dtype: str, columnwise: bool, scale: np.float32 | None) -> Copy:
    x = x.T if columnwise else x
    if scale is None:
        codes, grid = ref.quantize(x, spec, dtype)
    else:
        codes, grid = ref.cast(x * scale, spec.fp8), np.full((1, 1), F32(1) / scale)
    if spec.kind.startswith("e8m0"):
        padded = pad(grid, 128, 4)
        return Copy(codes.T if columnwise else codes, grid, padded.T if columnwise else padded, ref.swizzle(grid))
    if spec.tile == (1, 128):
        return Copy(codes, grid, pad(grid, 4, 1).T, None)
    return Copy(codes, grid, pad(grid, 1, 4) if spec.tile == (128, 128) else grid, None)


def stats(x: np.ndarray, spec: Spec, dtype: str, scale: np.float32 | None) -> tuple[int, int]:
    """(saturated, nonfinite), of the rowwise copy."""
    if scale is None and spec.kind.startswith("e8m0"):
        code = ref.e8m0_from_amax(ref.tile_amax(x, spec.tile), spec.fp8, spec.kind).astype(np.int64)
        factor = ref.spread(ref.e8m0_to_f32(254 - code), spec.tile, x.shape)
    elif scale is None:
        factor = ref.spread(ref.scale_from_amax(ref.tile_amax(x, spec.tile), spec, dtype)[1], spec.tile, x.shape)
    else:
        factor = scale
    scaled = np.abs(x * factor)
    beyond = scaled > 464 if spec.fp8 == "e4m3" else scaled >= 61440
    return int(np.sum(np.isinf(x) | np.isfinite(x) & beyond)), int(np.sum(~np.isfinite(x)))


def amax(x: np.ndarray) -> np.float32:
    return ref.tile_amax(x, TENSOR)[0, 0]


def slots(number: int) -> Iterator[tuple[str, str, int, Spec, np.float32 | None, np.float32]]:
    """(recipe, mode, slot, its spec, the scale of delayed scaling, h[0] before)."""
    for recipe in RECIPES:
        for mode, slot in SLOTS:
            scale = SCALES[(number + slot) % len(SCALES)] if recipe == "delayed" else None
            yield recipe, mode, slot, spec_of(recipe, mode, slot), scale, F32(number % 2 * 3)


def quantizer_inputs() -> Iterator[Input]:
    fills = ("normal", "outlier", "spread")
    for i, (rows, cols) in enumerate(SHAPES):
        yield Input("bf16", rows, cols, 2000 + i, fills[i % 3], dirty(rows, cols))
        if rows * cols <= 128 * 128:
            yield Input("bf16", rows, cols, 2050 + i, fills[(i + 1) % 3])
    for i, (dtype, rows, cols) in enumerate((("f32", 303, 300), ("f16", 303, 300), ("f32", 65, 96), ("f16", 129, 160))):
        yield Input(dtype, rows, cols, 2100 + i, "bits", dirty(rows, cols) if i % 2 else ())


def fused_inputs() -> Iterator[Input]:
    fills = ("spread", "normal", "outlier", "bits")
    shapes = [("bf16", 64, 576), ("bf16", 130, 129), ("f32", 33, 300), ("f16", 5, 1000), ("bf16", 1, 1), ("f32", 3, 128)]
    for i, (dtype, rows, cols) in enumerate(shapes):
        yield Input(dtype, rows, cols, 2200 + 10 * i, fills[i % 4])
    yield Input("bf16", 160, 96, 2290, "spread", dirty(160, 96))


def row(seed: int, like: Input) -> np.ndarray:
    """gamma or beta: one row of normal numbers."""
    return to_f32(make(replace(like, rows=1, seed=seed, fill="normal", overlays=())), like.dtype)


def up(seed: int, like: Input) -> np.ndarray:
    return to_f32(make(replace(like, seed=seed, fill="normal", overlays=())), like.dtype)
