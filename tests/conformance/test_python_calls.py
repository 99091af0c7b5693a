# SPDX-License-Identifier: Apache-2.0
"""Calls of the Python module with torch: tensors against casts of torch, plans against the files of quantize, what changed since
an output against numpy, Ctrl-C in run()."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import ml_dtypes  # numpy knows "bfloat16" and the types of FP8 by it
import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

import harness
from harness import SAMPLES, SMALL, eval_text, finish, quantize, real_model, report, scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
fp8conv = harness.library()


# Tensors of torch.

def tensors() -> Iterator[str]:
    for dtype in torch.float32, torch.bfloat16, torch.float16:
        w = torch.randn(3, 200, 160).to(dtype)
        codes, scale_inv = fp8conv.quantize(w, "channelwise")
        scale = torch.tensor(448.0) / w.float().abs().amax(-1, keepdim=True)
        want = (w.float() * scale).to(torch.float8_e4m3fn)
        if codes.dtype != torch.float8_e4m3fn or not torch.equal(codes.view(torch.uint8), want.view(torch.uint8)):
            yield f"codes of {dtype} differ from torch's"
        back = fp8conv.dequantize(codes, scale_inv, dtype)
        if back.dtype != dtype or not torch.equal(back, (want.float() * scale_inv).to(dtype)):
            yield f"values of {dtype} differ from torch's"
    state = fp8conv.RecipeState("delayed", n_gemms=2, amax_history_len=4)
    quantizers = state.make_quantizers()
    with fp8conv.autocast(recipe="delayed", amax_history_len=4):
        first = quantizers[4](torch.full((2, 2), 3.0))
    if len(quantizers) != 6 or first[1].item() != 1 or abs(state.scale[4] - 448 / 3) > 1e-4 or state.amax_history[3][4] != 3:
        yield f"a quantizer of delayed scaling: {first}, {state.scale}, {state.amax_history}"
    wrong = ((torch.empty(2, 2, device="meta"), ValueError), (torch.eye(2).to_sparse(), ValueError), (torch.eye(2).double(), TypeError),
             (torch.randn(4, 8).t(), ValueError), (torch.randn(8).expand(4, 8), ValueError), (torch.eye(2).int(), TypeError))
    for w, kind in wrong:
        try:
            fp8conv.quantize(w)
            yield f"{w.dtype} {w.device} {w.layout} is taken"
        except kind:
            pass
    yield from at_once(state)


def at_once(state: fp8conv.RecipeState) -> Iterator[str]:
    """While a step ends, another call finds the context taken."""
    found = []
    cast = fp8conv.autocast(enabled=False, calibrating=True, recipe="delayed")
    inner = cast._group.maximum
    import threading

    def call() -> None:
        try:
            state.calibrate(0, 1.0)
        except fp8conv.Error as error:
            found.append(error)

    def maximum(memory: object) -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        inner(memory)
    cast._group.maximum = maximum
    with cast:
        state.calibrate(0, 2.0)
    if len(found) != 1 or found[0].code != 2 or "in use by another call" not in str(found[0]):
        yield f"a second thread gets {found}"


# Plans.

def stored(folder: pathlib.Path) -> dict[str, torch.Tensor]:
    found, index = {}, folder / "model.safetensors.index.json"
    names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    for path in (folder / name for name in sorted(names)):
        with safe_open(path, "pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys()}
    return found


def bytes_of(x: torch.Tensor) -> tuple:
    return x.dtype, tuple(x.shape), x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def planned(source: pathlib.Path, options: dict) -> Iterator[str]:
    """Each tensor of a plan, in another order than the files have, is the file's; and the configuration."""
    config, tensors = json.loads((source / "config.json").read_text()), stored(source)
    with scratch() as folder:
        try:
            shapes = {name: (tuple(x.shape), x.dtype) for name, x in tensors.items()}
            plan = fp8conv.Plan(config, tensors if "requantize" in options else shapes, **options)
        except fp8conv.Error as error:
            try:
                fp8conv.run("quantize", source, output=folder / "out", quiet=True, **options)
                yield f"the plan refuses: {error}"
            except fp8conv.Error as same:
                if same.message != f"quantize: {error.message}":
                    yield f"the plan refuses: {error}; the command: {same}"
            return
        fp8conv.run("quantize", source, output=folder / "out", quiet=True, **options)
        got, want = dict(plan.convert(reversed(tensors.items()))), stored(folder / "out")
        yield from (f"{name} is in one of both" for name in set(got) ^ set(want))
        yield from (f"{name} is {got[name].dtype} {got[name].shape}, other than the file's" for name in set(got) & set(want)
                    if bytes_of(got[name]) != bytes_of(want[name]))
        if plan.config != json.loads((folder / "out/config.json").read_text()):
            yield "another config.json"


