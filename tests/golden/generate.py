#!/usr/bin/env python3
"""Write the golden vectors of the FP8 arithmetic, or check that they are what this program writes.

Source of truth: reference.py, which is independent of the C code.  README.md describes the files.

    python generate.py            write the .txt files beside this program
    python generate.py --check    compare with them; exit status 1 where they differ
"""
import argparse
import hashlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from itertools import islice, product

import numpy as np

import crosscheck
import operations
import quantizers
import reference as ref
from cases import every_case
from inputs import Input, make, splitmix64, to_f32
from reference import F32, FMAX, LARGEST, WHOLE, Spec, bits, from_bits

FP8 = ("e4m3", "e5m2")
DTYPES = ("f32", "bf16", "f16")
SPECIAL = [0x00000000, 0x00000001, 0x00000002, 0x00400000, 0x007FFFFF, 0x00800000, 0x00800001,
           0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF]


def near(values: np.ndarray | list[float], ulps: int = 1) -> list[int]:
    """The bits of positive fp32 values and of their neighbors."""
    return [int(b) + d for b in bits(np.asarray(values, F32)).ravel() for d in range(-ulps, ulps + 1)
            if int(b) + d >= 0]


def sha(x: np.ndarray) -> str:
    """SHA-256 of the elements in row-major order, little-endian."""
    x = np.ascontiguousarray(x)
    return hashlib.sha256(x.astype(x.dtype.newbyteorder("<")).tobytes()).hexdigest()


def hex32(x: float | np.ndarray) -> str:
    return f"{int(bits(x)):08x}"


def cast_lines() -> Iterator[str]:
    values = list(SPECIAL) + near([464, 480, 512, 61440, 65536, 1e30])
    for fp8 in FP8:
        codes = np.arange(128, dtype=np.uint8).view(ref.FP8[fp8]).astype(F32)
        codes = codes[np.isfinite(codes)]
        values += near(codes) + near((codes[1:] + codes[:-1]) / F32(2))
    values += [int(z) for z in splitmix64(1, np.arange(100)) >> np.uint64(33)]
    values += [int(z) % (24 << 23) + (112 << 23) for z in splitmix64(2, np.arange(300)) >> np.uint64(33)]
    values = np.unique(np.array(values, np.uint32))
    values = np.append(values, values | np.uint32(0x80000000))
    codes = {fp8: ref.cast(from_bits(values), fp8) for fp8 in FP8}
    crosscheck.cast(values, codes)
    for b, e4m3, e5m2 in zip(values, codes["e4m3"], codes["e5m2"]):
        yield f"{b:08x} {e4m3:02x} {e5m2:02x}"


def scale_amaxes() -> np.ndarray:
    edges = [FMAX[fp8] * F32(2.0 ** -margin) / limit for fp8 in FP8 for margin in (0, 2)
             for limit in (ref.FLT_MAX, LARGEST["bf16"])]
    edges += [1e-38, 1e-12, 1e-4, 0.25, 1, 3, 112, 448, 449, 464, 57344, LARGEST["f16"], LARGEST["bf16"]]
    random = (splitmix64(3, np.arange(12)) >> np.uint64(33)) % np.uint64(0x7F800000)
    return np.unique(np.array(SPECIAL + near(edges) + [int(r) for r in random], np.uint32))


def scale_specs() -> Iterator[tuple[Spec, str]]:
    kinds = ("float", "pow2")
    targets = [("tensor", "bf16"), ("channel", "f16"), ("block", "f32"), ("block", "bf16"), ("block", "f16")]
    tile = {"tensor": (WHOLE, WHOLE), "channel": (1, WHOLE), "block": (128, 128)}
    for (name, dtype), fp8, kind, margin in product(targets, FP8, kinds, (0, 2)):
        yield Spec(name, tile[name], fp8, kind, margin=margin), dtype
    for fp8, kind, eps, margin in product(FP8, kinds, (1e-12, 1.0), (0, 2)):
        yield Spec("block", tile["block"], fp8, kind, eps=eps, margin=margin), "bf16"
    for arith, fp8, kind, (eps, margin) in product(("deepseek", "deepgemm"), FP8, kinds,
                                                   ((0.0, 0), (1e-12, 0), (1.0, 0), (0.0, 2))):
        yield Spec("block", tile["block"], fp8, kind, arith, eps, margin), "bf16"


def scale_lines() -> Iterator[str]:
    amaxes = scale_amaxes()
    for s, dtype in scale_specs():
        yield f"spec {s.recipe} {dtype} {s.fp8} {s.kind} {s.arith} {hex32(s.eps)} {s.margin}"
        scale_inv, scale = ref.scale_from_amax(from_bits(amaxes), s, dtype)
        for i, amax in enumerate(amaxes):
            yield f"{amax:08x} {hex32(scale_inv[i])} {hex32(scale[i]) if scale is not None else '-'}"


