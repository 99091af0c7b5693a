"""Deterministic tensors from integer arithmetic only, so that any language makes the same bits.

Source of truth: the rules under "Inputs" in README.md; splitmix64 is Steele, Lea and Flood's.
Every element has its own 64-bit word z; a fill turns z into bits of the dtype, and overlays
replace rectangles of them.
"""
from dataclasses import dataclass

import numpy as np

U64 = np.uint64
MANTISSA_BITS = {"f32": 23, "bf16": 7, "f16": 10}
EXPONENT_MASK = {"f32": 0x7F800000, "bf16": 0x7F80, "f16": 0x7C00}
UINT = {"f32": np.uint32, "bf16": np.uint16, "f16": np.uint16}


@dataclass(frozen=True)
class Overlay:
    """A rectangle and what replaces it: zero, denormal, tiny, max, inf or nan."""
    kind: str
    row: int
    col: int
    rows: int
    cols: int

    def __str__(self) -> str:
        return f"{self.kind}@{self.row},{self.col},{self.rows},{self.cols}"


@dataclass(frozen=True)
class Input:
    """A tensor (rows, cols); fill: normal, outlier, spread or bits."""
    dtype: str
    rows: int
    cols: int
    seed: int
    fill: str
    overlays: tuple[Overlay, ...] = ()


def splitmix64(seed: int, index: np.ndarray) -> np.ndarray:
    """Output number index (from 0) of the generator that starts in state seed."""
    z = U64(seed) + (np.asarray(index, U64) + U64(1)) * U64(0x9E3779B97F4A7C15)
    z = (z ^ z >> U64(30)) * U64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> U64(27)) * U64(0x94D049BB133111EB)
    return z ^ z >> U64(31)


def normal_bits(z: np.ndarray) -> np.ndarray:
    """fp32 bits of u * 2^-22, u the centered sum of the four 16-bit parts of z, and 7 bits below it."""
    parts = [(z >> U64(16 * i) & U64(0xFFFF)).astype(np.int64) for i in range(4)]
    u = sum(parts) - 131070
    magnitude = np.abs(u)
    e = np.frexp(np.maximum(magnitude, 1).astype(np.float64))[1].astype(np.int64) - 1
    fraction = (magnitude << 23 - e) & 0x7FFFFF | (z >> U64(13) & U64(0x7F)).astype(np.int64)
    b = (u < 0).astype(np.int64) << 31 | e + 105 << 23 | fraction
    return np.where(magnitude == 0, 0, b).astype(np.uint32)


def add_exponent(b: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """fp32 bits times 2^shift; zero stays zero, nothing here leaves the normal range."""
    return np.where(b == 0, b, (b.astype(np.int64) + (shift.astype(np.int64) << 23)).astype(np.uint32))


def truncate(b: np.ndarray, dtype: str) -> np.ndarray:
    """fp32 bits of a finite value to bits of dtype, toward zero; too large for f16 becomes 65504."""
    if dtype == "f32":
        return b
    if dtype == "bf16":
        return (b >> np.uint32(16)).astype(np.uint16)
    sign = (b >> np.uint32(16) & np.uint32(0x8000)).astype(np.int64)
    exponent = (b >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64) - 112
    mantissa = (b & np.uint32(0x7FFFFF)).astype(np.int64)
    normal = exponent << 10 | mantissa >> 13
    subnormal = (mantissa | 0x800000) >> np.clip(14 - exponent, 0, 63)
    magnitude = np.where(exponent >= 31, 0x7BFF, np.where(exponent <= 0, subnormal, normal))
    return (sign | magnitude).astype(np.uint16)


def fill_bits(t: Input, z: np.ndarray, row: np.ndarray, col: np.ndarray) -> np.ndarray:
    if t.fill == "bits":
        width = 32 if t.dtype == "f32" else 16
        b = (z >> U64(64 - width)).astype(UINT[t.dtype])
        mask = UINT[t.dtype](EXPONENT_MASK[t.dtype])
        return np.where(b & mask == mask, b & ~UINT[t.dtype](1 << width - 2), b)
    b = normal_bits(z)
    if t.fill == "outlier":
        b = add_exponent(b, np.where(col % 67 == 5, 6, 0))
    elif t.fill == "spread":
        region = splitmix64(t.seed ^ 0xFFFFFFFF, row // 128 * 65536 + col // 32)
        b = add_exponent(b, (region >> U64(59)).astype(np.int64) - 16)
    return truncate(b, t.dtype)


def overlay_bits(kind: str, dtype: str, z: np.ndarray, row: np.ndarray, col: np.ndarray) -> np.ndarray:
    fraction = (1 << MANTISSA_BITS[dtype]) - 1
    exponent = EXPONENT_MASK[dtype]
    mantissa = (z & U64(fraction)).astype(np.int64)
    sign = ((row + col) % 2 if kind == "zero" else z >> U64(63)).astype(np.int64)
    magnitude = {
        "zero": 0 * mantissa,
        "denormal": mantissa,
        "tiny": mantissa & 1,
        "max": exponent - 1 + 0 * mantissa,
        "inf": exponent + 0 * mantissa,
        "nan": exponent | mantissa | 1,
    }[kind]
    return (sign * (exponent + fraction + 1) | magnitude).astype(UINT[dtype])


def make(t: Input) -> np.ndarray:
    """The bits of the tensor, (rows, cols)."""
    row, col = np.indices((t.rows, t.cols))
    z = splitmix64(t.seed, row * t.cols + col)
    b = fill_bits(t, z, row, col)
    for o in t.overlays:
        at = np.s_[o.row:o.row + o.rows, o.col:o.col + o.cols]
        b[at] = overlay_bits(o.kind, t.dtype, z[at], row[at], col[at])
    return b


def to_f32(b: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "f32":
        return b.view(np.float32)
    if dtype == "bf16":
        return (b.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return b.view(np.float16).astype(np.float32)
