# SPDX-License-Identifier: Apache-2.0
"""`fp8conv report`: its front matter by pyyaml and huggingface_hub, its Markdown by markdown-it, every number by numpy and torch."""
import json
import math
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy
import torch
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from safetensors.torch import load_file

from cases import RECIPES, Case, pairs, plain, tuned
from damage import shards
from harness import finish, quantize, report, run, sample, scratch, silence

PAGE = pathlib.Path(__file__).resolve().parent.parent / "cli" / "page.py"
CARD = """---
license: other
license_name: tiny
license_link: https://example.org/LICENSE
language:
- en
- "no"
pipeline_tag: text-generation
library_name: transformers
base_model: Org/parent
---
# Tiny
"""
EXPECTED = {"base_model": "model", "base_model_relation": "quantized", "quantized_by": "Somebody: else", "language": ["en", "no"],
            "license": "other", "license_name": "tiny", "license_link": "https://example.org/LICENSE",
            "pipeline_tag": "text-generation", "library_name": "transformers"}


def card(text: str, tags: list[str]) -> Iterator[str]:
    front = yaml.safe_load(text.split("---\n")[1])
    if front != EXPECTED | {"tags": tags}:
        yield f"front matter: {front}"
    data = ModelCard(text).data
    if (data.base_model, data.license, data.tags, data.language) != ("model", "other", tags, ["en", "no"]):
        yield f"ModelCard: {data.to_dict()}"
    tokens = MarkdownIt("commonmark").enable("table").parse(text.split("\n---\n", 1)[1])
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    for wanted in "Overview", "Use", "Precision by component", "Weights against the source", "Measured", "How it was made":
        if wanted not in headings:
            yield f"no heading {wanted}"
    raw = [token.content for token in tokens if token.type == "html_block"]
    if len(raw) != 1 or not raw[0].startswith("<!-- fp8conv report "):
        yield f"HTML in the card: {raw}"
    widths, cells = set(), 0
    for token in tokens:                       # a cell that holds a '|' of others would make its row longer
        cells += token.type in ("td_open", "th_open")
        if token.type == "tr_close":
            widths, cells = widths | {cells}, 0
    if widths != {2, 6}:
        yield f"rows of {widths} cells"
    fences = [token.content for token in tokens if token.type == "fence"]
    if not any("fp8conv quantize model" in fence for fence in fences):
        yield f"commands: {fences}"


def page_data(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))


def rows(data: dict) -> dict[str, list[str]]:
    """The fields of each tensor in the list."""
    found = {}
    for group, text in data["tensors"]:
        for row in text.split(";"):
            values, *fields = row.split(",")
            name = data["groups"][group]["name"]
            for value in filter(None, values.split(".")):
                name = name.replace("*", value, 1)
            found[name] = fields
    return found


