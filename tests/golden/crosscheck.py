"""Second opinions on the vectors at the time they are made.

Exact rational arithmetic for the casts and for the E8M0 round-up code; torch, where it is
installed, for the casts and for dequantization; the written-out formula for the swizzle.  A
disagreement is an AssertionError, and no file is written.
"""
from fractions import Fraction

import numpy as np

try:
    import torch
except ImportError:
    torch = None

F32 = np.float32
FORMATS = {"e4m3": (7, 3, 0x7E), "e5m2": (15, 2, 0x7B)}         # bias, mantissa bits, code of the largest


def exact_code(b: int, fp8: str) -> int:
    """Bits of an fp32 to a code: the nearest of all finite values, ties to the even code, saturating."""
    bias, m, largest = FORMATS[fp8]
    sign, exponent, mantissa = b >> 31 << 7, b >> 23 & 0xFF, b & 0x7FFFFF
    if exponent == 255:
        return 0x7F if mantissa else sign | largest
    x = Fraction(mantissa | (exponent > 0) << 23) * Fraction(2) ** (max(exponent, 1) - 150)
    values = [Fraction(c & (1 << m) - 1 | (c >> m > 0) << m) * Fraction(2) ** (max(c >> m, 1) - bias - m)
              for c in range(largest + 1)]
    return sign | min(range(largest + 1), key=lambda c: (abs(values[c] - x), c & 1))


def cast(values: np.ndarray, codes: dict[str, np.ndarray]) -> None:
    for fp8 in FORMATS:
        exact = np.array([exact_code(int(b), fp8) for b in values[values < 0x80000000]], np.uint8)
        got = codes[fp8][values < 0x80000000]
        assert np.array_equal(got, exact), f"{fp8}: not the exact rounding"
        nan = np.isnan(values.view(F32))
        negative = values >= 0x80000000
        mirrored = np.where(nan[~negative], got, got | 0x80)
        assert np.array_equal(codes[fp8][negative], mirrored), f"{fp8}: not symmetric"
        if torch is not None:
            dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[fp8]
            limit = torch.finfo(dtype).max
            x = torch.from_numpy(values.view(F32).copy()).clamp(-limit, limit)
            theirs = x.to(dtype).view(torch.uint8).numpy()
            assert np.array_equal(codes[fp8][~nan], theirs[~nan]), f"{fp8}: not torch's"


def e8m0_up(amaxes: np.ndarray, e4m3: np.ndarray, e5m2: np.ndarray) -> None:
    """The smallest code whose largest value holds amax, save for one amax a format."""
    for codes, fmax, exception in ((e4m3, 448, 0x04600001), (e5m2, 57344, 0x07E00001)):
        for b, code in zip(amaxes, codes):
            if b >= 0x7F800000:
                assert code == (0xFE if b == 0x7F800000 else 0xFF)
                continue
            x = Fraction(float(b.view(F32))) / fmax
            smallest = next(c for c in range(255) if Fraction(2) ** (c - 127) >= x)
            assert (code == smallest) == (b != exception), f"{b:08x}: {code}, not {smallest}"


def dequantize(scale_inv: np.ndarray, fp8: str, out: dict[str, np.ndarray]) -> None:
    if torch is None:
        return
    dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[fp8]
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    product = codes.to(torch.float32) * torch.tensor(float(scale_inv), dtype=torch.float32)
    theirs = {"f32": product.view(torch.int32), "bf16": product.to(torch.bfloat16).view(torch.int16),
              "f16": product.to(torch.float16).view(torch.int16)}
    number = ~np.isnan(product.numpy())
    for name, bits in theirs.items():
        bits = bits.numpy().view(out[name].dtype)
        assert np.array_equal(bits[number], out[name][number]), f"{fp8} to {name}: not torch's"


def swizzle(scales: np.ndarray, k: int, out: np.ndarray) -> None:
    """Every byte where the formula of the layout says, zeros elsewhere."""
    n_tiles = -(-k // 128)
    expected = np.zeros(-(-scales.shape[0] // 128) * n_tiles * 512, np.uint8)
    for (i, j), byte in np.ndenumerate(scales):
        expected[(i // 128 * n_tiles + j // 4) * 512 + i % 32 * 16 + i % 128 // 32 * 4 + j % 4] = byte
    assert np.array_equal(out, expected), "not the formula"


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The distance in units of the last place of exact (float64), where both are normal fp32 numbers."""
    normal = np.isfinite(got) & (np.abs(exact) >= 2.0 ** -126) & (np.abs(exact) < 2.0 ** 127)
    exponent = np.floor(np.log2(np.abs(exact[normal])))
    return np.abs(got[normal].astype(np.float64) - exact[normal]) / 2.0 ** (exponent - 23)


def activation(x: np.ndarray, name: str, y: np.ndarray) -> None:
    """Within a few ulp of float64, save where e^-x overflows fp32 or its argument has lost its last bits."""
    v = x.astype(np.float64)
    if name == "srelu":
        exact, near = np.where(v <= 0, 0, v * v), np.isfinite(v)
    elif name == "silu":
        exact, near = v / (1 + np.exp(-v)), np.abs(v) < 88
    else:
        u = np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3)
        exact, near = 0.5 * v * (1 + np.tanh(u)), np.abs(u) < 4
    assert np.all(ulps(y[near], exact[near]) < (24 if name == "gelu" else 4)), f"{name}: far from float64"
    assert np.array_equal(np.isnan(y), np.isnan(v) | (v == -np.inf) & (name != "srelu")), f"{name}: NaN"


def norm(x: np.ndarray, kind: str, gamma: np.ndarray, beta: np.ndarray | None, eps: float, zero_centered: int,
         y: np.ndarray) -> None:
    """Within 2^-16 of the largest of its row in float64, where no square overflows or vanishes in fp32."""
    v = x.astype(np.float64)
    mu = v.mean(axis=1, keepdims=True) if kind == "layer" else 0
    variance = ((v - mu) ** 2).mean(axis=1, keepdims=True)
    exact = (gamma + np.float64(zero_centered)) * ((v - mu) / np.sqrt(variance + eps)) + (0 if beta is None else beta)
    rows = np.isfinite(v).all(axis=1) & (variance[:, 0] < 1e30)
    error = np.abs(y - exact)[rows].max(axis=1, initial=0)
    assert np.all(error <= 2.0 ** -16 * np.abs(exact[rows]).max(axis=1, initial=0) + 1e-12), f"{kind}: far from float64"