def e8m0_lines() -> Iterator[str]:
    mantissas = [0, 1, 0x400000, 0x5FFFFF, 0x600000, 0x600001, 0x6FFFFF, 0x700000, 0x77FFFF, 0x780000, 0x7FFFFF]
    amaxes = [exponent << 23 | mantissa for exponent in range(255) for mantissa in mantissas]
    amaxes = np.unique(np.array(amaxes + SPECIAL, np.uint32))
    rules = ("e8m0-up", "e8m0-floor", "e8m0-even")
    codes = [ref.e8m0_from_amax(from_bits(amaxes), fp8, rule) for fp8 in FP8 for rule in rules]
    crosscheck.e8m0_up(amaxes, codes[0], codes[3])
    for amax, *row in zip(amaxes, *codes):
        yield " ".join([f"{amax:08x}", *(f"{code:02x}" for code in row)])


def tensor_lines() -> Iterator[str]:
    for t, specs in every_case():
        b = make(t)
        yield input_line(t, b)
        x = to_f32(b, t.dtype)
        for s in specs:
            codes, scales = ref.quantize(x, s, t.dtype)
            e8m0 = s.kind.startswith("e8m0")
            first = [f"{v:02x}" if e8m0 else hex32(v) for v in scales.ravel()[:4]]
            yield " ".join(["case", s.recipe, str(s.tile[0]), str(s.tile[1]), s.fp8, s.kind, "-" if e8m0 else s.arith,
                            hex32(s.eps), str(s.margin), sha(codes), sha(scales),
                            codes.ravel()[:8].tobytes().hex(), ",".join(first)])


def dequantize_lines() -> Iterator[str]:
    all_codes = np.arange(256, dtype=np.uint8)
    shown = [0x00, 0x01, 0x07, 0x08, 0x39, 0x7B, 0x7C, 0x7E, 0x7F, 0x80, 0x81, 0xB9, 0xFC, 0xFE, 0xFF]
    floats = [0x3F800000, 0x3DCCCCCD, 0x3B4B295F, 0x00400000, 0x00200000, 0x00200001, 0x00000001, 0x00800000,
              0x7E967699, 0x7F7FFFFF, 0x43124925, 0x33D6BF95, 0x3A800001, 0x3F7FFFFF]
    scales = [("f32", f"{b:08x}", from_bits(b)) for b in floats]
    scales += [("e8m0", f"{code:02x}", ref.e8m0_to_f32(code)) for code in (0, 1, 2, 100, 126, 127, 128, 200, 253, 254, 255)]
    for fp8, (kind, text, scale_inv) in product(FP8, scales):
        out = {dtype: ref.dequantize(all_codes, scale_inv, fp8, dtype) for dtype in DTYPES}
        crosscheck.dequantize(scale_inv, fp8, out)
        yield f"scale {fp8} {kind} {text} {sha(out['f32'])} {sha(out['bf16'])} {sha(out['f16'])}"
        for q in shown:
            yield f"{q:02x} {out['f32'][q]:08x} {out['bf16'][q]:04x} {out['f16'][q]:04x}"


def random_step(z: int) -> tuple[int, int]:
    """Bits of (running amax in h[0], reduced amax b): mostly near 1, sometimes special."""
    amax = z & 0x7FFFFF | (119 + (z >> 23) % 16) << 23
    special = {0: (0, 0), 1: (amax, 0), 2: (0, 0x7F800000), 3: (0, 0x7FC00000), 4: (amax, 0x00000001),
               5: (0x7FC00000, 0), 6: (0, 0x7F7FFFFF)}
    return special.get(z >> 58, (amax & 0x7FFFFFFE, amax))


def falling_step(t: int, z: int) -> tuple[int, int]:
    """Amaxes that fall, so that the maximum is the oldest in the window, and one inf that must leave it."""
    amax = 0x42800000 - t * 0x8000 + (z & 0x3FFF)
    if t == 10:
        return amax, 0x7F800000
    special = {2: (0, 0x00000001), 5: (0, 0), 9: (amax, 0), 13: (0x7FC00000, 0), 15: (amax, 0x7FC00000)}
    return special.get(t % 16, (amax - 1, amax))


def delayed_lines() -> Iterator[str]:
    sequences = [(n, fp8, steps) for n, steps in ((1, 90), (2, 90), (31, 110)) for fp8 in FP8]
    sequences += [(n, "e4m3", n + 120) for n in (255, 256, 257, 1024)]
    columns = list(product(("max", "most-recent"), (0, 2)))
    for number, (length, fp8, steps) in enumerate(sequences):
        yield f"sequence {length} {fp8} {steps}"
        history, scales = np.zeros(length, F32), [F32(1)] * len(columns)
        for t, z in enumerate(splitmix64(900 + number, np.arange(steps))):
            h0, b = random_step(int(z)) if length <= 2 else falling_step(t, int(z))
            history[0] = from_bits(h0)
            m, last = ref.history_update(history, from_bits(b)[()])
            scales = [ref.delayed_scale(m if algo == "max" else last, before, fp8, margin)
                      for before, (algo, margin) in zip(scales, columns)]
            yield " ".join([f"{h0:08x} {b:08x}", *map(hex32, scales)])
        yield f"history {sha(history)}"


