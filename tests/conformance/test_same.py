# SPDX-License-Identifier: Apache-2.0
"""The same bytes at any number of threads, on every backend, in any memory, through a stream, in parts,
run twice, and after kill -9 at any moment."""
import contextlib
import hashlib
import json
import pathlib
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

from huggingface_hub import split_state_dict_into_shards_factory
from safetensors import deserialize

from cases import Case, plain, ragged
from harness import FP8CONV, SMALL, finish, quantize, real_model, report, run, sample, scratch, silence

CASES = [next(ragged()), plain("channelwise", "compressed-tensors"), plain("current", "compressed-tensors"),
         plain("mxfp8", "hf")]
LAID = replace(CASES[0], options=("--max-shard-size", "20MB"))
KILLS = 12


def contents(out: pathlib.Path) -> dict[str, str]:
    """SHA-256 of every file but the record of the run."""
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(out.rglob("*")) if path.is_file() and not path.name.startswith(("fp8conv", "."))}


def differences(label: str, found: dict[str, str], wanted: dict[str, str]) -> Iterator[str]:
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            yield f"{label}: {name} differs"


def backends() -> list[str]:
    """Those that run on this CPU."""
    lines = run("version").stdout.decode().splitlines()
    return [line.split()[1].rstrip(":") for line in lines if line.startswith("backend") and ": usable" in line]


def ways() -> list[list[str]]:
    out = [["--threads", str(n)] for n in (1, 2, 3)]
    out += [["--backend", name, "--threads", "2"] for name in ("cpu", *backends())]
    return out + [["--max-memory", "64M"], ["--max-memory", "64M", "--threads", "1"]]


def every_way(source: pathlib.Path, case: Case) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "first", *case.arguments()))
        wanted = contents(tmp / "first")
        for way in ways():
            yield from silence(quantize(source, tmp / "out", *case.arguments(), *way))
            yield from differences(" ".join(way), contents(tmp / "out"), wanted)
            shutil.rmtree(tmp / "out")


def streamed(source: pathlib.Path, case: Case) -> Iterator[str]:
    """Standard input to standard output, from a file and from a pipe; and one file to one file."""
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *case.arguments()))
        wanted = (tmp / "out/model.safetensors").read_bytes()
        with open(source / "model.safetensors", "rb") as stdin:
            if quantize("-", "-", *case.arguments(), stdin=stdin).stdout != wanted:
                yield "a file on standard input gives other bytes"
        if quantize("-", "-", *case.arguments(), input=(source / "model.safetensors").read_bytes()).stdout != wanted:
            yield "a pipe gives other bytes"
        yield from silence(quantize(source / "model.safetensors", tmp / "one.safetensors", *case.arguments()))
        if (tmp / "one.safetensors").read_bytes() != wanted:
            yield "file to file gives other bytes"


def twice(source: pathlib.Path, case: Case) -> Iterator[str]:
    """A second run does nothing; with --restart it does everything again."""
    with scratch() as tmp:
        out = tmp / "out"
        yield from silence(quantize(source, out, *case.arguments()))
        wanted, times = contents(out), {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
        yield from silence(quantize(source, out, *case.arguments()))
        yield from differences("run again", contents(out), wanted)
        if any(path.stat().st_mtime_ns != times[path] for path in times):
            yield "run again: it wrote the weights again"
        yield from silence(quantize(source, out, *case.arguments(), "--restart"))
        yield from differences("--restart", contents(out), wanted)
        if any(path.stat().st_mtime_ns == times[path] for path in times):
            yield "--restart: it did nothing"


def in_parts(source: pathlib.Path, case: Case) -> Iterator[str]:
    """Three parts, the last first, and two at the same time."""
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "whole", *case.arguments()))
        arguments = [FP8CONV, "quantize", source, "-o", tmp / "out", "--progress", "none", *case.arguments(), "--part"]
        yield from silence(subprocess.run([*arguments, "3/3"], capture_output=True, check=False))
        both = [subprocess.Popen([*arguments, part], stderr=subprocess.PIPE) for part in ("1/3", "2/3")]
        for process in both:
            error = process.communicate()[1]
            if process.returncode:
                yield f"a part: exit status {process.returncode}, {error.decode().strip()}"
        yield from silence(subprocess.run([*arguments, "finish"], capture_output=True, check=False))
        yield from differences("in parts", contents(tmp / "out"), contents(tmp / "whole"))


