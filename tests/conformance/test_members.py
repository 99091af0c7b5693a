# SPDX-License-Identifier: Apache-2.0
"""Members of quantization_config, changed one at a time: what transformers with compressed-tensors does with the result, and
whether `verify --target transformers` says so.  A change that is refused, or moves the logits, must be named; one that
changes nothing must pass."""
import copy
import json
import pathlib
import shutil
import warnings
from collections.abc import Callable, Iterator

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from damage import kinds, verify
from harness import finish, quantize, report, sample, scratch, silence

Change = Callable[[dict], object]
IDS = torch.arange(2, 34)[None]
LIMIT = 1e-3        # of the logits: how far a change may move them and still be none


def top(**members: object) -> Change:
    return lambda q: q.update(members)


def without(*keys: str) -> Change:
    return lambda q: [q.pop(key) for key in keys]


def group(part: str | None = None, **members: object) -> Change:
    def change(q: dict) -> None:
        found = q["config_groups"]["group_0"]
        (found[part] if part else found).update(members)
    return change


def drop(part: str, key: str) -> Change:
    return lambda q: q["config_groups"]["group_0"][part].pop(key)


W, I = "weights", "input_activations"
CACHE = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}
COMPRESSED: list[tuple[str, Change]] = [
    ("nothing", top()),
    *((f"quantization_status {v}", top(quantization_status=v)) for v in ("frozen", "initialized", "COMPRESSED", 7, None)),
    ("no quantization_status", without("quantization_status")),
    ("no ignore", without("ignore")), *((f"ignore {v}", top(ignore=v)) for v in ("lm_head", [1], {"lm_head": 1})),
    *((f"sparsity_config {v}", top(sparsity_config=v)) for v in (None, {})),
    *((f"kv_cache_scheme {v}", top(kv_cache_scheme=v)) for v in (None, 7, "fp8", {"num_bits": 8, "zeta": 1})),
    ("no config_groups", without("config_groups")), *((f"config_groups {v}", top(config_groups=v)) for v in ([], "x", {"a": 3})),
    *((f"global_compression_ratio {v}", top(global_compression_ratio=v)) for v in (1.5, "x", [])),
    *((f"targets {v}", group(targets=v)) for v in ([], "Linear", [3], ["Conv2d"])),
    *((f"weights {v}", group(weights=v)) for v in (None, 3, [])), ("a key of the group", group(kernel=1)),
    *((f"format of the group {v}", group(format=v)) for v in (None, "float-quantized", "mixed-precision", "zeta", 3)),
    *((f"input_activations {v}", group(input_activations=v)) for v in (7, "x", [])),
    *((f"output_activations {v}", group(output_activations=v)) for v in (7, "x", [])),
    *((f"{part}.{key} {v}", group(part, **{key: v})) for part in (W, I) for key, values in {
        "num_bits": (4, 16, "x", None), "type": ("int", "FLOAT", "fp8", 3, None), "symmetric": (False, "x", None),
        "strategy": ("block", "attn_head", "zeta", 3), "dynamic": ("x", "local", None), "group_size": (32, -5, "x"),
        "block_structure": ([128, 128], [0, 1], "x", 3), "actorder": ("group", "zeta", True), "observer_kwargs": (None, 3),
        "scale_dtype": (3,), "zeta": (1,)}.items() for v in values),
    (f"{W}.dynamic true", group(W, dynamic=True)), (f"{I}.dynamic false", group(I, dynamic=False)),
    (f"{W} without type", drop(W, "type")), (f"{I} without type", drop(I, "type")),
    *((f"{W} without {key}", drop(W, key)) for key in ("num_bits", "symmetric", "dynamic", "observer", "observer_kwargs")),
]
HF: list[tuple[str, Change]] = [
    ("nothing", top()),
    *((f"{key} {v}", top(**{key: v})) for key, values in {
        "activation_scheme": ("zeta", 3, None), "weight_block_size": ([0, 128], [128], "x", 3, [64, 64]),
        "modules_to_not_convert": (None, 3, [3]), "modules_to_convert": (None,), "scale_fmt": ("zeta", 3, None)}.items()
      for v in values),
]


def logits(folder: pathlib.Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        return model(IDS).logits.double()


def fate(folder: pathlib.Path, sound: torch.Tensor) -> str:
    try:
        found = logits(folder)
    except Exception as error:                                      # noqa: BLE001: transformers fails in many ways
        return f"refused: {type(error).__name__}"
    off = ((found - sound).norm() / sound.norm()).item()
    return "the same" if off < LIMIT else f"off by {off:.2g}"


# Harmless to transformers on a CPU, and not to what reads the same member elsewhere: its kernels on a GPU, which the CPU
# goes without (quant_method fp8), or a default of compressed-tensors that verify does not rely on.
STRICTER = {"weight_block_size [64, 64]", "modules_to_not_convert [3]", "modules_to_not_convert 3", "scale_fmt None",
            "output_activations []", "input_activations []"}


def each(source: pathlib.Path, recipe: str, form: str, changes: list[tuple[str, Change]]) -> Iterator[str]:
    with scratch() as tmp:
        good, bad = tmp / "good", tmp / "bad"
        yield from silence(quantize(source, good, "--recipe", recipe, "--format", form, "--target", "transformers"))
        config, sound = json.loads((good / "config.json").read_text()), logits(good)
        shutil.copytree(good, bad)
        for name, change in changes:
            changed = copy.deepcopy(config)
            change(changed["quantization_config"])
            (bad / "config.json").write_text(json.dumps(changed))
            does, (status, found) = fate(bad, sound), verify(bad, "--target", "transformers")
            if (status == 0) != (does == "the same") and not (status and name in STRICTER):
                yield f"{name}: transformers: {does}; verify: {sorted(kinds(found)) or 'passes'}"


def main() -> None:
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    source = sample("tiny-llama")
    if source:
        report("members of compressed-tensors", each(source, "channelwise", "compressed-tensors", COMPRESSED))
        report("members of hf", each(source, "blockwise", "hf", HF))
    finish()


if __name__ == "__main__":
    main()
