# SPDX-License-Identifier: Apache-2.0
"""Rounding with compensation against GPTQ as its paper has it (arXiv 2210.17323), in fp64: the Cholesky factor of H^-1, and
corrections to all columns that are left.  The program's loop has another factor and another order of sums, in fp32."""
import pathlib
import subprocess
from collections.abc import Iterator

import numpy as np

from harness import FP8CONV, finish, report, scratch
from reference import FP8, WHOLE, Spec, cast, e8m0_from_amax, e8m0_to_f32, scale_from_amax, spread, tile_amax

COMPENSATE = pathlib.Path(FP8CONV).parent / "tests/conformance/compensate"
F32 = np.float32
LAMBDA = 0.001
DIFFER = 0.005                              # of the codes, at most: those near the border between two

SPECS = {
    "blocks, pow2": Spec("", (128, 128)),
    "blocks, fp32": Spec("", (128, 128), kind="float"),
    "blocks, deepseek": Spec("", (128, 128), kind="float", arith="deepseek"),
    "channels, E5M2": Spec("", (1, WHOLE), fp8="e5m2", kind="float"),
    "tensor": Spec("", (WHOLE, WHOLE), kind="float"),
    "mx": Spec("", (1, 32), kind="e8m0-up"),
}
SHAPES = ((192, 300, 0.0), (70, 515, 0.3), (33, 129, 0.8))


def inputs(rng: np.random.Generator, n_tokens: int, n: int) -> np.ndarray:
    """Of different sizes, correlated, with some columns that are always 0."""
    x = rng.normal(size=(n_tokens, n)) + 2 * rng.normal(size=(n_tokens, 8)) @ rng.normal(size=(8, n))
    x *= np.exp(rng.normal(size=n))
    x[:, rng.choice(n, 3, replace=False)] = 0
    return x.astype(F32)


def scales(w: np.ndarray, spec: Spec) -> tuple[np.ndarray, np.ndarray | None]:
    """scale_inv and scale of each tile; scale is None where codes are x / scale_inv."""
    amax = tile_amax(w, spec.tile)
    if not spec.kind.startswith("e8m0"):
        return scale_from_amax(amax, spec, "f32")
    code = e8m0_from_amax(amax, spec.fp8, spec.kind)
    return e8m0_to_f32(code), e8m0_to_f32(254 - code)


def gptq(w: np.ndarray, h: np.ndarray, rho: float, spec: Spec) -> np.ndarray:
    scale_inv, scale = scales(w, spec)
    inverse = spread(scale_inv, spec.tile, w.shape)
    factor = None if scale is None else spread(scale, spec.tile, w.shape)
    diagonal = np.diag(h)
    order = np.argsort(-diagonal, kind="stable")
    regular = (1 - rho) * h.astype(float) + rho * np.diag(diagonal) + LAMBDA * diagonal.mean() * np.eye(len(h))
    upper = np.linalg.cholesky(np.linalg.inv(regular[np.ix_(order, order)])).T
    left, codes = w[:, order].astype(float), np.zeros(w.shape, np.uint8)
    for j, column in enumerate(order):
        value = left[:, j].astype(F32)
        codes[:, column] = cast(value / inverse[:, column] if factor is None else value * factor[:, column], spec.fp8)
        error = left[:, j] - codes[:, column].view(FP8[spec.fp8]).astype(float) * inverse[:, column]
        left[:, j:] -= np.outer(error / upper[j, j], upper[j, j:])
    return codes


def ours(folder: pathlib.Path, w: np.ndarray, h: np.ndarray, rho: float, spec: Spec) -> np.ndarray:
    scale_inv, scale = scales(w, spec)
    below = np.tril(np.full(h.shape, np.nan, F32), -1)
    for name, array in (("w", w), ("h", np.triu(h) + below), ("scale_inv", scale_inv),
                        ("factor", scale_inv if scale is None else scale)):
        array.astype(F32).tofile(folder / name)
    subprocess.run([COMPENSATE, folder, *map(str, w.shape), str(rho), spec.fp8, *map(str, spec.tile),
                    "divide" if scale is None else "multiply"], check=True)
    return np.fromfile(folder / "codes", np.uint8).reshape(w.shape)


def loss(w: np.ndarray, codes: np.ndarray, h: np.ndarray, spec: Spec) -> float:
    back = codes.view(FP8[spec.fp8]).astype(float) * spread(scales(w, spec)[0], spec.tile, w.shape)
    e = w - back
    return float(((e @ h) * e).sum())


def problems(folder: pathlib.Path, spec: Spec) -> Iterator[str]:
    for seed, (rows, cols, rho) in enumerate(SHAPES):
        rng = np.random.default_rng(seed)
        x = inputs(rng, 2 * cols, cols)
        w = (rng.normal(size=(rows, cols)) * np.exp(0.5 * rng.normal(size=cols))).astype(F32)
        h = x.T @ x
        found, wanted = ours(folder, w, h, rho, spec), gptq(w, h, rho, spec)
        nearest = gptq(w, np.diag(np.diag(h)), 0, spec)
        differ = np.mean(found != wanted)
        if differ > DIFFER:
            yield f"{rows} x {cols}: {differ:.2%} of the codes differ from GPTQ's"
        if not abs(loss(w, found, h, spec) / loss(w, wanted, h, spec) - 1) < 0.002:
            yield f"{rows} x {cols}: a loss of {loss(w, found, h, spec)}, and {loss(w, wanted, h, spec)} by GPTQ"
        if not loss(w, found, h, spec) < 0.2 * loss(w, nearest, h, spec):
            yield f"{rows} x {cols}: a loss of {loss(w, found, h, spec)}, and {loss(w, nearest, h, spec)} by rounding to nearest"


with scratch() as folder:
    for title, spec in SPECS.items():
        report(f"compensated rounding is GPTQ: {title}", problems(folder, spec))
finish()
