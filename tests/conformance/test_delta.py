# SPDX-License-Identifier: Apache-2.0
"""Deltas of SmolLM2 after steps of training: the chain gives, byte for byte, what full conversions write, by fp8conv, killed on
the way, and by the program of numpy and zstandard in examples/; --since writes the same deltas; the share of bytes that a step of
2 % of the elements needs."""
import os
import pathlib
import random
import shutil
import subprocess
import time
from collections.abc import Iterator

import torch
from safetensors.torch import load_file, save_file

from harness import FP8CONV, finish, quantize, real_model, report, run, scratch, silence, skip

HERE = pathlib.Path(__file__).resolve().parent
STEPS = int(os.environ.get("DELTA_STEPS", "6"))
RECIPE = ("--recipe", "blockwise", "--ragged", "--quiet")


def move(tensor: torch.Tensor, share: float) -> torch.Tensor:
    """A share of the elements, by one unit in the last place up or down."""
    bits = tensor.view(torch.int16).clone()
    sign = torch.where(torch.rand(bits.shape) < 0.5, -1, 1).to(torch.int16)
    sign[(bits & 0x7FFF) == 0] = 1
    bits += sign * (torch.rand(bits.shape) < share).to(torch.int16)
    return bits.view(torch.bfloat16)


def step(model: pathlib.Path, number: int) -> None:
    """A file of the model changes: elements move; from time to time a layer is new, or a tensor comes or goes."""
    path = random.choice(sorted(model.glob("*.safetensors")))
    tensors = load_file(path)
    for name in tensors:
        if "proj" in name:
            tensors[name] = move(tensors[name], 0.02)
    extra = f"model.layers.0.extra_{path.stem[6:11]}.bias"        # another name in each file
    if number % 3 == 1:
        layer = next(name for name in tensors if name.endswith("up_proj.weight"))
        tensors[layer] = torch.randn(tensors[layer].shape).to(torch.bfloat16)
    if number % 3 == 2 and extra not in tensors:
        tensors[extra] = torch.randn(576).to(torch.bfloat16)
    elif number % 3 == 0:
        tensors.pop(extra, None)
    save_file(tensors, path, {"format": "pt"})
    names = {name: file.name for file in model.glob("*.safetensors") for name in load_file(file)}
    (model / "model.safetensors.index.json").write_text('{"metadata": {}, "weight_map": %s}' % repr(names).replace("'", '"'))


def differs(a: pathlib.Path, b: pathlib.Path) -> Iterator[str]:
    done = subprocess.run(["diff", "-rq", a, b], capture_output=True, text=True)
    if done.returncode:
        yield done.stdout


def interrupt(folder: pathlib.Path, delta: pathlib.Path) -> None:
    """Applies in place, killed three times at a random moment."""
    for _ in range(3):
        process = subprocess.Popen([FP8CONV, "apply", folder, delta, "--in-place", "--quiet"])
        time.sleep(random.uniform(0, 0.5))
        process.kill()
        process.wait()


def chain(work: pathlib.Path, python: str) -> Iterator[str]:
    random.seed(1)
    torch.manual_seed(1)
    model, chained, delta = work / "model", work / "chained", work / "D.safetensors"
    shutil.copytree(real_model(3), model)
    yield from silence(quantize(model, work / "old", *RECIPE))
    shutil.copytree(work / "old", chained)
    for number in range(STEPS):
        step(model, number)
        yield from silence(quantize(model, work / "new", *RECIPE))
        yield from silence(run("delta", work / "old", work / "new", "-o", delta))
        if number < 3:
            yield from silence(run("apply", work / "old", delta, "-o", work / "beside"))
            yield from differs(work / "new", work / "beside")
            shutil.rmtree(work / "beside")
            read = subprocess.run([python, HERE.parents[1] / "examples/apply_delta.py", work / "old", delta, work / "beside"],
                                  capture_output=True, text=True)
            yield from [read.stderr] if read.returncode else differs(work / "new", work / "beside")
            shutil.rmtree(work / "beside", ignore_errors=True)
        interrupt(chained, delta)
        yield from silence(run("apply", chained, delta, "--in-place", "--quiet"))
        yield from silence(quantize(model, work / "S.safetensors", "--since", work / "old", "--quiet"))
        if (work / "S.safetensors").read_bytes() != delta.read_bytes():
            yield f"step {number}: --since writes another file"
        yield from (f"step {number}: {problem}" for problem in differs(work / "new", chained))
        shutil.rmtree(work / "old")
        (work / "new").rename(work / "old")


def share(work: pathlib.Path) -> Iterator[str]:
    """2 % of the elements of large matrices move: 0.3 % of the bytes, at most."""
    torch.manual_seed(2)
    weights = {f"model.layers.{i}.mlp.up_proj.weight": (torch.randn(4096, 4096) / 50).to(torch.bfloat16) for i in range(4)}
    for name in ("a", "b"):
        (work / name).mkdir()
        (work / name / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
        save_file(weights, work / name / "model.safetensors", {"format": "pt"})
        yield from silence(quantize(work / name, work / f"{name}8", "--recipe", "blockwise", "--quiet"))
        weights = {key: move(value, 0.02) for key, value in weights.items()}
    yield from silence(run("delta", work / "a8", work / "b8", "-o", work / "S.safetensors"))
    size = (work / "S.safetensors").stat().st_size / (work / "b8/model.safetensors").stat().st_size
    if not 0.001 < size < 0.003:
        yield f"the delta has {size:.2%} of the bytes"


made = subprocess.run(["sh", HERE / "venv.sh", HERE / "delta.txt"], capture_output=True, text=True)
if made.returncode:
    skip("deltas", made.stderr.strip().splitlines()[-1])
else:
    with scratch() as folder:
        report("a chain of deltas", chain(folder, made.stdout.strip() + "/bin/python"))
    with scratch() as folder:
        report("bytes of a step", share(folder))
finish()