def plans() -> Iterator[str]:
    with scratch() as folder:
        quantize(SAMPLES / "tiny-llama", folder / "fp8", "--quiet")
        sources = [SAMPLES / name for name in SMALL] + [folder / "fp8", real_model(1)]
        for source in sources:
            again = {"requantize": True} if source == folder / "fp8" else {}
            for options in ({"recipe": r} for r in ("blockwise", "channelwise", "current", "mxfp8")):
                yield from (f"{source.name} {options}: {problem}" for problem in planned(source, options | again))
        for options in {"target": "trtllm"}, {"target": "vllm", "exclude": ["down_proj"]}, {"recipe": "current", "format": "hf"}:
            yield from (f"{options}: {problem}" for problem in planned(SAMPLES / "tiny-llama", options))


def plan_calls() -> Iterator[str]:
    source = SAMPLES / "tiny-llama"
    config, tensors = json.loads((source / "config.json").read_text()), stored(source)
    name = "model.layers.0.mlp.down_proj.weight"
    plan = fp8conv.Plan(config, tensors, recipe="blockwise")
    entry = plan.entries[name]
    if (entry.action, entry.recipe, entry.needed) != ("quantize", "blockwise", (name,)) or plan.entries["model.norm.weight"].action != "keep":
        yield f"{entry}"
    rows = dict(plan.convert([(name, tensors[name])]))
    columns = dict(plan.convert([(name, tensors[name])], scales_by_columns=True))
    scale = f"{name}_scale_inv"
    aligned = -(-rows[scale].shape[0] // 4) * 4     # vLLM 0.32, per_token_group_quant_fp8() with tma_aligned_scales
    if not torch.equal(rows[scale], columns[scale]) or columns[scale].stride() != (1, aligned):
        yield f"scales by columns: {columns[scale].shape}, {columns[scale].stride()}"
    shared = fp8conv.Plan(config, tensors, recipe="current", target="vllm")
    if fp8conv.Plan(config, {n: x.to("meta") for n, x in tensors.items()}, recipe="blockwise").entries != plan.entries:
        yield "another plan of tensors on meta"
    partial = next((n, e) for n, e in shared.entries.items() if len(e.needed) > 1)
    for given, kind in (((partial[0], tensors[partial[0]]), "which did not come"), (("x", tensors[name]), "is not in the plan"),
                        ((partial[0], tensors[partial[0]].half()), "the plan has")):
        try:
            list(shared.convert([given]))
            yield f"no error: {kind}"
        except ValueError as error:
            if kind not in str(error):
                yield f"{error}, expected {kind}"


# What changed.

def numpy_of(x: torch.Tensor) -> np.ndarray:
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[x.itemsize]).numpy().view(str(x.dtype).removeprefix("torch."))


def arrays(folder: pathlib.Path) -> dict[str, np.ndarray]:
    return {name: numpy_of(x) for name, x in stored(folder).items()}