def swizzle_lines() -> Iterator[str]:
    for number, (rows, k) in enumerate(product((1, 32, 33, 127, 128, 129, 300), (32, 96, 128, 160, 544, 576))):
        n = rows * (k // 32)
        scales = (splitmix64(1000 + number, np.arange(n)) & np.uint64(0xFF)).astype(np.uint8).reshape(rows, -1)
        out = ref.swizzle(scales)
        crosscheck.swizzle(scales, k, out)
        yield f"{rows} {k} {1000 + number} {len(out)} {sha(scales)} {sha(out)}"


def input_line(t: Input, b: np.ndarray) -> str:
    overlays = "+".join(map(str, t.overlays)) or "-"
    return f"input {t.dtype} {t.rows} {t.cols} {t.seed} {t.fill} {overlays} {sha(b)}"


def copies(x: np.ndarray, spec: Spec, dtype: str, scale: np.float32 | None) -> list[str]:
    """Eight hashes: codes and scales of the rowwise, then of the columnwise copy."""
    fields = []
    for columnwise in (False, True):
        c = quantizers.copy(x, spec, dtype, columnwise, scale)
        fields += [sha(c.codes), sha(c.compact), sha(c.padded), "-" if c.gemm is None else sha(c.gemm)]
    return fields


def slot_lines(x: np.ndarray, dtype: str, number: int, step: int = 1) -> Iterator[str]:
    """Slots that quantize x: of every recipe all, or every step-th."""
    for recipe, mode, slot, spec, scale, before in islice(quantizers.slots(number), number % step, None, step):
        after = max(before, quantizers.amax(x))
        given = ["-"] * 3 if scale is None else [hex32(scale), hex32(before), hex32(after)]
        saturated, nonfinite = quantizers.stats(x, spec, dtype, scale)
        yield " ".join(["slot", recipe, mode, str(slot), *given, str(saturated), str(nonfinite), *copies(x, spec, dtype, scale)])


def quantizer_lines() -> Iterator[str]:
    for number, t in enumerate(quantizers.quantizer_inputs()):
        b = make(t)
        yield input_line(t, b)
        yield from slot_lines(to_f32(b, t.dtype), t.dtype, number)


def fused_lines() -> Iterator[str]:
    for number, t in enumerate(quantizers.fused_inputs()):
        b = make(t)
        x = to_f32(b, t.dtype)
        yield input_line(t, b)
        for i, (kind, zero_centered, has_beta) in enumerate((("rms", 0, 0), ("rms", 1, 0), ("layer", 0, 1), ("layer", 1, 0))):
            eps = (1e-6, 1e-5)[i % 2]
            gamma, beta = quantizers.row(t.seed + 1, t), quantizers.row(t.seed + 2, t) if has_beta else None
            y, mu, rsigma = operations.norm(x, kind, gamma, beta, eps, bool(zero_centered))
            crosscheck.norm(x, kind, gamma, beta, eps, zero_centered, y)
            yield (f"norm {kind} {zero_centered} {hex32(eps)} {t.seed + 1} {t.seed + 2 if has_beta else '-'} "
                   f"{sha(mu) if kind == 'layer' else '-'} {sha(rsigma)}")
            yield from slot_lines(y, "f32", number + i, 4)
        for i, (name, gated) in enumerate(product(operations.ACTIVATIONS, (0, 1))):
            y = operations.ACTIVATIONS[name](x)
            crosscheck.activation(x, name, y)
            y = y * quantizers.up(t.seed + 3, t) if gated else y
            yield f"activation {name} {t.seed + 3 if gated else '-'}"
            yield from slot_lines(y, "f32", number + i, 4)


FILES: dict[str, Callable[[], Iterator[str]]] = {
    "cast.txt": cast_lines,
    "scale.txt": scale_lines,
    "e8m0.txt": e8m0_lines,
    "tensor.txt": tensor_lines,
    "dequantize.txt": dequantize_lines,
    "delayed.txt": delayed_lines,
    "swizzle.txt": swizzle_lines,
    "quantizer.txt": quantizer_lines,
    "fused.txt": fused_lines,
}


def main() -> int:
    ap = argparse.ArgumentParser(description="Write the golden vectors of the FP8 arithmetic.")
    ap.add_argument("--check", action="store_true", help="compare with the files that are there; write nothing")
    ap.add_argument("files", nargs="*", metavar="FILE", help="only these, such as cast.txt (default: all)")
    args = ap.parse_args()
    unknown = set(args.files) - set(FILES)
    if unknown:
        ap.error(f"no such file: {', '.join(sorted(unknown))} (there are {', '.join(FILES)})")

    here = pathlib.Path(__file__).resolve().parent
    different = []
    with np.errstate(all="ignore"):
        for name in args.files or FILES:
            text = "".join(f"{line}\n" for line in [f"# {name}: written by generate.py, described in README.md",
                                                    *FILES[name]()])
            if not args.check:
                (here / name).write_text(text, encoding="ascii")
            elif not (here / name).exists() or (here / name).read_text(encoding="ascii") != text:
                different.append(name)
    for name in different:
        print(f"generate.py: '{name}' is not what this program writes", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
