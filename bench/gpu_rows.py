# SPDX-License-Identifier: Apache-2.0
"""The rows of run.py that take a GPU: its kernels and products, and fp8conv --backend cuda as whole processes."""
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from table import Row, ratios, remove, run

THREADS = min(8, os.cpu_count() or 1)
LLAMA = {"l": 16, "h": 2048, "i": 8192, "v": 128256}  # 1.24 B parameters, tied
SMALL = {"l": 2, "h": 512, "i": 1024, "v": 4096}
LENGTHS = ((512, ">= 1.5"), (4096, ">= 0.9"))  # tokens of a sequence, and the target against transformers


def gpu(bench) -> None:
    """All of them, or one that says why there are none."""
    found = told(bench, "gpu")
    if not found:
        return
    samples = kernels(bench, found)
    products(bench)
    files(bench, samples["pinned copy there"])
    calibrate(bench)


def told(bench, name: str) -> dict[str, object] | None:
    """The JSON that a program prints; None: it says why there is nothing, or is not there."""
    program = bench.tools / name
    if not program.exists():
        bench.table.skip("gpu", "on a GPU", f"there is no benchmark '{name}' (make gpu)")
        return None
    ran = subprocess.run([program, "--runs", str(max(bench.runs, 11))], capture_output=True, text=True)
    if ran.returncode == 77:
        bench.table.skip("gpu", "on a GPU", ran.stderr.strip())
        return None
    if ran.returncode:
        sys.exit(f"run.py: {ran.stderr}")
    return json.loads(ran.stdout)


def kernels(bench, found: dict) -> dict[str, list[float]]:
    """Against the copy of the device's own memory; from host to host against pinned copies.  Returns GB/s of each."""
    rows = found.pop("rows")
    bench.gpu_facts = found
    rates = {row["name"]: [row["bytes"] / seconds / 1e9 for seconds in row["seconds"]] for row in rows}
    targets = {"cast": ">= 0.9", "cast-transpose": ">= 0.85", "dequantize": ">= 0.85", "RMSNorm to FP8": ">= 0.85",
               "SwiGLU to FP8": ">= 0.85", "fp8conv_quantize of 4096x4096": ">= 0.9",
               "host to host": ">= 0.8"}
    for row in rows:
        name, limit = row["name"], row["limit"]
        add(bench, name, "GB/s", rates[name], limit, rates.get(limit, []),
            targets.get(name.split(",")[0], "") if limit else "")
    by_name = {row["name"]: row for row in rows}
    for name, limit in (("RMSNorm to FP8, scale given (read twice)", "RMSNorm to bf16 (read twice)"),
                        ("SwiGLU to FP8, scale given", "SwiGLU to bf16")):
        times(bench, by_name[name], by_name[limit], ">= 1")
    return rates


def add(bench, name: str, unit: str, rates: list[float], limit: str, limits: list[float], target: str = "", note: str = "",
        cache: str = "") -> None:
    """A row whose figure is a rate."""
    bench.table.add(Row("gpu", f"{bench.gpu_facts['device']}: {name}", unit, rates, limit, limits,
                        ratios(rates, limits) if limit else None, target, cache, note=note))


def products(bench) -> None:
    """FP8 against bf16, and a Linear whose scale_inv is written with the codes against one where it is made apart."""
    found = told(bench, "gpu_gemm")
    if not found:
        return
    there = {row["name"]: row for row in found["rows"] if "seconds" in row}
    for row in found["rows"]:
        name, limit = row["name"], there.get(row["limit"])
        if "skipped" in row:
            bench.table.skip("gpu", f"{bench.gpu_facts['device']}: {name}", row["skipped"])
        elif name.startswith("Linear"):
            times(bench, row, limit, ">= 1.12" if name.startswith(("Linear 32x", "Linear 128x")) else "")
        else:
            rates, limits = (teraflops(known) for known in (row, limit))
            add(bench, name, "TF/s", rates, row["limit"] if limit else "", limits, ">= 1.6" if limit else "")


def teraflops(row: dict | None) -> list[float]:
    return [row["flop"] / seconds / 1e12 for seconds in row["seconds"]] if row else []


def times(bench, row: dict, limit: dict | None, target: str) -> None:
    """A row whose figure is microseconds; the ratio says how often it is done while its limit is done once."""
    name, took = f"{bench.gpu_facts['device']}: {row['name']}", [seconds * 1e6 for seconds in row["seconds"]]
    if not limit:
        bench.table.add(Row("gpu", name, "us", took))
        return
    limits = [seconds * 1e6 for seconds in limit["seconds"]]
    bench.table.add(Row("gpu", name, "us", took, limit["name"], limits, ratios(limits, took), target))


