# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M in every recipe and format: what transformers loads has the source's perplexity on English prose,
within 2 %."""
import math
import pathlib
from collections.abc import Iterator
from typing import Any

import torch
from loguru import logger
from transformers import AutoModelForCausalLM, AutoTokenizer, CompressedTensorsConfig
from transformers.utils import logging

from cases import DEFAULT_FORMAT, RECIPES
from harness import eval_text, finish, quantize, real_model, report, run, scratch, silence, skip

WINDOW, N_WINDOWS = 256, 16
LIMIT = 0.02

# Of 576 columns are 4.5 blocks: nothing is quantized in blocks unless --ragged, which transformers refuses; it reads
# no modelopt either.  Those come back by `dequantize`.  The first pair of a recipe is measured, the others are its bits.
PAIRS = {
    "channelwise": [("compressed-tensors", True), ("modelopt", False)],
    "current": [("compressed-tensors", True), ("hf", True)],
    "mxfp8": [("hf", True), ("compressed-tensors", True), ("modelopt", False)],
    "blockwise": [("hf", False), ("compressed-tensors", False)],
}


def load(folder: pathlib.Path, form: str | None = None) -> Any:
    more = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if form == "compressed-tensors" else {}
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True, **more)
    if lost := {key: value for key, value in info.items() if value}:
        raise RuntimeError(f"loading: {lost}")
    return model.float().eval()


@torch.no_grad()
def perplexity(model: Any, ids: torch.Tensor) -> float:
    return math.exp(sum(model(row[None], labels=row[None]).loss.item() for row in ids) / len(ids))


def converted(source: pathlib.Path, tmp: pathlib.Path, recipe: str, form: str) -> Iterator[str]:
    options = ["--ragged"] if recipe == "blockwise" else []
    options += ["--target", "transformers"] if (recipe, form) == ("current", "hf") else []
    options += [] if form == DEFAULT_FORMAT[recipe] else ["--format", form]
    yield from silence(quantize(source, tmp / form, "--recipe", recipe, *options))


def problems(source: pathlib.Path, ids: torch.Tensor, wanted: float, recipe: str) -> Iterator[str]:
    first = None
    with scratch() as tmp:
        for form, is_loaded in PAIRS[recipe]:
            yield from converted(source, tmp, recipe, form)
            folder = tmp / form
            if not is_loaded:
                folder = tmp / f"{form}-back"
                done = run("dequantize", tmp / form, "-o", folder, "-q")
                if done.returncode:
                    yield done.stderr.decode().strip()
                    continue
            model = load(folder, form if is_loaded else None)
            weights = {name: p for name, p in model.named_parameters() if name.endswith("proj.weight")}
            if first is None:
                first = weights
                found = perplexity(model, ids)
                print(f"   {recipe}: perplexity {found:.3f}, of the source {wanted:.3f}, {100 * (found / wanted - 1):+.2f} %")
                if not 0 < abs(found / wanted - 1) < LIMIT:
                    yield f"perplexity {found:.3f}, of the source {wanted:.3f}"
            elif far := [name for name, p in weights.items() if not near(p, first[name])]:
                yield f"{form}: other weights than in {PAIRS[recipe][0][0]}: {far[:2]}"


def near(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same codes; compressed-tensors rounds scales, and their product, to BF16."""
    return torch.allclose(a, b, rtol=2 ** -7, atol=0)


def nothing(source: pathlib.Path) -> Iterator[str]:
    """In whole blocks there is nothing to quantize; partial ones are refused for transformers."""
    with scratch() as tmp:
        for options in ((), ("--ragged", "--target", "transformers")):
            done = quantize(source, tmp / "out", *options)
            if done.returncode != 2 or (tmp / "out" / "config.json").exists():
                yield f"{options}: exit {done.returncode}, {done.stderr.decode().strip()}"


def main() -> None:
    logger.remove()
    logging.disable_progress_bar()
    source = real_model(1)
    text = eval_text()
    if not text:
        skip("perplexity of smollm2", "no package has the text (corpus.sh)")
        finish()
    prose = text.read_text(encoding="utf-8")[:WINDOW * N_WINDOWS * 6]
    ids = AutoTokenizer.from_pretrained(source)(prose, return_tensors="pt").input_ids[0]
    ids = ids[:WINDOW * N_WINDOWS].reshape(N_WINDOWS, WINDOW)
    wanted = perplexity(load(source), ids)
    assert PAIRS.keys() == RECIPES.keys()
    for recipe in PAIRS:
        report(f"perplexity of smollm2: {recipe}", problems(source, ids, wanted, recipe))
    report("blocks of smollm2", nothing(source))
    finish()


if __name__ == "__main__":
    main()
