"""The FP8 arithmetic in numpy and ml_dtypes, written from its description and not from the C code.

Sources of truth: the OCP 8-bit floating point and OCP microscaling (MX) specifications for the
formats, TransformerEngine for the order of operations (scale from amax, delayed update, E8M0
round-up), ml_dtypes for the rounding to FP8, FP16 and BF16.  Everything is fp32, round to nearest
even, subnormals kept; every operation below is one correctly rounded numpy operation on float32.
What those sources leave open is decided in README.md.
"""
from dataclasses import dataclass

import ml_dtypes
import numpy as np

F32 = np.float32
FLT_MAX = np.finfo(F32).max
FMAX = {"e4m3": F32(448), "e5m2": F32(57344)}
FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
VALUES = {name: np.arange(256, dtype=np.uint8).view(fp8).astype(F32) for name, fp8 in FP8.items()}  # of each code
EMAX = {"e4m3": 8, "e5m2": 15}                      # exponent of FMAX
MANTISSA_BITS = {"e4m3": 3, "e5m2": 2}
LARGEST = {"f32": FLT_MAX, "bf16": F32(float.fromhex("0x1.FEp127")), "f16": F32(65504)}
RCP = {"e4m3": 0x3B124925, "e5m2": 0x37924925}      # (float)(1.0 / FMAX)
NAN_CODE = 0x7F
WHOLE = 0                                           # a tile as long as the row, or as high as the tensor


@dataclass(frozen=True)
class Spec:
    """How a tensor is quantized.  kind: float, pow2, e8m0-up, e8m0-floor or e8m0-even."""
    recipe: str
    tile: tuple[int, int]
    fp8: str = "e4m3"
    kind: str = "pow2"
    arith: str = "te"
    eps: float = 0.0
    margin: int = 0


def bits(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, F32).view(np.uint32)


def from_bits(b: np.ndarray | int) -> np.ndarray:
    return np.asarray(b, np.uint32).view(F32)


# The cast and its inverse.

def cast(v: np.ndarray, fp8: str) -> np.ndarray:
    """fp32 to codes, saturating; a NaN of either sign becomes 0x7F."""
    v = np.asarray(v, F32)
    clamped = np.minimum(np.maximum(v, -FMAX[fp8]), FMAX[fp8])      # keeps -0.0 and NaN
    codes = clamped.astype(FP8[fp8]).view(np.uint8)
    nan = np.isnan(v)
    return np.where(nan, np.uint8(NAN_CODE), codes) if nan.any() else codes


def e8m0_to_f32(code: np.ndarray) -> np.ndarray:
    """2^(code-127); 0 is the subnormal 2^-127, 255 is NaN."""
    code = np.asarray(code).astype(np.uint32)
    b = np.where(code == 0, np.uint32(0x00400000), code << np.uint32(23))
    return from_bits(np.where(code == 255, np.uint32(0x7FC00000), b))


def dequantize(codes: np.ndarray, scale_inv: np.ndarray, fp8: str, dtype: str) -> np.ndarray:
    """Bits of (T)((float)q * scale_inv): the product is rounded to fp32, then to T; NaN canonical."""
    product = VALUES[fp8][np.asarray(codes, np.uint8)] * np.asarray(scale_inv, F32)
    if dtype == "f32":
        out, nan = product.view(np.uint32), 0x7FC00000
    elif dtype == "bf16":
        out, nan = product.astype(ml_dtypes.bfloat16).view(np.uint16), 0x7FC0
    else:
        out, nan = product.astype(np.float16).view(np.uint16), 0x7E00
    where = np.isnan(product)
    return np.where(where, out.dtype.type(nan), out) if where.any() else out


# Scales from amax.

def te_scale(amax: np.ndarray, fmax: np.float32, limit: np.float32, pow2: bool) -> np.ndarray:
    s = fmax / amax
    s = np.where(np.isinf(s), limit, s)
    if pow2:
        s = from_bits(bits(s) & np.uint32(0xFF800000))
    return np.where(np.isinf(amax) | np.isnan(amax) | (amax == 0), F32(1), s)