def files(bench, copies: list[float]) -> None:
    """Files in memory: whichever is slower, the bus or the kernel's page work."""
    if not bench.has_room(bench.tmpfs, 8, "gpu", "files in memory, --backend cuda"):
        return
    model, out = bench.model(bench.tmpfs, "main", *bench.size()), bench.tmpfs / "out"
    tiny = bench.model(bench.tmpfs, "tiny", "-l", 1, "-h", 128, "-i", 128, "-v", 128)
    n_bytes = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    quantize = [bench.fp8conv, "quantize", "--quiet", "--threads", THREADS, "--backend", "cuda", "-o", out]
    commands = {"half": [bench.tools / "copy_half", "-t", THREADS, model, out], "quantize": [*quantize, model],
                "start": [*quantize, tiny]}
    seconds = {name: [ran.seconds for ran in rans] for name, rans in bench.in_turn(commands, out, bench.runs).items()}
    bench.forget(bench.tmpfs, "tiny")
    start = statistics.median(seconds["start"])
    halves = [n_bytes / s / 1e9 for s in seconds["half"]]
    limit, limits = min(("read all, write half", halves), ("pinned copy there", copies),
                        key=lambda pair: statistics.median(pair[1]))
    for what, less, note in (("whole process", 0, ""), ("less its start", start, f"a tiny model takes {start:.2f} s")):
        rates = [n_bytes / max(s - less, 1e-3) / 1e9 for s in seconds["quantize"]]
        add(bench, f"quantize, files in memory, {THREADS} threads, {what}", "GB/s", rates, limit, limits, ">= 0.8", note,
            "tmpfs")


def calibrate(bench) -> None:
    """A random Llama at default options, whole processes and less their start (an eighth of the tokens), against the products
    of its weights alone by as many threads, and against the forward passes of transformers without loading."""
    shape, n = (SMALL, 1 << 13) if bench.options.quick else (LLAMA, 1 << 19)
    arguments = [word for name, value in shape.items() for word in (f"-{name}", value)]
    if not bench.has_room(bench.tmpfs, 3, "gpu", "calibrate --backend cuda"):
        return
    model, few, out = bench.model(bench.tmpfs, "llama", *arguments), bench.disk / "few.jsonl", bench.disk / "s.amax"
    for length, target in LENGTHS:
        ids = bench.disk / f"ids{length}.jsonl"
        write_ids(ids, n // length, length, shape["v"])
        write_ids(few, n // length // 8, length, shape["v"])
        calibrate = [bench.fp8conv, "calibrate", model, "-o", out, "--backend", "cuda", "--quiet", "--seq-len", length]
        commands = {"calibrate": [*calibrate, "--data", ids, "--passes", n // length],
                    "few": [*calibrate, "--data", few, "--passes", n // length // 8],
                    "transformers": [sys.executable, Path(__file__).parent / "transformers_forward.py", model, few, THREADS,
                                     "cuda"]}
        if length == LENGTHS[0][0]:
            commands["products"] = [bench.tools / "products", "-b", "cuda", "-t", THREADS, "-n", n // length // 4, *arguments]
        if not has_transformers():
            del commands["transformers"]
        rates = calibrate_rates(bench, commands, out, n)
        remove(out)
        what = f"calibrate, Llama of {parameters(shape) / 1e9:.2f} B, {n // length} x {length} tokens"
        for name, limit, goal in (("products", "the products of its weights, bf16", ">= 0.5"),
                                  ("transformers", "transformers, bf16, without loading", target)):
            if name in commands:
                add(bench, what, "tok/s", rates["calibrate"], limit, rates[name], goal, "whole processes")
                add(bench, f"{what}, less its start", "tok/s", rates["further"], limit, rates[name], goal)
        if "transformers" not in commands:
            bench.table.skip("gpu", f"{bench.gpu_facts['device']}: {what}, against transformers", "no transformers with a GPU")
    bench.forget(bench.tmpfs, "llama")


def calibrate_rates(bench, commands: dict[str, list[object]], out: Path, n_tokens: int) -> dict[str, list[float]]:
    """Tokens a second of each command, in turn; "further": of calibrate beyond its first eighth.  products and transformers
    print their seconds, for a part of the tokens."""
    part = {"calibrate": 1, "few": 8, "products": 4, "transformers": 8}
    rates: dict[str, list[float]] = {name: [] for name in (*commands, "further")}
    for _ in range(min(bench.runs, 2)):
        seconds = {}
        for name, command in commands.items():
            remove(out)
            seconds[name] = run(command, bench.log).seconds
            if name in ("products", "transformers"):
                seconds[name] = float(bench.log.read_text().split()[-1])
            rates[name].append(n_tokens / part[name] / seconds[name])
        rates["further"].append((n_tokens - n_tokens / 8) / (seconds["calibrate"] - seconds["few"]))
    return rates


def has_transformers() -> bool:
    """For this Python, with a GPU that torch can use."""
    test = "import torch, transformers; assert torch.cuda.is_available()"
    return subprocess.run([sys.executable, "-c", test], capture_output=True).returncode == 0


def write_ids(path: Path, n: int, length: int, vocabulary: int) -> None:
    """n sequences of token ids."""
    with open(path, "w") as file:
        for i in range(n):
            json.dump({"input_ids": [(7919 * (i * length + t)) % vocabulary for t in range(length)]}, file)
            file.write("\n")


def parameters(shape: dict[str, int]) -> int:
    """Those of matrices, the embedding once."""
    hidden, intermediate = shape["h"], shape["i"]
    return shape["v"] * hidden + shape["l"] * (5 * hidden * hidden // 2 + 3 * hidden * intermediate)
