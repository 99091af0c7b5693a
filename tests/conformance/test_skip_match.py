# SPDX-License-Identifier: Apache-2.0
"""Which entry of a list matches which module: `verify` against transformers' and compressed-tensors' own functions, and, where
tests/engines_load runs it in the environment of vLLM or SGLang, that engine's own."""
import fnmatch
import importlib.util
import json
import pathlib
import random
import re
import warnings
from collections.abc import Iterator

import torch
from compressed_tensors.utils.match import match_name
from safetensors.torch import save_file
from transformers.quantizers.quantizers_utils import should_convert_module

from damage import verify
from harness import finish, report, scratch

N = 400
SEGMENTS = ["model", "layers", "0", "1", "10", "mlp", "self_attn", "experts", "shared_experts", "gate", "gate_proj", "q_proj", "proj", "o", "visual"]
warnings.simplefilter("ignore")


def name(rng: random.Random) -> str:
    return ".".join(rng.choice(SEGMENTS) for _ in range(rng.randint(1, 5)))


def entry(rng: random.Random, modules: list[str]) -> str:
    """A piece of a module, or one changed a little; sometimes an expression."""
    text = rng.choice(modules)
    for _ in range(rng.randint(1, 2)):
        kind, at = rng.randrange(7), rng.randrange(len(text))
        if kind == 0:
            text = text[at:]
        elif kind == 1:
            text = text[:at + 1]
        elif kind == 2:
            text = text[:at] + "." + text[at + 1:]
        elif kind == 3:
            text += "." + rng.choice(SEGMENTS)
        elif kind == 4:
            text = rng.choice(SEGMENTS) + text
        elif kind == 5:
            text = text[:at] + "*" + text[at + 1:]
        else:
            text = "re:" + rng.choice(("", ".*")) + text.removeprefix("re:")
    return text


def converts(module: str, text: str) -> bool:
    try:
        return should_convert_module(module, [text])
    except Exception:                                         # no expression
        return not module.endswith(text)


def ignores(module: str, text: str) -> bool:
    try:
        return match_name(module, text)
    except Exception:
        return False


# How each engine matches, of quant_method fp8: is_layer_skipped() of vLLM 0.32, _module_path_match() of SGLang 0.5.23, written
# after them, and transformers' own function.  An expression that transformers does not compile stops it, and matches nothing.
FUSED = ("gate_proj", "q_proj")
TARGETS = {"vllm": lambda m, text: m == text, "sglang": lambda m, text: f".{text.rstrip('.')}." in f".{m}.",
           "transformers": lambda m, text: not text.startswith("re:") and not converts(m, text)}
OWN = next((e for e in ("vllm", "sglang") if importlib.util.find_spec(e) and importlib.util.find_spec("engine_" + e)), None)
if OWN:                                                       # whose transformers may be another one
    TARGETS = {OWN: lambda m, text: importlib.import_module("engine_" + OWN).is_layer_skipped(m, [text])}


def container(module: str) -> str | None:
    """The prefix of the experts that engines ask for."""
    parts = module.split(".")
    for i, part in enumerate(parts):
        if part == "experts" or part.endswith("experts") and (i + 1 == len(parts) or parts[i + 1].isdigit()):
            return ".".join(parts[:i + 1])
    return None


def matches(module: str, text: str) -> bool:
    """transformers, compressed-tensors; SGLang and TensorRT-LLM; vLLM."""
    experts = container(module)
    names = [module] + ([experts] if experts else [])
    return (any(not text.startswith("re:") and not converts(m, text) or ignores(m, text) for m in names)
            or f".{text}." in f".{module}."
            or any(fnmatch.fnmatchcase(m, text) for m in names)
            or bool(experts) and experts in text and not text.startswith("re:") and not set(text) & set("*?["))


def one(rng: random.Random, out: pathlib.Path, counts: list[int]) -> Iterator[str]:
    modules = sorted({name(rng) for _ in range(4)})
    text = entry(rng, modules)
    tensors = {}
    for m in modules:
        tensors[m + ".weight"] = torch.full((64, 64), 400.0).to(torch.float8_e4m3fn)
        tensors[m + ".weight_scale_inv"] = torch.full((1, 1), 0.5)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    quantization = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "modules_to_not_convert": [text]}
    (out / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": quantization}))
    found = any("matches" in p["message"] or "excludes it" in p["message"] and p["kind"] == "dtype-mismatch" for p in verify(out)[1]["problems"])
    if not OWN and found != any(matches(m, text) for m in modules):
        yield f"{text!r} on {modules}: verify {'finds' if found else 'misses'} a match"
    counts[found] += 1
    plain = [m for m in modules if "experts" not in m and m.rsplit(".", 1)[-1] not in FUSED]
    for target, skips in TARGETS.items():
        (out / "model.safetensors").unlink()
        save_file({n: t for n, t in tensors.items() if n.rsplit(".", 1)[0] in plain}, out / "model.safetensors", metadata={"format": "pt"})
        done = verify(out, "--target", target)[1]["problems"]
        found = any("matches" in p["message"] or "excludes it" in p["message"] and p["kind"] == "dtype-mismatch" for p in done)
        dots = target == "transformers" and not set(text) & set("*?[](){}^$|+\\") and any(converts(m, text) != converts(m, re.escape(text)) for m in plain)
        if plain and not dots and found != any(skips(m, text) for m in plain):
            yield f"{text!r} on {plain} in {target}: verify {'finds' if found else 'misses'} a match"


def all_of_them() -> Iterator[str]:
    rng = random.Random(7)
    counts = [0, 0]
    with scratch() as tmp:
        for _ in range(N):
            yield from one(rng, tmp, counts)
    if min(counts) < N // 5:
        yield f"{counts[1]} of {N} entries match: both must be common"


def main() -> None:
    report(f"{N} entries match as in {OWN or 'transformers and compressed-tensors'}", all_of_them())
    finish()


if __name__ == "__main__":
    main()