def spread_scale(scale: torch.Tensor, data: torch.Tensor, tile: list[int]) -> torch.Tensor:
    scale = torch.exp2(scale.float() - 127) if scale.dtype == torch.uint8 else scale.float()
    grid = scale.reshape(-(-data.shape[0] // tile[0]), -1)
    return grid.repeat_interleave(tile[0], 0)[:data.shape[0]].repeat_interleave(tile[1], 1)[:, :data.shape[1]]


def numbers(page: str, out: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    """Amax, saturation, zeros and SQNR of each weight; the histogram of each kind."""
    content, original, counts = {}, {}, {}
    for path in shards(out):
        content |= load_file(path)
    for path in shards(source):
        original |= load_file(path)
    said_of = page_data(page)
    listed = rows(said_of)
    for tensor in json.loads(run("inspect", out, "--json").stdout)["tensors"]:
        name, data = tensor["name"], content[tensor["name"]]
        if not tensor["scale"]:
            continue
        values = data.double() * spread_scale(content[tensor["scale_inv"]], data, tensor["scale"]["tile"]).double()
        noise = (original[name].double() - values).square().sum()
        largest = torch.finfo(data.dtype).max
        wanted = [values.abs().max().item(), 100 * (data.float().abs() == largest).double().mean().item(),
                  100 * (data.float() == 0).double().mean().item(),
                  10 * torch.log10(original[name].double().square().sum() / noise).item()]
        said = [float(field) for field in listed[name][1:]]
        near = [abs(a - b) <= tolerance for a, b, tolerance in
                zip(said, wanted, (1e-3 * wanted[0], 6e-3 * wanted[1], 6e-3 * wanted[2], 0.006))]
        if len(said) != 4 or not all(near):
            yield f"{name}: {said}, torch {wanted}"
        kind = re.sub(r"\b\d+\b", "*", name.removesuffix(".weight"))
        counts[kind] = counts.get(kind, 0) + numpy.bincount(data.view(torch.uint8).numpy().ravel(), minlength=256)
    shown = {}
    for group in said_of["groups"]:
        if group["fp8"]:
            shown[group["name"].removesuffix(".weight")] = numpy.pad(group["codes"], (0, 256 - len(group["codes"])))
    if shown.keys() != counts.keys():
        yield f"kinds {sorted(shown)}, numpy {sorted(counts)}"
    for kind in shown.keys() & counts.keys():
        if (shown[kind] != counts[kind]).any():
            yield f"{kind}: {int((shown[kind] != counts[kind]).sum())} codes are not as numpy counts them"


def in_card(value: float, error: float | None) -> str:
    """A number as people write one: two digits of its error, else three digits of it."""
    if error is None:
        return f"{value:.3g}"
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 6) if error else 6
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def measured(text: str, page: str, result: dict) -> Iterator[str]:
    kld = result["kld"]
    numbers = [(kld["mean"], kld["se"]), (kld["p99_9"], None), (result["delta_p"]["rms"], None)]
    numbers += [(result[name]["value"], result[name]["se"]) for name in ("perplexity", "same_top", "source_perplexity")]
    for value, error in numbers:
        if in_card(value, error) not in text:
            yield f"the card does not have {in_card(value, error)}"
        if f"{value:.6f}" not in page:
            yield f"the page does not have {value:.6f}"
    for word in result["data_sha256"], "ids.jsonl", "does not rank benchmark scores":
        if word not in text or word not in page:
            yield f"{word} is missing"
    if str(pathlib.Path(result["data"][0]).parent) in text + page:
        yield "the folder of the data is told"


def check(source: pathlib.Path, case: Case) -> Iterator[str]:
    with scratch() as tmp:
        model = tmp / "model"
        model.mkdir()
        for path in source.iterdir():
            (model / path.name).symlink_to(path)
        (model / "README.md").write_text(CARD)
        (tmp / "ids.jsonl").write_text("".join(json.dumps({"input_ids": [(7 * i + 3 * t) % 100 for t in range(32)]}) + "\n"
                                               for i in range(4)))
        yield from silence(quantize(model, tmp / "out", *case.arguments()))
        done = run("eval", tmp / "out", "--source", model, "--data", tmp / "ids.jsonl", "--by-layer", "--json")
        (tmp / "eval.json").write_bytes(done.stdout)
        yield from silence(run("calibrate", model, "--data", tmp / "ids.jsonl", "-o", tmp / "s.amax", "--quiet", "--min-tokens", "1"))
        yield from silence(run("report", tmp / "out", "--source", model, "--eval", tmp / "eval.json", "--calibration", tmp / "s.amax",
                               "--quantized-by", "Somebody: else", "-o", tmp / "out"))
        text, page = (tmp / "out/README.md").read_text(), (tmp / "out/report.html").read_text()
        yield from card(text, ["fp8", "fp8conv"] if case.format == "hf" else ["fp8", case.format, "fp8conv"])
        whole = subprocess.run([sys.executable, str(PAGE), "whole", str(tmp / "out")], capture_output=True, text=True, check=False,
                               cwd=PAGE.parent)
        yield from filter(None, (whole.stdout + whole.stderr).splitlines())
        yield from numbers(page, tmp / "out", source)
        yield from measured(text, page, json.loads(done.stdout))


def main() -> None:
    if folder := sample("tiny-llama"):
        for case in (*map(lambda recipe: next(c for c in pairs() if c.recipe == recipe), RECIPES),
                     tuned(plain("current", "compressed-tensors"), "--fp8-format", "e5m2", fp8="e5m2")):
            report(f"report: {case}", check(folder, case))
    finish()


if __name__ == "__main__":
    main()
