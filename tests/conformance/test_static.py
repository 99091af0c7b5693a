# SPDX-License-Identifier: Apache-2.0
"""Static scales: an amax history that hooks on transformers' own forward passes made, written by the safetensors package;
what quantize makes of it is what numpy makes of it, loads in transformers, and talks."""
import hashlib
import json
import pathlib
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from loguru import logger
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from checkpoint import read_checkpoint
from harness import finish, quantize, real_model, report, run, sample, scratch, silence
from test_load import PROMPT, TEXT, dequantized, divergence, load, logits, sentence, weight_problems

KV = re.compile(r"\.self_attn\.(?:[kv]_proj\.)?([kv])_scale$")
FUSED = [("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")]
F32 = np.float32


# The history.

def fingerprint(folder: pathlib.Path) -> str:
    """fp8conv-amax(5), of fewer than 4096 tensors."""
    digest = hashlib.sha256()
    for _, name, tensor in sorted(read_checkpoint(folder), key=lambda entry: entry[1].encode()):
        digest.update(f"{name}\0{tensor.dtype}\0".encode() + np.array([len(tensor.shape), *tensor.shape], "<u8").tobytes())
        data = tensor.array().tobytes()
        start = max(0, (len(data) - 4096) // 2)
        digest.update(data[start:start + 4096])
    return digest.hexdigest()[:32]


def counts(x: torch.Tensor) -> np.ndarray:
    return np.bincount(np.abs(x.detach().float().numpy().ravel()).view(np.uint32) >> 20, minlength=2048).astype(np.uint64)


def amax(x: torch.Tensor) -> float:
    return x.detach().abs().max().item()


class Observed:
    """amax of all that Linear layers see, and of k and v in the cache, pass by pass."""

    def __init__(self, model: Any):
        self.rows, self.tokens = defaultdict(list), defaultdict(list)
        self.histograms = defaultdict(lambda: np.zeros((2048, 2), np.uint64))
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and name != "lm_head":
                module.register_forward_hook(self.hook(name))

    def hook(self, name: str):
        def see(module: Any, inputs: tuple, output: torch.Tensor) -> None:
            self.rows[name].append([amax(inputs[0]), amax(module.weight), amax(output)])
            self.tokens[name].append(inputs[0].shape[-2])
            self.histograms[name] += np.stack([counts(inputs[0]), counts(output)], 1)
        return see

    def see_cache(self, cache: Any, n_tokens: int) -> None:
        for i, layer in enumerate(cache.layers):
            name = f"model.layers.{i}.self_attn"
            self.rows[name].append([0.0, amax(layer.keys), amax(layer.values)])
            self.tokens[name].append(n_tokens)

    def save(self, path: pathlib.Path, model: str) -> None:
        tensors = {}
        for name, rows in self.rows.items():
            suffix = "_qkv" if name.endswith("self_attn") else ""
            tensors[f"{name}.amax_history{suffix}"] = np.array(rows, F32)
            tensors[f"{name}.tokens"] = np.array(self.tokens[name], np.int64)
        tensors |= {f"{name}.histogram": h for name, h in self.histograms.items()}
        passes = len(next(iter(self.rows.values())))
        save_file(tensors, path, {"fp8conv_amax": "1", "model": model, "data": "0" * 32, "passes": str(passes), "tokens": "1",
                                  "seq_len": "1", "amax_history_len": "1024", "precision": "f32", "backend": "torch"})


@torch.no_grad()
def observe(folder: pathlib.Path, path: pathlib.Path, texts: list[str]) -> tuple[Any, Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    observed = Observed(model)
    for text in texts:
        ids = tokenizer(text, return_tensors="pt")
        observed.see_cache(model(**ids, use_cache=True).past_key_values, ids["input_ids"].shape[1])
    observed.save(path, fingerprint(folder))
    for module in model.modules():
        module._forward_hooks.clear()
    return model, tokenizer


# What must come out.

def percentile(histogram: np.ndarray, most: np.float32, share: float) -> np.float32:
    n = histogram.cumsum()
    first = int(np.argmax(n >= np.ceil(np.float64(n[-1]) * share / 100)))
    return min(np.array((first + 1) << 20, np.uint32).view(F32)[()], most)


def chosen(history: dict, module: str, column: int, algo: str, suffix: str = "") -> np.float32:
    values = history[f"{module}.amax_history{suffix}"][:, column]
    if algo == "most-recent":
        return values[values > 0][-1]
    if algo.startswith("percentile") and column == 0 and not suffix:
        return percentile(history[f"{module}.histogram"][:, 0].astype(np.int64), values.max(), float(algo.split("=")[1]))
    return values.max()


def members(module: str) -> list[str]:
    parent, _, name = module.rpartition(".")
    return next(([f"{parent}.{part}" for part in parts] for parts in FUSED if name in parts), [module])


def scale_problems(out: pathlib.Path, history: dict, algo: str, margin: int, kv_shape: list[int]) -> Iterator[str]:
    found = {name: tensor for _, name, tensor in read_checkpoint(out) if name.endswith("_scale")}
    n_modules = sum(name.endswith(".tokens") and "self_attn.tokens" not in name for name in history)
    n_kv = 2 * sum(name.endswith("_qkv") for name in history)
    if len(found) != 2 * n_modules + n_kv:
        yield f"{len(found)} scales, not {2 * n_modules} and {n_kv}"
    for name, tensor in found.items():
        if which := KV.search(name):
            value = chosen(history, name[:which.start()] + ".self_attn", "qkv".index(which[1]), algo, "_qkv")
        else:
            module, column = re.sub(r"\.(input|weight)_scale$", "", name), 0 if name.endswith("input_scale") else 1
            value = max(chosen(history, member, column, algo) for member in members(module))
        wanted = F32(1) / (F32(448 * 2.0**-margin) / F32(value))
        if tensor.dtype != "F32" or list(tensor.shape) != kv_shape or tensor.array().ravel()[0] != wanted:
            yield f"{name} is {tensor.dtype} {tensor.shape} {tensor.array().ravel()}, not {wanted}"


def static(folder: pathlib.Path, history: pathlib.Path, format: str, algo: str, margin: int) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "out", "--recipe", "delayed", "--format", format, "--calibration",
                                    str(history), "--kv-cache", "--amax-algo", algo, "--margin", str(margin)))
        yield from scale_problems(tmp / "out", load_file(history), algo, margin, [] if format == "modelopt" else [1])
        target = ["--target", "trtllm"] if format == "modelopt" else ["--target", "vllm"]
        for more in ([], target, ["--source", folder]):
            done = run("verify", tmp / "out", *more)
            if done.returncode or done.stdout or done.stderr:
                yield f"verify {more}: {done.returncode} {done.stdout[:200]!r} {done.stderr[:200]!r}"