def killed(source: pathlib.Path, case: Case, seed: int) -> Iterator[str]:
    """kill -9 at any moment: what has a final name is right, config.json comes last, and a rerun completes it."""
    with scratch() as tmp:
        began = time.monotonic()
        yield from silence(quantize(source, tmp / "whole", *case.arguments()))
        seconds = time.monotonic() - began
        wanted, out, hits = contents(tmp / "whole"), tmp / "out", 0
        delays = random.Random(seed)
        for _ in range(KILLS):
            if (out / "config.json").exists():
                shutil.rmtree(out)          # it was complete: from the beginning
            hits += kill_once(source, out, case, delays.uniform(0, 0.7 * seconds))
            found = contents(out) if out.exists() else {}
            yield from differences("killed", found, {name: wanted.get(name) for name in found})
            if "config.json" in found and found != wanted:
                yield "config.json is there before the rest"
        yield from silence(quantize(source, out, *case.arguments()))
        yield from differences("resumed", contents(out), wanted)
        if any(path.name.endswith(".partial") for path in out.rglob("*")):
            yield "a .partial file is left"
        if hits < 3:
            yield f"only {hits} of {KILLS} kills came before the end: this shows nothing"


def kill_once(source: pathlib.Path, out: pathlib.Path, case: Case, delay: float) -> bool:
    """Whether it was still running."""
    arguments = [FP8CONV, "quantize", source, "-o", out, "--progress", "none", *case.arguments()]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        process.wait()
        return process.returncode == -signal.SIGKILL


def laid(source: pathlib.Path, case: Case, limit: int) -> Iterator[str]:
    """--max-shard-size: the files of huggingface_hub's rule, where a weight and its scales are one; else nothing changes."""
    arguments = [*case.arguments(), "--max-shard-size", str(limit)]
    units = json.loads(run("quantize", source, "-o", "out", *arguments, "--dry-run", "--json").stdout)["tensors"]
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "whole", *case.arguments()))
        yield from silence(quantize(source, tmp / "out", *arguments))
        whole, found, files = tensors(tmp / "whole"), tensors(tmp / "out"), places(tmp / "out")
        if whole != found:
            yield f"{limit}: other tensors"
        sizes = {unit["name"]: sum(len(whole[output["name"]][-1]) for output in unit["outputs"]) for unit in units}
        split = split_state_dict_into_shards_factory(sizes, get_storage_size=lambda size: size, max_shard_size=limit,
                                                     filename_pattern="model{suffix}.safetensors")
        wanted = {output["name"]: split.tensor_to_filename[unit["name"]] for unit in units for output in unit["outputs"]}
        yield from differences(f"files of {limit} bytes", files, wanted)
        index = tmp / "out/model.safetensors.index.json"
        if len(set(files.values())) > 1 and json.loads(index.read_text())["weight_map"] != wanted:
            yield f"{limit}: another index"
        yield from silence(run("verify", tmp / "out", "--source", source, "--quiet"))


def places(folder: pathlib.Path) -> dict[str, str]:
    return {name: path.name for path in folder.glob("*.safetensors") for name, _ in deserialize(path.read_bytes())}


def tensors(folder: pathlib.Path) -> dict[str, tuple]:
    return {name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"])) for path in folder.glob("*.safetensors")
            for name, tensor in deserialize(path.read_bytes())}


def main() -> None:
    for name in SMALL:
        if folder := sample(name):
            for case in CASES:
                report(f"same bytes {name}: {case}", every_way(folder, case))
            for limit in (1, 20_000, 33_000, 10**9):
                report(f"files of {limit} bytes {name}", laid(folder, CASES[1], limit))
    if folder := sample("tiny-llama"):
        for case in CASES:
            report(f"stream tiny-llama: {case}", streamed(folder, case))
    one, three = real_model(1), real_model(3)
    for seed, case in enumerate(CASES):
        report(f"same bytes smollm2 in 3 files: {case}", every_way(three, case))
        report(f"kill -9 smollm2 in 3 files: {case}", killed(three, case, seed))
        report(f"stream smollm2: {case}", streamed(one, case))
    report(f"run twice smollm2 in 3 files: {CASES[0]}", twice(three, CASES[0]))
    for case in CASES[1:3]:
        report(f"in parts smollm2 in 3 files: {case}", in_parts(three, case))
    for limit in (10**6, 20_000_000):
        report(f"files of {limit} bytes smollm2 in 3 files", laid(three, CASES[1], limit))
    report("in parts smollm2, files of 20 MB", in_parts(one, LAID))
    report("kill -9 smollm2, files of 20 MB", killed(one, LAID, len(CASES)))
    finish()


if __name__ == "__main__":
    main()
