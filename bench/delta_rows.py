# SPDX-License-Identifier: Apache-2.0
"""The rows of run.py about deltas: their size, and their speed beside a loop that reads what they read.

As a program, `delta_rows.py MODEL TO`: makes TO of MODEL, by a step that moves 2 % of the elements of linear layers one unit in
the last place.
"""
import json
import shutil
import sys
from pathlib import Path

from table import Row, drop_cache, ratios, remove, run

SHARE = 0.02


def step(model: Path, to: Path) -> None:
    import numpy as np
    random = np.random.default_rng(1)
    shutil.copytree(model, to)
    for path in to.glob("*.safetensors"):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        bits = np.memmap(path, np.int16, "r+", offset=8 + size)
        for begin, end in (tensor["data_offsets"] for name, tensor in header.items() if name.endswith("proj.weight")):
            part = bits[begin // 2:end // 2]
            sign = np.where((part & 0x7FFF == 0) | (random.random(len(part), np.float32) < 0.5), 1, -1).astype(np.int16)
            part += sign * (random.random(len(part), np.float32) < SHARE)


def delta(bench) -> None:
    what = "deltas"
    if not bench.options.with_python:
        bench.table.skip("delta", what, "no environment with numpy")
        return
    for place, cold in ((bench.tmpfs, False), (bench.disk, True)):
        if bench.has_room(place, 14, "delta", f"{what} {'on disk' if cold else 'in memory'}"):
            rows(bench, place, cold)


def rows(bench, place: Path, cold: bool) -> None:
    """Of FP8 outputs a step apart, in one kind of place."""
    model, after, old, new, work = bench.model(place, "main", *bench.size()), *(place / name for name in ("next", "old8", "new8", "work"))
    there, back, read = place / "D.safetensors", place / "E.safetensors", place / "read"
    for path in (after, old, new, work):
        remove(path)
    run([Path(bench.options.with_python) / "bin/python", __file__, model, after], bench.log)
    options = ["--quiet", "--threads", 2]
    for source, to in ((model, old), (after, new)):
        run([bench.fp8conv, "quantize", source, "-o", to, *options], bench.log)
    shutil.copytree(old, work)
    loop = [bench.tools / "copy_half", "-t", 2, "-w", 0]
    commands = {"read both": ["sh", "-c", '"$@" "$OLD" "$TO" && "$@" "$NEW" "$TO"', "sh", *loop],
                "SHA-256 of both": ["sh", "-c", 'openssl sha256 "$OLD"/*.safetensors & openssl sha256 "$NEW"/*.safetensors && wait'],
                "delta": [bench.fp8conv, "delta", old, new, "-o", there, *options],
                "read both models": ["sh", "-c", '"$@" "$OLD" "$TO" && "$@" "$NEXT" "$TO"', "sh", *loop],
                "since": [bench.fp8conv, "quantize", after, "--since", old, "-o", there, *options],
                "read the base": [*loop, work, read],
                "apply": [bench.fp8conv, "apply", work, there, "--in-place", *options],
                "apply back": [bench.fp8conv, "apply", work, back, "--in-place", *options]}
    environment = ["env", *(f"{name}={path}" for name, path in (("OLD", old), ("NEW", new), ("NEXT", after), ("TO", read)))]
    run([bench.fp8conv, "delta", new, old, "-o", back, *options], bench.log)
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(bench.runs):
        for name, command in commands.items():
            for path in (old, new, after, work) if cold else ():
                drop_cache(path)
            remove(read)
            if name in ("delta", "since"):
                remove(there)
            seconds[name].append(run([*environment, *command], bench.log).seconds)
    kind, cache = ("on disk", "cold") if cold else ("in memory", "tmpfs")
    for name, title, limit, target in (("delta", "delta", "read both", ">= 0.8"), ("delta", "delta", "SHA-256 of both", ""),
                                       ("since", "quantize --since", "read both models", ""),
                                       ("apply", "apply --in-place", "read the base", ">= 0.8"),
                                       ("apply", "apply --in-place", "SHA-256 of both", "")):
        bench.table.add(Row("delta", f"{title}, {bench.size_name} of BF16, {kind}", "s", seconds[name], limit, seconds[limit],
                            ratios(seconds[limit], seconds[name]), target, cache))
    if not cold:
        percent = 100 * there.stat().st_size / sum(path.stat().st_size for path in new.glob("*.safetensors"))
        bench.table.add(Row("delta", "bytes of a delta, 2 % of linear elements moved", "%", [percent], "those of the FP8 checkpoint",
                            target="<= 0.3"))
    for path in (after, old, new, work, there, back, read):
        remove(path)
    bench.forget(place, "main")


if __name__ == "__main__":
    step(Path(sys.argv[1]), Path(sys.argv[2]))
