# SPDX-License-Identifier: Apache-2.0
"""Loads checkpoints with one engine in one process, and tells for each whether the engine holds what is in the files.

    python worker.py vllm|sglang|transformers        one request a line of standard input, one answer a line

A request: {"folder": a checkpoint, "base": it, or the one that it is a damaged copy of, "plain": what fp8conv
dequantize makes of base, "source": the model it was made from}.  An answer: {"verdict": ..., "why": ...}:
right   every parameter is, bit for bit in BF16, what the same class of the engine holds after loading plain, the FP8
        ones are near the source's, the others equal; and linear layers multiply by them
wrong   loaded without an error, and something of this does not hold
stops   the engine raises an exception
unknown the engine does not load source or plain, or by another class: nothing can be told
"""
import functools
import importlib
import json
import os
import pathlib
import sys
import traceback
from collections.abc import Iterator

import torch

from held import Held, caches_on_disk

NEAR = 0.04                                 # FP8 against BF16, as a part of the norm; a scale off by a power of two is above
CACHES_NEAR = 0.004                         # factors of the KV cache, which engines round to BF16
SHOWN = 3


class Stops(Exception):
    """What the engine says, and in which step."""


class Differs(Exception):
    """Other classes of the engine load the two, so that their parameters cannot be compared."""


def load(engine: object, folder: str) -> Held:
    steps: list[str] = []
    try:
        return engine.load(pathlib.Path(folder), steps)
    except Exception as error:
        if os.environ.get("ENGINES_LOAD_TRACE"):
            traceback.print_exc()
        while error.__cause__ or error.__context__:
            error = error.__cause__ or error.__context__
        raise Stops(f"{steps[-1]}: {type(error).__name__}: {' '.join(str(error).split())[:180]}") from None


def error(value: torch.Tensor, original: torch.Tensor) -> float:
    """Relative, of two whose NaN are the same."""
    value, original = value.float().nan_to_num(), original.float().nan_to_num()
    return float((value - original).norm() / original.norm().clamp_min(1e-30))


def differences(found: Held, plain: Held, source: Held) -> list[str]:
    """Of what the engine holds."""
    told = [f"{key}: {reason}" for key, reason in found.odd.items()]
    for key in sorted((found.values.keys() ^ plain.values.keys()) - found.odd.keys()):
        told.append(f"{key}: only {'here' if key in found.values else 'in the dequantized model'}")
    for key in sorted(found.values.keys() & plain.values.keys()):
        value, wanted = found.values[key], plain.values[key]
        original = source.values.get(key)
        if value.shape != wanted.shape:
            told.append(f"{key}: {list(value.shape)} in place of {list(wanted.shape)}")
        elif n := int((value.view(torch.int16) != wanted.view(torch.int16)).sum()):
            told.append(f"{key}: {n} of {value.numel()} values are not code * scale")
        elif original is not None and (off := error(value, original)) > (NEAR if key in found.fp8 else 0):
            told.append(f"{key}: {off:.2g} off the source")
    return told


def wrong_caches(found: Held, folder: str) -> Iterator[str]:
    """Layers whose factors of keys and values differ from the files'."""
    for layer, wanted in caches_on_disk(pathlib.Path(folder)).items() if found.caches is not None else ():
        used = found.caches.get(layer, [(1.0, 1.0)])
        if not any(all(abs(a / b - 1) < CACHES_NEAR for a, b in zip(factors, wanted)) for factors in used):
            yield f"layer {layer}: keys and values of the cache times {used[0]}, in the file {wanted}"


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                           # engines print
    engine = importlib.import_module(f"engine_{sys.argv[1]}")
    reference = functools.lru_cache(maxsize=8)(functools.partial(load, engine))
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            source, plain = reference(asked["source"]), reference(asked["plain"])
        except Stops as reason:
            print(json.dumps({"verdict": "unknown", "why": f"without FP8 {reason}"}), file=answers, flush=True)
            continue
        try:
            found = load(engine, asked["folder"])
            if found.model != plain.model:
                raise Differs(f"as FP8 in class {found.model}, in BF16 in {plain.model}")
            told = [*differences(found, plain, source), *wrong_caches(found, asked["base"])]
            verdict, why = "wrong" if told else "right", "; ".join(told[:SHOWN]) + (f" (of {len(told)})" if len(told) > SHOWN else "")
        except Stops as reason:
            verdict, why = "stops", str(reason)
        except Differs as reason:
            verdict, why = "unknown", str(reason)
        print(json.dumps({"verdict": verdict, "why": why}), file=answers, flush=True)


if __name__ == "__main__":
    main()
