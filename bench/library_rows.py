# SPDX-License-Identifier: Apache-2.0
"""The rows of run.py for calls of the library, from C and from Python."""
import json
import statistics
import subprocess
from pathlib import Path

from table import Row, ratios, run

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
THREADS = 2


def library(bench) -> None:
    """Calls of fp8conv_quantize(), a matrix each, against the same casts in memory without it."""
    programs = [bench.tools / "library", bench.tools / "kernels"]
    if not all(program.exists() for program in programs):
        bench.table.skip("library", "calls of the library", "there is no benchmark 'library'")
        return
    runs = max(bench.runs, 3)
    out = [subprocess.run([str(x) for x in command], check=True, capture_output=True, text=True).stdout
           for command in ([programs[0], THREADS, runs],
                           [programs[1], "--json", "--threads", THREADS, "--runs", runs, "--mib", 256])]
    calls = {row["name"]: row["rates"] for row in json.loads(out[0])["rows"]}
    casts = {row["name"]: row for row in json.loads(out[1])["rows"]}
    of_recipe = {"blockwise": "blockwise pow2", "mxfp8": "mxfp8", "channelwise": "channelwise",
                 "current": "current: amax, cast"}
    for name, rates in calls.items():
        recipe, copy, shape = name.split(", ")
        if copy == "rowwise":
            cast = casts[of_recipe[recipe]]
            limit, what, target = [cast[key] for key in ("min", "median", "max")], f"kernel, {cast['name']}", ">= 0.9"
            ratio = statistics.median(rates) / cast["median"]
        else:
            limit, what, target = calls[f"{recipe}, rowwise, {shape}"], "rowwise", ""
            ratio = ratios(rates, limit)
        bench.table.add(Row("library", f"fp8conv_quantize, {name}", "GB/s", rates, what, limit, ratio, target))

    python_calls(bench)


def python_calls(bench) -> None:
    """The weights of a model by fp8conv.quantize() of Python, against what people write with torch."""
    what, model = "fp8conv.quantize in Python, its weights", bench.smollm2("library")
    if not bench.options.with_python:
        bench.table.skip("library", what, "no environment given")
    if not bench.options.with_python or not model:
        return
    command = ["env", f"PYTHONPATH={ROOT / 'python'}", f"LD_LIBRARY_PATH={bench.build}",
               Path(bench.options.with_python) / "bin" / "python", BENCH / "torch_loop.py", model, "--calls", bench.runs]
    run(command, bench.log)
    lines = [[float(x) for x in line.split()] for line in bench.log.read_text().splitlines()]
    loop, calls, again = (list(column) for column in zip(*lines))
    for seconds, how in ((calls, ""), (again, " with out=")):
        bench.table.add(Row("library", f"{what}, SmolLM2-135M{how}", "s", seconds, "a torch loop", loop, ratios(loop, seconds), ">= 20"))
