# SPDX-License-Identifier: Apache-2.0
"""calibrate --fp8-forward against transformers whose linear layers are told to see FP8 (told.py)."""
import os
import pathlib
from collections.abc import Iterator

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers.utils import logging

import tiny_models
from harness import finish, our_logits, report, run, scratch
from reference import WHOLE, Spec
from told import Told

N_SEQUENCES, SEQ_LEN = 6, 16

# Of w and of x, and what calibrate and forward are told.
RECIPES = {
    "blockwise": (Spec("", (128, 128)), Spec("", (1, 128)), ["blockwise"]),
    "blockwise, fp32 scales": (Spec("", (128, 128), kind="float"), Spec("", (1, 128), kind="float"), ["blockwise", "float"]),
    "current": (Spec("", (WHOLE, WHOLE), kind="float"), Spec("", (WHOLE, WHOLE), kind="float"), ["current"]),
    "channelwise": (Spec("", (1, WHOLE), kind="float"), Spec("", (1, WHOLE), kind="float"), ["channelwise"]),
    "mxfp8": (Spec("", (1, 32), kind="e8m0-up"), Spec("", (1, 32), kind="e8m0-up"), ["mxfp8"]),
    "delayed": (Spec("", (WHOLE, WHOLE), kind="float"), None, ["delayed"]),
}


def near(errors: list[float], what: str) -> Iterator[str]:
    """Where torch's last bit tips a value over the border between two codes, what follows differs by the width of a code.
    That is rare: three of four are the same but for fp32."""
    same = np.mean(np.array(errors) < 1e-4)
    if not same >= 0.75:
        yield f"{what}: {same:.0%} of {len(errors)} within 1e-4"


def logits_problems(folder: pathlib.Path, model: torch.nn.Module, plain: torch.nn.Module, row: np.ndarray,
                    told: list[str]) -> Iterator[str]:
    """Of the first pass, token by token; they are nowhere near the logits in high precision."""
    found = our_logits(folder, row, *told)
    if isinstance(found, str):
        yield found
        return
    ids = torch.tensor(row[None], dtype=torch.long)
    wanted, high = model(ids).logits[0].double(), plain(ids).logits[0].double()
    found = torch.from_numpy(found.reshape(wanted.shape)).double()
    yield from near(((found - wanted).norm(dim=1) / wanted.norm(dim=1)).tolist(), "logits")
    if ((found - high).norm() / high.norm()) < 0.02:
        yield "the logits are near the logits in high precision"


def sites(row: dict[str, tuple[float, float]], fused: bool) -> Iterator[tuple[str, float, float]]:
    """The amaxes of x and y by the names of the file; gate and up of an expert are one matrix in GPT-OSS."""
    for name, (x, y) in row.items():
        at, _, last = name.rpartition(".")
        if fused and last == "w1":
            yield f"{at}.gate_up_proj", x, max(y, row[f"{at}.w3"][1])
        elif fused and last == "w2":
            yield f"{at}.down_proj", x, y
        elif not fused and (".experts." in name or last == "gate"):
            yield name.replace(".mlp.", ".block_sparse_moe."), x, y
        elif last != "w3":
            yield name, x, y


def amax_problems(rows: list[dict], found: dict[str, np.ndarray]) -> Iterator[str]:
    errors = []
    fused = any(".gate_up_proj." in name and ".experts." in name for name in found)
    for p, row in enumerate(rows):
        for site, x, y in sites(row, fused):
            history = found[f"{site}.amax_history"][p]
            errors += [abs(history[0] / x - 1), abs(history[2] / y - 1)]
    yield from near(errors, "amaxes")


def problems(name: str, recipe: str) -> Iterator[str]:
    w, x, told = RECIPES[recipe]
    options = ["--recipe", told[0], *(["--ragged"] if told[0] == "blockwise" else []), *[f"--scale-fmt={s}" for s in told[1:]]]
    with scratch() as folder, torch.no_grad():
        plain, model = tiny_models.save(name, folder), tiny_models.save(name, folder)
        seen = Told(model, w, x)
        ids = np.random.default_rng(11).integers(0, plain.config.vocab_size, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)
        np.save(folder / "ids.npy", ids)
        done = run("calibrate", folder, "--data", folder / "ids.npy", "--precision", "f32", "-o", folder / "s.amax", "--quiet",
                   "--seq-len", str(SEQ_LEN), "--fp8-forward", *options)
        if done.returncode:
            yield done.stderr.decode().strip()
            return
        for p, row in enumerate(ids):
            seen.rows.append({})
            if p == 0:
                yield from logits_problems(folder, model, plain, row, told)
            else:
                model(torch.tensor(row[None], dtype=torch.long))
        yield from amax_problems(seen.rows, load_file(folder / "s.amax"))


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in ("llama", "gemma2", "phi3", "mixtral", "gpt_oss"):
        for recipe in RECIPES:
            report(f"fp8 forward of {name}, {recipe}", problems(name, recipe))
    finish()


main()