def talks(name: str, folder: pathlib.Path, history: pathlib.Path, source: Any, tokenizer: Any) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "out", "--recipe", "delayed", "--format", "compressed-tensors",
                                    "--calibration", str(history), "--kv-cache"))
        wanted = logits(source, tokenizer)
        model, _ = load(tmp / "out", torch.float32, True)
        yield from weight_problems(model, dequantized(tmp / "out", "f32"))
        yield from divergence(f"{name} static, weights", wanted, logits(model, tokenizer), 0.02)
        model, info = load(tmp / "out", torch.float32, False)
        if info.get("missing_keys"):
            yield f"loading compressed: {info}"
        yield from divergence(f"{name} static, weights and activations", wanted, logits(model, tokenizer), 0.1)
        scales = {key: value for key, value in load_scales(tmp / "out").items() if key.endswith("input_scale")}
        found = {key: value.item() for key, value in model.named_parameters() if key.endswith("input_scale")}
        if found != scales:
            yield f"transformers has {len(found)} input scales, of {len(scales)}, or other values"
        said = sentence(model, tokenizer, PROMPT[name])
        print(f"   {name} delayed compressed-tensors: {said!r}")
        if len(said) < len(PROMPT[name]) + 20:
            yield f"it says {said!r}"


def load_scales(out: pathlib.Path) -> dict[str, float]:
    return {name: tensor.array().ravel()[0] for _, name, tensor in read_checkpoint(out) if name.endswith("_scale")}


def merged(history: pathlib.Path, other: pathlib.Path) -> Iterator[str]:
    """What merge wrote, read by the safetensors package, is what numpy makes of both."""
    with scratch() as tmp:
        for how in ("append", "ranks"):
            more = ["--ranks"] if how == "ranks" else []
            yield from silence(run("merge", history, other, "-o", tmp / how, *more))
            one, two, both = load_file(history), load_file(other), load_file(tmp / how)
            if both.keys() != one.keys():
                yield f"{how}: other tensors"
            for name, found in both.items():
                if name.endswith(".histogram") or (how == "ranks" and name.endswith(".tokens")):
                    wanted = one[name] + two[name]
                elif how == "ranks":
                    wanted = np.maximum(one[name], two[name])
                else:
                    wanted = np.concatenate([one[name], two[name]])
                if not np.array_equal(found, wanted) or found.dtype != wanted.dtype:
                    yield f"{how}: {name}"


def zeroed(folder: pathlib.Path, history: pathlib.Path) -> Iterator[str]:
    """A history that has a weight's amax too large by 10^30: its codes are all 0, and verify says so."""
    with scratch() as tmp, safe_open(history, "np") as file:
        tensors = {name: file.get_tensor(name).copy() for name in file.keys()}
        name = min(name for name in tensors if name.endswith("down_proj.amax_history"))
        tensors[name][:, 1] *= F32(1e30)
        save_file(tensors, tmp / "off.amax", file.metadata())
        yield from silence(quantize(folder, tmp / "out", "--recipe", "delayed", "--format", "compressed-tensors",
                                    "--calibration", str(tmp / "off.amax")))
        done = run("verify", tmp / "out", "--source", folder, "--json")
        if done.returncode != 1 or [problem["kind"] for problem in json.loads(done.stdout)["problems"]] != ["code-range"]:
            yield f"verify says {done.stdout.decode()}"


def model(name: str, folder: pathlib.Path) -> None:
    lines = TEXT.split(". ")
    with scratch() as tmp:
        history = tmp / "stats.amax"
        source, tokenizer = observe(folder, history, [TEXT, *lines])
        observe(folder, tmp / "other.amax", [TEXT.upper(), *lines[::-1]])
        report(f"merge {name}", merged(history, tmp / "other.amax"))
        for format in ("compressed-tensors", "modelopt"):
            for algo in ("max", "most-recent", "percentile=99.99", "percentile=99"):
                report(f"static {name}: {format} {algo}", static(folder, history, format, algo, 0))
            report(f"static {name}: {format} margin 2", static(folder, history, format, "max", 2))
        report(f"static {name}: weights of nothing but 0", zeroed(folder, history))
        report(f"static {name}: load", talks(name, folder, history, source, tokenizer))


def main() -> None:
    logger.remove()
    logging.disable_progress_bar()
    if folder := sample("tiny-llama"):
        model("tiny-llama", folder)
    model("smollm2", real_model(1))
    finish()


if __name__ == "__main__":
    main()
