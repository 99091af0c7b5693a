# SPDX-License-Identifier: Apache-2.0
"""sensitivity against transformers: the divergence of each group, from the logits of torch where this group alone goes through
numpy and ml_dtypes (told.py)."""
import json
import os
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import torch
from transformers.utils import logging

import tiny_models
from checkpoint import read_checkpoint
from harness import finish, report, run, sample, scratch
from reference import WHOLE, Spec
from test_load import dequantized, load, weight_problems
from told import Told

N_SEQUENCES, SEQ_LEN = 6, 48

# Of w and of x, and what sensitivity is told.
RECIPES = {
    "blockwise": (Spec("", (128, 128)), Spec("", (1, 128)), ["--recipe", "blockwise", "--ragged"]),
    "current": (Spec("", (WHOLE, WHOLE), kind="float"), Spec("", (WHOLE, WHOLE), kind="float"), ["--recipe", "current"]),
    "channelwise": (Spec("", (1, WHOLE), kind="float"), Spec("", (1, WHOLE), kind="float"), ["--recipe", "channelwise"]),
}
# The ends of the names of a model's groups.
MODELS = {
    "llama": {"qkv", "o", "gate_up", "down"},
    "phi3": {"qkv", "o", "gate_up", "down"},
    "mixtral": {"qkv", "o", "experts"},
    "qwen3_moe": {"qkv", "o", "gate_up", "down", "experts"},
    "deepseek_v3": {"qkv", "q_b", "kv_b", "o", "gate_up", "down", "experts", "shared_expert"},
    "gpt_oss": {"qkv", "o", "experts"},
    "gemma4": {"qkv", "o", "gate_up", "down", "experts"},
    "gemma4, small": {"qkv", "o", "gate_up", "down"},
    "granitemoehybrid": {"qkv", "o", "in_proj", "out_proj", "gate_up", "down", "experts"},
}


def measure(folder: pathlib.Path, options: list[str]) -> dict:
    done = run("sensitivity", folder / "m", "--data", folder / "ids.npy", "--seq-len", str(SEQ_LEN), "--passes", str(N_SEQUENCES),
               "-o", folder / "S.json", *options)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return json.loads((folder / "S.json").read_text())


class Others:
    """The names of all modules outside of a group; transformers has all experts of a layer in one."""

    def __init__(self, group: dict) -> None:
        names = [re.escape(module["name"]) for module in group["modules"]]
        if group["group"].endswith(".experts"):
            names = [rf".*\.layers\.{group['layer']}\..*experts\.\d+\.w\d"]
        self.pattern = re.compile("|".join(names))

    def __contains__(self, name: object) -> bool:
        return not self.pattern.fullmatch(str(name))


def problems(name: str, recipe: str) -> Iterator[str]:
    w, x, options = RECIPES[recipe]
    with scratch() as folder, torch.no_grad():
        plain = tiny_models.save(name, folder / "m")
        ids = np.random.default_rng(4).integers(0, plain.config.vocab_size, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)
        np.save(folder / "ids.npy", ids)
        table = measure(folder, options)
        ends = {group["group"].rsplit(".", 1)[1] for group in table["groups"]}
        if ends != MODELS[name]:
            yield f"groups {ends}, not {MODELS[name]}"
        tokens = torch.tensor(ids, dtype=torch.long)
        p = torch.log_softmax(torch.cat([plain(row[None]).logits for row in tokens]).double(), -1)
        for group in table["groups"]:
            told = Told(tiny_models.save(name, folder / "again"), w, x, Others(group))
            rows = []
            for row in tokens:
                told.rows.append({})
                rows.append(told.model(row[None]).logits)
            q = torch.log_softmax(torch.cat(rows).double(), -1)
            means = (p.exp() * (p - q)).sum(-1).mean(-1).numpy()
            wanted, error = means.mean(), means.std(ddof=1) / np.sqrt(len(means))
            found = group["kld"]
            # a rounding of an input that falls the other way goes its own way
            if not abs(found["mean"] - wanted) <= 0.03 * wanted + 1e-8 or not abs(found["se"] - error) <= 0.1 * error + 1e-8:
                yield f"{group['group']}: {found['mean']} +- {found['se']}, not {wanted} +- {error}"


def mixed_problems(model: pathlib.Path) -> Iterator[str]:
    """A checkpoint in which some groups took another recipe: transformers decodes what numpy does, as it comes (with dequantize=True
    transformers 5.24 takes one scheme for all modules)."""
    with scratch() as folder, torch.no_grad():
        (folder / "m").symlink_to(model)
        ids = np.random.default_rng(4).integers(0, 100, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)
        np.save(folder / "ids.npy", ids)
        table = measure(folder, ["--recipe", "blockwise,channelwise", "--format", "compressed-tensors"])
        middle = sum(recipe["kld_sum"] for recipe in table["recipes"]) / 2
        for arguments in (["sensitivity", "--from", folder / "S.json", "--as", "channelwise", "--max-kld", str(middle), "-o", folder / "mix"],
                          ["quantize", folder / "m", "-o", folder / "out", "--format", "compressed-tensors", "--tensors", folder / "mix"]):
            done = run(*arguments, "-q")
            if done.returncode:
                raise RuntimeError(done.stderr.decode().strip())
        columns = {tensor.shape[1] for _, name, tensor in read_checkpoint(folder / "out") if name.endswith("_scale")}
        groups = json.loads((folder / "out/config.json").read_text())["quantization_config"]["config_groups"]
        if {group["weights"]["strategy"] for group in groups.values()} != {"block", "channel"} or len(columns) < 2:
            yield f"groups {groups.keys()}, scales of {columns} columns: not both recipes"
        mixed, info = load(folder / "out", torch.float32, False)
        if info:
            yield f"transformers says {info}"
        mixed(torch.tensor(ids, dtype=torch.long)[:1])           # it decompresses in the first pass
        yield from weight_problems(mixed, dequantized(folder / "out", "f32"))


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in MODELS:
        for recipe in RECIPES if name == "llama" else ["blockwise"]:
            report(f"sensitivity of {name}, {recipe}", problems(name, recipe))
    if folder := sample("tiny-llama"):
        report("quantize --tensors, loaded by transformers", mixed_problems(folder))
    finish()


if __name__ == "__main__":
    main()
