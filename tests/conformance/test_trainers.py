# SPDX-License-Identifier: Apache-2.0
"""What trainers write is converted to the bytes that the same weights give from safetensors."""
import collections
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from harness import finish, quantize, real_model, report, run, scratch, silence

RECIPES = ("blockwise", "channelwise", "current", "mxfp8")
LAYERS = 2


def options(page: str, first: str) -> list[str]:
    """The expressions of --rename in the manual, from the one that begins so to the end of its lines."""
    lines = [line.strip().removesuffix("\\e").strip().replace("\\e", "\\").replace("\\-", "-") for line in page.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"--rename '{first}"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("--rename"))
    return shlex.split(" ".join(line for line in lines[start:end] if "[qk]_norm" not in line))       # SmolLM2 has none


PAGE = (pathlib.Path(__file__).parent.parent.parent / "man" / "fp8conv-convert.7").read_text()
RENAMES = {"distcp-torchtitan": options(PAGE, "s/^(layers"), "distcp-compiled": options(PAGE, r"s/\b_(orig_mod")}


def cut_model(out: pathlib.Path) -> pathlib.Path:
    """SmolLM2 with its first layers, as one file."""
    source = real_model(1)
    config = json.loads((source / "config.json").read_text()) | {"num_hidden_layers": LAYERS}
    out.mkdir()
    with safe_open(source / "model.safetensors", "pt") as file:
        names = [n for n in file.keys() if "layers." not in n or int(n.split("layers.")[1].split(".")[0]) < LAYERS]
        save_file({n: file.get_tensor(n) for n in names}, out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(config))
    return out


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def same_files(wanted: pathlib.Path, got: pathlib.Path) -> Iterator[str]:
    for path in sorted(wanted.iterdir()):
        if path.name != "fp8conv-manifest.json" and path.read_bytes() != (got / path.name).read_bytes():
            yield f"{got.name}: {path.name} differs"


def converted(tmp: pathlib.Path, model: pathlib.Path, source: pathlib.Path, *args: str) -> Iterator[str]:
    """Every recipe, in one file: shards that differ in number become the same."""
    for recipe in RECIPES:
        wanted, got = tmp / f"wanted-{recipe}", tmp / f"{source.name}-{recipe}"
        options = ("--recipe", recipe, "--ragged", "--max-shard-size", "1TB")
        if not wanted.exists():
            yield from silence(quantize(model, wanted, *options))
        yield from silence(quantize(source, got, *options, *args))
        yield from same_files(wanted, got)
        shutil.rmtree(got)


def in_parts(tmp: pathlib.Path, model: pathlib.Path, source: pathlib.Path, *args: str) -> Iterator[str]:
    """Two parts in 64 MiB, and a run that has nothing left to do."""
    options = ("--recipe", "channelwise", "--max-memory", "64MiB")
    wanted, got = tmp / "wanted-parts", tmp / f"{source.name}-parts"
    if not wanted.exists():
        yield from silence(quantize(model, wanted, *options))
    for part in ("1/2", "2/2"):
        quantize(source, got, *options, *args, "--part", part)
    yield from silence(quantize(source, got, *options, *args))
    if len(list(got.glob("*.safetensors"))) == 1:
        yield from same_files(wanted, got)
    done = run("verify", got, "--source", model)
    if done.returncode:
        yield f"verify of {got.name}: {done.stdout.decode()} {done.stderr.decode()}"


def torch_saves(model: pathlib.Path, out: pathlib.Path) -> Iterator[pathlib.Path]:
    """torch.save(): one file, an index, a training's dict, views of one storage, parameters, what a file of today has otherwise."""
    whole = load_file(model / "model.safetensors")

    def put(name: str, *files: tuple[str, object]) -> pathlib.Path:
        (out / name).mkdir()
        shutil.copy(model / "config.json", out / name)
        for file, value in files:
            torch.save(value, out / name / file)
        return out / name

    yield put("bin", ("pytorch_model.bin", whole))
    names = sorted(whole)
    parts = [(f"pytorch_model-{i + 1:05d}-of-00003.bin", {n: whole[n] for n in names[i::3]}) for i in range(3)]
    made = put("bin-3", *parts)
    (made / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {n: f for f, p in parts for n in p}}))
    yield made
    yield put("pt", ("last.pt", {"step": 7, "lr": 1e-3, "model": whole, "optimizer": {"state": {0: torch.ones(3)}}, "args": None}))
    yield put("ordered", ("model.pth", collections.OrderedDict((n, torch.nn.Parameter(t)) for n, t in whole.items())))
    strided = {}
    for n, t in whole.items():
        if t.dim() == 2 and "up_proj" in n:
            strided[n] = t.t().contiguous().t()
        elif t.dim() == 2 and "gate_proj" in n:
            strided[n] = torch.stack([t, t], dim=-1)[..., 1]
        elif t.dim() == 2 and "q_proj" in n:
            strided[n] = torch.cat([t, t], dim=1)[:, t.shape[1]:]
        else:
            strided[n] = torch.cat([t.flatten(), t.flatten()])[t.numel():].view(t.shape)
    yield put("strided", ("pytorch_model.bin", strided))


def main() -> None:
    with scratch() as tmp:
        model = cut_model(tmp / "model")
        made = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("trainers.py"), model, tmp / "forms"],
                              env=os.environ | {"TRAINERS_PORT": free_port()}, capture_output=True, check=False)
        report("torch wrote the files", [made.stderr.decode()[-500:]] if made.returncode else [])
        theirs = (tmp / "forms" / "plain-transformers").rename(tmp / "theirs")
        (theirs / "model-00001-of-00001.safetensors").rename(theirs / "model.safetensors")
        (theirs / "model.safetensors.index.json").unlink()
        shutil.copy(model / "config.json", theirs)
        for source in sorted((tmp / "forms").iterdir()):
            shutil.copy(model / "config.json", source)
            args = (*(("--from-torch",) if source.name.startswith("distcp") else ()), *RENAMES.get(source.name, ()))
            if source.name == "slices-transformers":
                (tmp / "of-theirs").mkdir()
                report(f"{source.name}: every recipe", converted(tmp / "of-theirs", theirs, source, *args))
                continue
            report(f"{source.name}: every recipe", converted(tmp, model, source, *args))
            report(f"{source.name}: in parts", in_parts(tmp, model, source, *args))
        (tmp / "torch").mkdir()
        for source in torch_saves(model, tmp / "torch"):
            report(f"torch.save, {source.name}: every recipe", converted(tmp, model, source, "--from-torch"))
        report("torch.save, bin-3: in parts", in_parts(tmp, model, tmp / "torch" / "bin-3", "--from-torch"))
    finish()


if __name__ == "__main__":
    main()
