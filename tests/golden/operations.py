"""Norms and activations whose output is FP8, in numpy, one correctly rounded float32 operation at a time.

Sources of truth: the orders of operations that src/num/norm.h, exp.h and activation.h promise;
crosscheck.py holds the results against float64.
"""
import numpy as np

from reference import F32, from_bits

LANES = 128


def lane_sum(x: np.ndarray) -> np.ndarray:
    """The sum of every row: lane l adds the elements l, l + 128, ..., then the lanes fold in halves."""
    x = np.pad(x, ((0, 0), (0, -x.shape[1] % LANES)))       # adding 0 to a lane changes nothing
    lanes = np.zeros((x.shape[0], LANES), F32)
    for part in np.split(x, x.shape[1] // LANES, axis=1):
        lanes = lanes + part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes


def canonical(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), from_bits(0x7FC00000), x)


def norm(x: np.ndarray, kind: str, gamma: np.ndarray, beta: np.ndarray | None, eps: float,
         zero_centered: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(y, mu, rsigma); gamma and beta are (1, cols)."""
    n = F32(x.shape[1])
    mu = canonical(lane_sum(x) / n) if kind == "layer" else np.zeros((x.shape[0], 1), F32)
    deviation = x - mu
    rsigma = canonical(F32(1) / np.sqrt(lane_sum(deviation * deviation) / n + F32(eps)))
    y = (F32(1) + gamma if zero_centered else gamma) * (deviation * rsigma)
    return y if beta is None else y + beta, mu, rsigma


def exp(x: np.ndarray) -> np.ndarray:
    """e^x: Cephes' polynomial on what is left after whole powers of two."""
    inside = np.clip(x, F32(-104), F32(89))
    n = np.rint(inside * F32(np.float64.fromhex("0x1.715476p0")))
    r = inside - n * F32(np.float64.fromhex("0x1.62e4p-1"))
    r = r - n * F32(np.float64.fromhex("0x1.7f7d1cp-20"))
    p = F32(1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + F32(c)
    p = p * (r * r) + r
    out = np.ldexp(p + F32(1), np.nan_to_num(n).astype(np.int32))
    out = np.where(x > 89, F32(np.inf), np.where(x < -104, F32(0), out))
    return canonical(np.where(np.isnan(x), x, out).astype(F32))


def silu(x: np.ndarray) -> np.ndarray:
    return x / (F32(1) + exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    u = x * (F32(0.79788456) + F32(0.03567741) * x * x)
    return x / (F32(1) + exp(F32(-2) * u))


def srelu(x: np.ndarray) -> np.ndarray:
    return np.where(x <= 0, F32(0), x * x)


ACTIVATIONS = {"silu": silu, "gelu": gelu, "srelu": srelu}
