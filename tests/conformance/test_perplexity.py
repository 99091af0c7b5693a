# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M in every recipe and format: what transformers loads has the source's perplexity within 2 %."""
import math
import pathlib
import pydoc_data.topics
from collections.abc import Iterator

import torch
from loguru import logger
from transformers import AutoModelForCausalLM, AutoTokenizer, CompressedTensorsConfig
from transformers.utils import logging

from cases import DEFAULT_FORMAT, RECIPES
from harness import finish, quantize, real_model, report, run, scratch, silence

WINDOW, N_WINDOWS = 256, 16                 # of English prose that every Python has: its language reference

# Of 576 columns are 4.5 blocks: nothing is quantized in blocks unless --ragged, which transformers refuses.
# It reads no modelopt, and in mxfp8 of compressed-tensors it decompresses; those come back by `dequantize` too.
PAIRS = [("channelwise", "compressed-tensors"), ("current", "compressed-tensors"), ("mxfp8", "hf"),
         ("mxfp8", "compressed-tensors"), ("current", "hf")]
BACK = [("channelwise", "modelopt"), ("mxfp8", "modelopt"), ("blockwise", "hf"), ("blockwise", "compressed-tensors")]


@torch.no_grad()
def perplexity(folder: pathlib.Path, ids: torch.Tensor, form: str | None = None) -> float:
    more = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if form == "compressed-tensors" else {}
    dtype = torch.bfloat16 if form == "hf" or more else torch.float32
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True, **more)
    if lost := {key: value for key, value in info.items() if value}:
        raise RuntimeError(f"loading: {lost}")
    model = model.float().eval()
    return math.exp(sum(model(row[None], labels=row[None]).loss.item() for row in ids) / len(ids))


def near(found: float, wanted: float, label: str) -> Iterator[str]:
    print(f"   {label}: perplexity {found:.3f}, of the source {wanted:.3f}, {100 * (found / wanted - 1):+.2f} %")
    if not 0 < abs(found / wanted - 1) < 0.02:
        yield f"perplexity {found:.3f}, of the source {wanted:.3f}"


def loaded(source: pathlib.Path, ids: torch.Tensor, wanted: float, pair: tuple[str, str]) -> Iterator[str]:
    recipe, form = pair
    with scratch() as tmp:
        options = ["--target", "transformers"] if pair == ("current", "hf") else []
        options += [] if form == DEFAULT_FORMAT[recipe] else ["--format", form]
        yield from silence(quantize(source, tmp / "out", "--recipe", recipe, *options))
        yield from near(perplexity(tmp / "out", ids, form), wanted, f"{recipe}/{form}")


def brought_back(source: pathlib.Path, ids: torch.Tensor, wanted: float, pair: tuple[str, str]) -> Iterator[str]:
    recipe, form = pair
    with scratch() as tmp:
        options = ["--ragged"] if recipe == "blockwise" else []
        yield from silence(quantize(source, tmp / "out", "--recipe", recipe, "--format", form, *options))
        done = run("dequantize", tmp / "out", "-o", tmp / "back", "-q")
        if done.returncode:
            yield done.stderr.decode().strip()
            return
        yield from near(perplexity(tmp / "back", ids), wanted, f"{recipe}/{form}, dequantized")


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
    topics = pydoc_data.topics.topics
    text = "\n".join(topics[key] for key in sorted(topics))[:WINDOW * N_WINDOWS * 6]
    ids = AutoTokenizer.from_pretrained(source)(text, return_tensors="pt").input_ids[0]
    ids = ids[:WINDOW * N_WINDOWS].reshape(N_WINDOWS, WINDOW)
    wanted = perplexity(source, ids)
    assert {recipe for recipe, _ in PAIRS + BACK} == set(RECIPES)
    for pair in PAIRS:
        report("perplexity of smollm2: %s/%s" % pair, loaded(source, ids, wanted, pair))
    for pair in BACK:
        report("perplexity of smollm2, dequantized: %s/%s" % pair, brought_back(source, ids, wanted, pair))
    report("blocks of smollm2", nothing(source))
    finish()


if __name__ == "__main__":
    main()
