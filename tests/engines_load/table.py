# SPDX-License-Identifier: Apache-2.0
"""Engines judge what fp8conv writes, and verify must judge alike: models by recipe, format and target, and broken variants.

    FP8CONV=build/fp8conv python table.py [--quick] ENGINE=PYTHON...
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter

import broken
import explained
from outputs import COLUMNS, FORMATS, VARIANTS, Output, Outputs, digest, run

HERE = pathlib.Path(__file__).parent
LETTERS = {"right": "R", "wrong": "W", "stops": "X", "unknown": "?"}
LEGEND = """\
Letters are for hf/compressed-tensors/modelopt.  R: loaded, and every parameter
is right; W: loaded, and wrong without a word; X: the engine stops; ?: nothing
can be told, as it does not load the model in BF16 either, or by another class;
-: fp8conv refuses; =: the same output as with --target."""
QUICK = {"llama": COLUMNS, "qwen3_moe": ("blockwise", "channelwise", "mxfp8")} | dict.fromkeys(
    ("deepseek_v3", "granite4", "falcon_h1", "nemotron_h", "jamba", "gpt_oss kept", "qwen3_vl", "smollm2 ragged"), ("blockwise", "channelwise"))


class Engine:
    """A process that loads checkpoints; each contents once."""

    def __init__(self, name: str, python: str):
        self.name, self.known = name, {}
        self.log = tempfile.TemporaryFile()
        self.worker = subprocess.Popen([python, HERE / "worker.py", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                       text=True)

    def judge(self, key: object, folder: pathlib.Path, base: pathlib.Path, plain: pathlib.Path, source: pathlib.Path) -> tuple[str, str]:
        """The verdict, and why; key stands for the contents."""
        if key not in self.known:
            asked = {"folder": str(folder), "base": str(base), "plain": str(plain), "source": str(source)}
            print(json.dumps(asked), file=self.worker.stdin, flush=True)
            if not (answer := self.worker.stdout.readline()):
                self.log.seek(0)
                raise RuntimeError(f"{self.name} ended: {self.log.read().decode(errors='replace')[-2000:]}")
            self.known[key] = tuple(json.loads(answer)[k] for k in ("verdict", "why"))
        return self.known[key]

    def end(self) -> None:
        self.worker.stdin.close()
        self.worker.wait()


class Judgement:
    """Of one engine: counts, and what is to be told below the table."""

    def __init__(self, engine: Engine, outputs: Outputs, counts: Counter):
        self.engine, self.outputs, self.counts = engine, outputs, counts
        self.told: list[str] = []
        self.used: Counter[explained.Explained] = Counter()

    def compare(self, what: str, form: str, verdict: str, why: str, says: str) -> None:
        """says: of verify, or of the plan; empty where it passes."""
        if verdict == "unknown":
            self.counts["not comparable"] += 1
        elif (verdict == "right") == (not says):
            self.counts["right, and passed" if verdict == "right" else "wrong or stopped, and named"] += 1
        elif row := explained.reason(self.engine.name, what, form):
            self.counts["explained"] += 1
            self.used[row] += 1
        else:
            self.counts["DIFFER"] += 1
            self.told.append(f"DIFFER {self.engine.name}: {what}, {form}: engine {verdict}{': ' * bool(why)}{why}; "
                             f"fp8conv {'says ' + says if says else 'passes'}")

    def verified(self, folder: pathlib.Path) -> str:
        done = run("verify", folder, "--target", self.engine.name)
        return "" if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()[0][:200]

    def noted(self, output: Output) -> str:
        """The note that names the engine, if there is one."""
        return next((line for line in output.said.splitlines() if self.engine.name in line.lower()), "")

    def cell(self, variant: str, column: str, form: str, target: str | None) -> str:
        """One letter."""
        output = self.outputs.convert(variant, column, form, target)
        if not output.folder:
            return "-"
        aimed = self.outputs.convert(variant, column, form, self.engine.name)
        if not target and aimed.digest == output.digest:
            return "="
        verdict, why = self.engine.judge(output.digest, output.folder, output.folder, self.outputs.plain(output.folder),
                                         self.outputs.model(variant))
        what = f"{variant} {column}{'' if target else ' without --target'}"
        self.compare(what, form, verdict, why, self.verified(output.folder))
        if not target and not aimed.folder and verdict == "right":
            self.compare(what + ", the plan of --target", form, verdict, why, aimed.said.splitlines()[-1])
        if not target and verdict in ("wrong", "stops"):
            self.compare(what + ", the notes of the plan", form, verdict, why, self.noted(output))
        return LETTERS[verdict]

    def row(self, variant: str, columns: tuple[str, ...], target: str | None) -> str:
        cells = ["/".join(self.cell(variant, column, form, target) for form in FORMATS) for column in columns]
        return f"{variant:15}{'--target' if target else 'none':10}" + "".join(f"{'' if set(c) <= set('=-/') and not target else c:9}" for c in cells)

    def damaged(self, name: str, scratch: pathlib.Path) -> None:
        (variant, recipe, form, with_cache), _ = broken.BROKEN[name]
        output = self.outputs.convert(variant, "kv-cache" if with_cache else recipe, form, None)
        if not output.folder:
            raise RuntimeError(f"{name}: {output.said}")
        plain, source = self.outputs.plain(output.folder), self.outputs.model(variant)
        if self.engine.judge(output.digest, output.folder, output.folder, plain, source)[0] != "right":
            self.counts["SKIPPED"] += 1
            return
        folder = scratch / name.replace(" ", "-").replace(":", "").replace(",", "")
        if not folder.exists():
            broken.damage(name, output.folder, folder)
        is_sound = name.startswith("sound: ")
        verdict, why = self.engine.judge(name, folder, folder if is_sound else output.folder, self.outputs.plain(folder) if is_sound else plain, source)
        says = self.verified(folder)
        print(f"{name:52}{verdict:8}{'named' if says else 'passed'}", flush=True)
        if verdict == "right" and says and not is_sound:
            self.counts["right, and named for other engines"] += 1
            return
        self.compare(name, form, verdict, why, says)


def judge(engine: Engine, outputs: Outputs, is_quick: bool, counts: Counter) -> list[str]:
    """Prints the table of one engine; returns what is wrong."""
    found = Judgement(engine, outputs, counts)
    print(f"\n{engine.name:25}" + "".join(f"{column:9}" if len(column) < 9 else f"{column[:8]} " for column in COLUMNS))
    for variant, columns in (QUICK if is_quick else dict.fromkeys(VARIANTS, COLUMNS)).items():
        print(found.row(variant, columns, engine.name).rstrip(), flush=True)
        if not is_quick and len(row := found.row(variant, columns, None).rstrip()) > 25:
            print(row, flush=True)
    print(f"\n{engine.name + ': broken variants':52}{'engine':8}verify")
    for name in broken.BROKEN:
        found.damaged(name, outputs.scratch)
    engine.end()
    print()
    if not is_quick:
        found.told += [f"STALE {engine.name}: {row.what}, {row.form}: nothing is left to explain: {row.reason}" for row in explained.EXPLAINED
                       if re.fullmatch(row.engine, engine.name) and row not in found.used]
    for line in found.told:
        print(textwrap.fill(line, 80, subsequent_indent="    "))
    for row, n in found.used.items():
        print(textwrap.fill(f"explained, {n}: {row.reason}", 80, subsequent_indent="    "))
    return found.told


def main() -> None:
    is_quick = "--quick" in sys.argv
    engines = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    counts: Counter = Counter()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="fp8conv-engines-load-") as folder:
        outputs = Outputs(pathlib.Path(folder))
        names = sorted({VARIANTS[v][0] for v in (QUICK if is_quick else VARIANTS)} | {base[0] for base, _ in broken.BROKEN.values()})
        subprocess.run([sys.executable, HERE / "models.py", outputs.scratch / "models", *names], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        print(LEGEND)
        for name, python in engines.items():
            if not python:
                print(f"SKIPPED {name}: it could not be installed")
                counts["SKIPPED"] += 1
                continue
            wrong += judge(Engine(name, python), outputs, is_quick, counts)
    print(textwrap.fill("engines-load: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())), 80))
    sys.exit(bool(wrong) or not counts["right, and passed"])


if __name__ == "__main__":
    main()