def scale_from_amax(amax: np.ndarray, spec: Spec, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """(scale_inv, scale); scale is None where the codes are x / scale_inv (deepseek, not pow2)."""
    amax = np.asarray(amax, F32)
    fmax = FMAX[spec.fp8] * F32(2.0 ** -spec.margin)
    limit = FLT_MAX if WHOLE in spec.tile else LARGEST[dtype]
    amax = np.where(amax < F32(spec.eps), F32(spec.eps), amax)
    if spec.arith == "deepgemm":
        amax = np.where(amax < F32(1e-4), F32(1e-4), amax)
    if spec.kind == "pow2" or spec.arith == "te":
        scale = te_scale(amax, fmax, limit, spec.kind == "pow2")
        return F32(1) / scale, scale
    scale_inv = amax / fmax
    scale_inv = np.where(scale_inv == 0, from_bits(1), scale_inv)
    scale_inv = np.where(np.isinf(amax) | np.isnan(amax) | (amax == 0), F32(1), scale_inv)
    return scale_inv, (F32(1) / scale_inv if spec.arith == "deepgemm" else None)


def e8m0_round_up(v: np.ndarray) -> np.ndarray:
    b = bits(v)
    exponent, mantissa = b >> np.uint32(23) & np.uint32(0xFF), b & np.uint32(0x7FFFFF)
    up = (mantissa != 0) & (exponent != 0xFE) & ~((exponent == 0) & (mantissa <= 0x400000))
    code = np.where(np.isinf(v), 0xFE, exponent + up)
    return np.where(np.isnan(v), 0xFF, code).astype(np.uint8)


def e8m0_floor(amax: np.ndarray, fp8: str, round_bits: int | None = None) -> np.ndarray:
    """floor(log2(amax)) - EMAX, after rounding amax to round_bits mantissa bits, ties to even."""
    b = bits(amax).astype(np.int64)
    if round_bits is not None:
        shift = 23 - round_bits
        b = (b + (1 << shift - 1) - 1 + (b >> shift & 1)) >> shift << shift
    code = np.clip((b >> 23) - EMAX[fp8], 0, 254)   # a subnormal amax is far below code 0
    code = np.where(np.isinf(amax), 254, code)
    return np.where(np.isnan(amax), 255, code).astype(np.uint8)


def e8m0_from_amax(amax: np.ndarray, fp8: str, rule: str) -> np.ndarray:
    amax = np.asarray(amax, F32)
    if rule == "e8m0-up":
        return e8m0_round_up(amax * from_bits(RCP[fp8]))
    return e8m0_floor(amax, fp8, MANTISSA_BITS[fp8] if rule == "e8m0-even" else None)


# Tensors.

def tile_amax(x: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """max |x| of every tile, NaN ignored; edge tiles hold the elements that exist."""
    a = np.where(np.isnan(x), F32(0), np.abs(x))
    for axis, n in enumerate(tile):
        a = np.maximum.reduceat(a, np.arange(0, x.shape[axis], n or x.shape[axis]), axis=axis)
    return a


def spread(grid: np.ndarray, tile: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    """The value of its tile for every element."""
    for axis, n in enumerate(tile):
        grid = np.repeat(grid, n or shape[axis], axis=axis)
    return grid[:shape[0], :shape[1]]


def quantize(x: np.ndarray, spec: Spec, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """x (rows, cols) in fp32, from dtype -> codes (rows, cols), scale_inv as fp32 or E8M0 bytes."""
    amax = tile_amax(x, spec.tile)
    if spec.kind.startswith("e8m0"):
        scale_inv = e8m0_from_amax(amax, spec.fp8, spec.kind)
        scale = e8m0_to_f32(np.where(scale_inv == 255, 255, 254 - scale_inv.astype(np.int64)))
    else:
        scale_inv, scale = scale_from_amax(amax, spec, dtype)
    if scale is None:
        v = x / spread(scale_inv, spec.tile, x.shape)
    else:
        v = x * spread(scale, spec.tile, x.shape)
    return cast(v, spec.fp8), scale_inv


# The delayed recipe.

def history_update(h: np.ndarray, b: np.float32) -> tuple[np.float32, np.float32]:
    """Roll h in place for the reduced amax b; the two amaxes that the algorithms use: (max, most recent)."""
    last = b if b != 0 else h[0]
    if last == 0:
        return F32(0), last
    m = np.fmax.reduce(np.append(h[1:], last))
    if len(h) > 1:
        h[1:-1] = h[2:].copy()
        h[-1] = last
    h[0] = 0
    return m, last


def delayed_scale(amax: np.float32, before: np.float32, fp8: str, margin: int) -> np.float32:
    if not (np.isfinite(amax) and amax > 0):
        return before
    s = FMAX[fp8] * F32(2.0 ** -margin) / amax
    return FLT_MAX if np.isinf(s) else s


# MXFP8 scales in the layout of the GEMM.

def swizzle(scales: np.ndarray) -> np.ndarray:
    """(rows, K/32) bytes -> the 128 x 4 tiles of cuBLASLt, padded with zeros."""
    rows, blocks = scales.shape
    padded = np.pad(scales, ((0, -rows % 128), (0, -blocks % 4)))
    tiles = padded.reshape(padded.shape[0] // 128, 4, 32, padded.shape[1] // 4, 4)
    return tiles.transpose(0, 3, 2, 1, 4).reshape(-1)
