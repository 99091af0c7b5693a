# SPDX-License-Identifier: Apache-2.0
"""eval of SmolLM2-135M, a real model, against figures that torch gives for FP8 that numpy and ml_dtypes make (told.py).
`--measure` measures them again, and prints TABLE."""
import json
import pathlib
import sys
from collections.abc import Iterator

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from harness import eval_text, finish, quantize, real_model, report, run, scratch, skip
from reference import WHOLE, Spec
from told import Told

# Of weights alone eval and torch differ by the order of sums, and agree to five digits on 4 sequences, where an error in one token
# weighs more than in 40.  Where inputs are rounded too, a last bit sends one to another code: only means of many tokens are near.
N_SEQUENCES, N_WITH_INPUTS, SEQ_LEN = 4, 12, 512


def both(tile_w: tuple[int, int], tile_x: tuple[int, int], kind: str) -> tuple[Spec, Spec]:
    return Spec("", tile_w, kind=kind), Spec("", tile_x, kind=kind)


# How w and x are quantized, and what quantize is told.
RECIPES = {
    "channelwise": (both((1, WHOLE), (1, WHOLE), "float"), ["--recipe", "channelwise"]),
    "mxfp8": (both((1, 32), (1, 32), "e8m0-up"), ["--recipe", "mxfp8"]),
    "blockwise": (both((128, 128), (1, 128), "pow2"), ["--recipe", "blockwise", "--ragged"]),
    "blockwise --scale-fmt float": (both((128, 128), (1, 128), "float"),
                                    ["--recipe", "blockwise", "--ragged", "--scale-fmt", "float"]),
    "current": (both((WHOLE, WHOLE), (WHOLE, WHOLE), "float"), ["--recipe", "current"]),
    "mxfp8 --mx-scale floor": (both((1, 32), (1, 32), "e8m0-floor"), ["--recipe", "mxfp8", "--mx-scale", "floor"]),
}

# Of these the inputs of products are rounded too: a recipe for each kind of scale.
WITH_INPUTS = ("channelwise", "blockwise --scale-fmt float", "mxfp8 --mx-scale floor")

# Perplexity of the source; perplexity and KLD of weights only, and of weights and inputs.
SOURCE = 25.1647
TABLE = {
    "channelwise": (25.2916, 0.01462, (24.4959, 0.024578)),
    "mxfp8": (25.5328, 0.014662, None),
    "blockwise": (25.5328, 0.014662, None),
    "blockwise --scale-fmt float": (25.3801, 0.014167, (24.5801, 0.020359)),
    "current": (25.4474, 0.013133, None),
    "mxfp8 --mx-scale floor": (25.7351, 0.024416, (25.2936, 0.064607)),
}


def evaluate(out: pathlib.Path, *args: str | pathlib.Path) -> tuple[float, float, float]:
    """The perplexity, the mean KLD, and the perplexity of the source."""
    done = run("eval", out, "--precision", "f32", "--json", "--progress", "none", *args)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    found = json.loads(done.stdout)
    return found["perplexity"]["value"], found["kld"]["mean"], found["source_perplexity"]["value"]


def problems(source: pathlib.Path, text: pathlib.Path, recipe: str) -> Iterator[str]:
    """Of weights only, and with activations where TABLE has them."""
    with scratch() as folder:
        if (done := quantize(source, folder / "out", *RECIPES[recipe][1])).returncode:
            yield done.stderr.decode().strip()
            return
        base = ["--source", source, "--data", text, "--seq-len", str(SEQ_LEN), "--passes"]
        ppl, kld, engine = TABLE[recipe]
        found, found_kld, found_source = evaluate(folder / "out", *base, str(N_SEQUENCES), "--activations", "bf16")
        if abs(found_source - SOURCE) > 0.001:
            yield f"source: {found_source}, not {SOURCE}"
        if abs(found - ppl) > 0.005 or abs(found_kld / kld - 1) > 0.01:
            yield f"weights: {found} {found_kld}, not {ppl} {kld}"
        if engine:
            found, found_kld, _ = evaluate(folder / "out", *base, str(N_WITH_INPUTS))
            if abs(found / engine[0] - 1) > 0.03 or abs(found_kld / engine[1] - 1) > 0.03:
                yield f"with activations: {found} {found_kld}, not {engine}"


@torch.no_grad()
def log_softmax(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return model(ids[None]).logits[0].double().log_softmax(-1)


def measure(source: pathlib.Path, text: pathlib.Path) -> None:
    """By torch, in fp32; the head and norms stay as they are."""
    ids = AutoTokenizer.from_pretrained(source)(text.read_text(encoding="utf-8"), return_tensors="pt").input_ids[0]
    ids = ids[:N_WITH_INPUTS * SEQ_LEN].reshape(N_WITH_INPUTS, SEQ_LEN)

    def loaded() -> torch.nn.Module:
        return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()

    def loss(q: torch.Tensor, row: torch.Tensor) -> float:
        return -q[:-1].gather(-1, row[1:, None]).mean().item()

    def figures(n: int, told: Told) -> tuple[float, float]:
        losses, klds = [], []
        for row, p in zip(ids[:n], of_source):
            told.rows.append({})
            q = log_softmax(told.model, row)
            losses.append(loss(q, row))
            klds.append((p.exp() * (p - q)).sum(-1).mean().item())
        return round(float(np.exp(np.mean(losses))), 4), round(float(np.mean(klds)), 6)

    plain = loaded()
    of_source = [log_softmax(plain, row) for row in ids]
    losses = [loss(p, row) for row, p in zip(ids[:N_SEQUENCES], of_source)]
    print(f"SOURCE = {np.exp(np.mean(losses)):.4f}\nTABLE = {{", flush=True)
    for recipe, ((w, x), _) in RECIPES.items():
        told = Told(loaded(), w, x)
        with_inputs = figures(N_WITH_INPUTS, told) if recipe in WITH_INPUTS else None
        told.quantized = lambda _, t: t
        print(f'    "{recipe}": {(*figures(N_SEQUENCES, told), with_inputs)},', flush=True)
    print("}")


def main() -> None:
    logging.disable_progress_bar()
    source, text = real_model(1), eval_text()
    if sys.argv[1:] == ["--measure"]:
        measure(source, text)
        return
    for recipe in TABLE:
        if text:
            report(f"eval of smollm2, {recipe}", problems(source, text, recipe))
        else:
            skip(f"eval of smollm2, {recipe}", "no package has the text (corpus.sh)")
    finish()


if __name__ == "__main__":
    main()