def moved(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """About one of 50 elements by an ulp, which power-of-two scales mostly do not see."""
    bits = x.copy().view(f"u{x.itemsize}")
    bits[random.random(x.shape) < 0.02] ^= 1
    return bits.view(x.dtype)


def flat_bits(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(f"u{x.itemsize}")


def change_problems(changes: dict[str, fp8conv.Change], old: dict, new: dict) -> Iterator[str]:
    """old with the changes is new, and they are numpy's difference of both: whole where that is smaller, or the shape another."""
    whole = {n for n, x in new.items() if n not in old or old[n].shape != x.shape}
    places = {n: np.flatnonzero(flat_bits(old[n]) != flat_bits(x)) for n, x in new.items() if n not in whole}
    whole |= {n for n, at in places.items() if len(at) * (4 + new[n].itemsize) >= new[n].nbytes}
    if set(changes) != whole | {n for n, at in places.items() if len(at)}:
        yield f"{sorted(changes)} come, expected {sorted(whole)} whole, and {sorted(n for n, at in places.items() if len(at))}"
    for name, (indices, values) in changes.items():
        at = slice(None) if indices is None else indices
        if (name in whole) != (indices is None) or not np.array_equal(flat_bits(values), flat_bits(new[name])[at]):
            yield f"{name}: {indices} are not the bits of the file"
        if indices is not None and (indices.dtype != np.int32 or not np.array_equal(indices, places[name])):
            yield f"{name} changes at {indices[:5]}, not {places[name][:5]}"
    few = sum(indices is not None for indices, _ in changes.values())
    if not few or not whole or len(changes) == len(new):
        yield f"{few} of {len(new)} tensors change in places, and {len(whole)} as a whole: the test sees nothing"


def since(recipe: str) -> Iterator[str]:
    """The next step of a training, whose norm is of another shape before, and which has a tensor more, one of the other sign, and
    a zero of the other sign; by numpy and by torch."""
    source, random, norm, embedding = SAMPLES / "tiny-llama", np.random.default_rng(3), "model.norm.weight", "model.embed_tokens.weight"
    with scratch() as folder:
        shutil.copytree(source, folder / "next")
        tensors = {name: moved(x, random) if "layers.1" not in name else x for name, x in arrays(source).items()}
        tensors["model.layers.0.mlp.down_proj.weight"] *= -1
        tensors[embedding][0, 0] = -0.0
        save_file(tensors, folder / "next/model.safetensors")
        for name, to in (source, "old"), (folder / "next", "new"):
            quantize(name, folder / to, "--quiet", "--recipe", recipe)
        plan = fp8conv.Plan(json.loads((source / "config.json").read_text()), tensors, recipe=recipe)
        old, new = (arrays(folder / name) for name in ("old", "new"))
        of_torch = stored(folder / "old")
        for before in old, of_torch:
            before[norm], before[embedding][0, 0] = before[norm][:-1], 0.0
            del before["model.layers.0.input_layernorm.weight"]
        yield from change_problems(dict(plan.convert(tensors, since=old)), old, new)
        found = dict(plan.convert(stored(folder / "next"), since=of_torch))
        if {name: c.values.dtype for name, c in found.items()} != {name: stored(folder / "new")[name].dtype for name in found}:
            yield "values of other types than the file's"
        yield from change_problems({name: fp8conv.Change(c.indices if c.indices is None else c.indices.numpy(), numpy_of(c.values))
                                    for name, c in found.items()}, old, new)
        for wrong, text in (({norm: of_torch[norm]}, "expected ndarray as its source"), (list(old.items()), "since is list")):
            try:
                list(plan.convert(tensors, since=wrong))
                yield f"no error: {text}"
            except TypeError as error:
                if text not in str(error):
                    yield str(error)


# Ctrl-C.

def interrupted() -> Iterator[str]:
    source = real_model(1)
    with scratch() as folder:
        code = f"""
import signal
import fp8conv
signal.signal(signal.SIGINT, signal.default_int_handler)    # it is ignored below a shell's background job
try:
    fp8conv.run("calibrate", {str(source)!r}, data={str(eval_text())!r}, output={str(folder / 's.amax')!r}, passes=100000, seq_len=64,
                progress=lambda p: print("progress", flush=True))
except KeyboardInterrupt:
    print("interrupted", fp8conv.run("recipes", json=True).status)
"""
        env = os.environ | {"PYTHONPATH": str(ROOT / "python")}
        job = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        job.stdout.readline()
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=120)
        if out.splitlines()[-1:] != ["interrupted 0"]:
            yield f"{out[-200:]} {err[-300:]}"
        if list(folder.glob(".*.tmp*")):
            yield f"left: {list(folder.iterdir())}"


report("tensors of torch", tensors())
report("plans are the files of quantize", plans())
report("calls of a plan", plan_calls())
for recipe_name in "blockwise", "channelwise":
    report(f"what changed since an output, {recipe_name}", since(recipe_name))
report("Ctrl-C ends a job", interrupted())
finish()
