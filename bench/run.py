#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times fp8conv against limits that are measured in the same run, and prints one table.

    run.py [--build build] [--quick] [--only SECTION,...] [--runs N]

A figure and its limit are taken in turn (A B A B ...), each as a whole process by the wall clock; the ratio is the
median of the ratios of the rounds, so that what slows the machine for a while slows both.  Nothing fails here: a
target that is not met reads MISS, what could not be measured SKIPPED.  The rows and all samples go to
bench/results/<cpu>-<n>-cores.json, unless only part of them was run.

Places: FP8CONV_BENCH_TMPFS (a file system in memory, default /dev/shm), FP8CONV_BENCH_DIR (a folder on a disk, default
a temporary one below the build folder).  The largest inputs take 10 GB in memory and on disk.
"""
import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import delta_rows
import gpu_rows
import library_rows
import model_rows
import remote_rows
from table import Ran, Row, Table, ratios, remove, run, drop_cache

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
THREADS = 2
MIB = 1 << 20


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.build = Path(options.build).resolve()
        self.fp8conv = self.build / "fp8conv"
        self.tools = self.build / "bench"
        self.runs = options.runs or (1 if options.quick else 5)
        self.tmpfs = Path(options.tmpfs)
        self.disk = Path(options.dir)
        self.log = self.disk / "log"
        self.table = Table()
        self.size_name = "0.1 GB" if options.quick else "2.5 GB"
        self.models: dict[tuple[Path, str], Path] = {}
        self.gpu_facts: dict[str, object] = {}  # of the device that was measured

    # --- inputs ---

    def size(self) -> list[str]:
        """Arguments of the model that most rows convert."""
        return ["-l", "4", "-h", "1024", "-i", "4096"] if self.options.quick else []

    def model(self, place: Path, name: str, *arguments: object) -> Path:
        """A model made once and kept until forget()."""
        key = (place, name)
        if key not in self.models:
            path = place / f"model-{name}"
            remove(path)
            run([self.tools / "model", *arguments, path], self.log)
            self.models[key] = path
        return self.models[key]

    def forget(self, place: Path, name: str) -> None:
        remove(self.models.pop((place, name)))

    def has_room(self, place: Path, gb: float, section: str, what: str) -> bool:
        """Says SKIPPED where it has not."""
        if self.options.quick:
            gb /= 8
        with open("/proc/meminfo") as file:
            available = int(re.search(r"MemAvailable: +(\d+)", file.read())[1]) / 1e6
        free = shutil.disk_usage(place).free / 1e9
        if place == self.tmpfs:
            free = min(free, available - 1)
        if free < gb:
            self.table.skip(section, what, f"{gb:.0f} GB needed, {free:.0f} free")
        return free >= gb

    # --- measuring ---

    def in_turn(self, commands: dict[str, list[object]], out: Path, runs: int, cold: Path | None = None
                ) -> dict[str, list[Ran]]:
        """Samples of each command, in turn.  `out` is removed before each; `cold` is taken out of the cache."""
        samples: dict[str, list[Ran]] = {name: [] for name in commands}
        if not cold and not self.options.quick:  # the first of all is slower: it is not counted
            name = next(iter(commands))
            remove(out)
            run(commands[name], self.log)
        for _ in range(runs):
            for name, command in commands.items():
                remove(out)
                if cold:
                    drop_cache(cold)
                samples[name].append(run(command, self.log))
        remove(out)
        return samples

    def quantize(self, model: Path, out: Path, *arguments: object) -> list[object]:
        return [self.fp8conv, "quantize", "--quiet", "--threads", THREADS, model, "-o", out, *arguments]

    # --- sections ---

    def kernels(self) -> None:
        """In memory, against a loop that reads N bytes and writes N/2 past the caches."""
        program = self.tools / "kernels"
        if not program.exists():
            self.table.skip("kernels", "in memory", "there is no benchmark 'kernels'")
            return
        small = ["--mib", 128] if self.options.quick else []
        out = subprocess.run([str(x) for x in [program, "--json", "--runs", max(self.runs, 3), *small]], check=True,
                             capture_output=True, text=True).stdout
        rows = {row["name"]: row for row in json.loads(out)["rows"]}
        spread = ("min", "median", "max")
        limit = max((row for name, row in rows.items() if name.startswith("copy")), key=lambda row: row["median"])
        for name, target in (("blockwise pow2", 0.85), ("mxfp8", 0.85), ("blockwise float te", 0.7),
                             ("channelwise", 0.7), ("current: cast", 0.7), ("current: amax, cast", None)):
            row = rows[name]
            self.table.add(Row("kernels", f"in memory, {name}", "GB/s", [row[key] for key in spread],
                               "read N, write N/2", [limit[key] for key in spread], row["median"] / limit["median"],
                               f">= {target}" if target else "", note="" if target else "two looks, one limit"))

    def compensate(self) -> None:
        """Factors and rounding in memory, against fused multiply-adds in registers."""
        program = self.tools / "compensate"
        small = ["-k", 1536] if self.options.quick else []
        done = subprocess.run([str(x) for x in [program, "-t", THREADS, "-r", max(self.runs, 3), *small]], check=False,
                              capture_output=True, text=True)
        if done.returncode == 77:
            self.table.skip("compensate", "factors and rounding", "no fused multiply-adds here")
            return
        done.check_returncode()
        rates = {row["name"]: row["rates"] for row in json.loads(done.stdout)["rows"]}
        limit = rates.pop("fma")
        for name, found in rates.items():
            self.table.add(Row("compensate", name, "GFLOP/s", found, "fused multiply-adds", limit, ratios(found, limit),
                               ">= 0.6" if name.startswith("round") else ">= 0.4"))

    def on_tmpfs(self) -> None:
        """Files in memory: the kernel's page work is the limit."""
        if not self.has_room(self.tmpfs, 8, "tmpfs", "files in memory"):
            return
        model, out = self.model(self.tmpfs, "main", *self.size()), self.tmpfs / "out"
        recipes = ("blockwise", "mxfp8", "current", "channelwise")
        commands = {"half": [self.tools / "copy_half", "-t", THREADS, model, out], "cp": ["cp", "-r", model, out]}
        commands |= {recipe: self.quantize(model, out, "--recipe", recipe) for recipe in recipes}
        samples = {name: [ran.seconds for ran in rans]
                   for name, rans in self.in_turn(commands, out, self.runs).items()}
        for recipe in recipes:
            note = "reads twice" if recipe == "current" else ""
            target = ">= 0.85" if recipe in ("blockwise", "mxfp8", "current") else ""
            self.table.add(Row("tmpfs", f"files in memory, {recipe}", "s", samples[recipe], "read all, write half",
                               samples["half"], ratios(samples["half"], samples[recipe]), target, "tmpfs", note=note))
            self.table.add(Row("tmpfs", f"files in memory, {recipe}", "s", samples[recipe], "cp", samples["cp"],
                               ratios(samples[recipe], samples["cp"]), "<= 0.6", "tmpfs", note=note))

    def on_disk(self) -> None:
        """From a cold cache to a disk, durable."""
        if not self.has_room(self.disk, 10, "disk", "files on disk"):
            return
        sizes = {self.size_name: self.size()}
        if not self.options.quick:
            sizes["5 GB, 8B's shapes"] = ["-h", "4096", "-i", "14336", "-l", "11", "--shards", "4"]
        for name, arguments in sizes.items():
            model, out = self.model(self.disk, name.replace(" ", ""), *arguments), self.disk / "out"
            commands = {"cp": ["sh", "-c", 'cp -r "$1" "$2" && sync', "sh", model, out],
                        "half": [self.tools / "copy_half", "-t", THREADS, "-p", "2048", "--direct", "--reserve", "--sync",
                                 model, out],
                        "blockwise": self.quantize(model, out), "current": self.quantize(model, out, "--recipe", "current")}
            samples = {key: [ran.seconds for ran in rans]
                       for key, rans in self.in_turn(commands, out, self.runs, cold=model).items()}
            for recipe in ("blockwise", "current"):
                self.table.add(Row("disk", f"files on disk, {name}, {recipe}", "s", samples[recipe], "cp and sync",
                                   samples["cp"], ratios(samples[recipe], samples["cp"]), "<= 0.6", "cold"))
            self.table.add(Row("disk", f"files on disk, {name}, blockwise", "s", samples["blockwise"],
                               "read all, write half", samples["half"], ratios(samples["half"], samples["blockwise"]),
                               cache="cold"))
            self.forget(self.disk, name.replace(" ", ""))

    def low_bit(self) -> None:
        """MXFP4 to FP8, against a loop that reads it all and writes as much as the result: 32 codes for 17 bytes."""
        mib = 512 if self.options.quick else 10240
        for place, cold, target in ((self.tmpfs, False, ""), (self.disk, True, ">= 0.8")):
            size = min(mib, 2048) if place == self.tmpfs else mib
            what = f"MXFP4, {size / 1024:.1f} GiB {'on disk' if cold else 'in memory'}"
            if not self.has_room(place, (8 if self.options.quick else 1) * size / 1000 * 3.2, "low-bit", what):
                continue
            model, out = place / "model-mxfp4", place / "out"
            remove(model)
            run([sys.executable, Path(__file__).parent / "low_bit_model.py", "--mib", size, model], self.log)
            durable = ["-p", "2048", "--direct", "--reserve", "--sync"] if cold else []
            commands = {"copy": [self.tools / "copy_half", "-t", THREADS, "--percent", 188, *durable, model, out],
                        "blockwise": self.quantize(model, out, "--requantize"),
                        "mxfp8": self.quantize(model, out, "--requantize", "--recipe", "mxfp8")}
            samples = {name: [ran.seconds for ran in rans]
                       for name, rans in self.in_turn(commands, out, self.runs, cold=model if cold else None).items()}
            for recipe in ("blockwise", "mxfp8"):
                self.table.add(Row("low-bit", f"{what}, {recipe}", "s", samples[recipe], "read all, write the result",
                                   samples["copy"], ratios(samples["copy"], samples[recipe]), target,
                                   "cold" if cold else "tmpfs"))
            remove(model)

    def memory(self) -> None:
        """Peak of resident memory.  Not below Python's own, about 17 MiB, which the kernel passes on to its children."""
        inputs = {"main": (self.size_name, self.size(), 5), "huge": ("one tensor of 4 GB", ["--huge", 4], 7),
                  "100k": ("100,000 tensors", ["--tensors", 100000, "--shards", 16], 6)}
        if self.options.quick:
            inputs["huge"] = ("one tensor of 1 GB", ["--huge", 1], 2)
            inputs["100k"] = ("10,000 tensors", ["--tensors", 10000, "--shards", 2], 2)
        for name, (what, arguments, gb) in inputs.items():
            if not self.has_room(self.tmpfs, gb, "memory", f"memory, {what}"):
                continue
            model, out = self.model(self.tmpfs, name, *arguments), self.tmpfs / "out"
            for recipe in ("blockwise", "channelwise"):
                for limit, extra in ((256, []), (64, ["--max-memory", "64M"])):
                    command = self.quantize(model, out, "--recipe", recipe, *extra)
                    peaks = [ran.peak_mib for ran in self.in_turn({"": command}, out, 1)[""]]
                    self.table.add(Row("memory", " ".join(["memory,", what + ",", recipe, *extra]), "MiB", peaks,
                                       target=f"<= {limit}", cache="tmpfs"))
            if name != "main":
                self.forget(self.tmpfs, name)

    def verify(self) -> None:
        """Files in memory, against quantize in the same run."""
        if not self.has_room(self.tmpfs, 8, "verify", "verify"):
            return
        model, out, checked = self.model(self.tmpfs, "main", *self.size()), self.tmpfs / "out", self.tmpfs / "checked"
        for recipe in ("blockwise", "mxfp8", "current"):
            remove(checked)
            run(self.quantize(model, checked, "--recipe", recipe), self.log)
            look = [self.fp8conv, "verify", "--quiet", "--threads", THREADS, checked]
            kinds = {"verify": look, "verify --source": [*look, "--source", model],
                     "verify --source --json": [*look, "--source", model, "--json"]}
            samples = self.in_turn({"quantize": self.quantize(model, out, "--recipe", recipe)} | kinds, out, self.runs)
            seconds = {name: [ran.seconds for ran in rans] for name, rans in samples.items()}
            for kind, command in kinds.items():
                self.table.add(Row("verify", f"{kind}, {recipe}", "s", seconds[kind], "quantize", seconds["quantize"],
                                   ratios(seconds[kind], seconds["quantize"]), "" if "json" in kind else "<= 1", "tmpfs",
                                   note="with the SQNR of each weight" if "json" in kind else ""))
                for limit, extra in ((256, []), (64, ["--max-memory", "64M"])):
                    peaks = [run([*command, *extra], self.log).peak_mib]
                    self.table.add(Row("verify", " ".join([f"memory, {kind}, {recipe}", *extra]), "MiB", peaks,
                                       target=f"<= {limit}", cache="tmpfs"))
        remove(checked)

    def start(self) -> None:
        """Start-up and planning."""
        runs = 10 if self.options.quick else 50
        ms = [1000 * run([self.fp8conv, "recipes"], self.log).seconds for _ in range(runs)]
        self.table.add(Row("start", "start-up (recipes)", "ms", ms, target="<= 10", cache="warm"))
        for n, shards, target in ((100_000, 16, "<= 0.3"), (1_000_000, 160, "")):
            model = self.model(self.disk, f"plan-{n}", "--tensors", n, "--shards", shards, "--sparse")
            command = [self.fp8conv, "quantize", "--dry-run", model]
            run(command, self.log)
            seconds = [run(command, self.log).seconds for _ in range(self.runs)]
            self.table.add(Row("start", f"plan of {n:,} tensors", "s", seconds, target=target, cache="warm"))
            self.forget(self.disk, f"plan-{n}")

    def peers(self) -> None:
        """What people use today, whole processes."""
        peers = (("torch", "a torch loop", self.options.with_python, "torch_loop.py", ">= 20"),
                 ("llmcompressor", "llm-compressor", self.options.llmcompressor, "llmcompressor_ptq.py", ">= 50"))
        for name, what, venv, script, target in peers:
            if not venv:
                self.table.skip("peers", f"speed-up over {what}", "no environment given")
                continue
            if not self.has_room(self.tmpfs, 9, "peers", f"speed-up over {what}"):
                continue
            model, out = self.model(self.tmpfs, "main", *self.size()), self.tmpfs / "out"
            commands = {"fp8conv": self.quantize(model, out),
                        "peer": [Path(venv) / "bin" / "python", BENCH / script, model, out]}
            rans = self.in_turn(commands, out, self.runs)
            seconds = {key: [ran.seconds for ran in values] for key, values in rans.items()}
            peak = statistics.median(ran.peak_mib for ran in rans["peer"])
            self.table.add(Row("peers", f"speed-up over {what}", "s", seconds["fp8conv"], what, seconds["peer"],
                               ratios(seconds["peer"], seconds["fp8conv"]), target, "tmpfs", note=f"({peak:.0f} MiB)"))


    def smollm2(self, section: str) -> Path | None:
        """The real model, or None where no test has made it."""
        found = sorted(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").glob("fp8conv/smollm2-1-*/config.json"))
        if not found:
            self.table.skip(section, section, "no SmolLM2-135M (make conformance makes it)")
        return found[0].parent if found else None

    def token_ids(self, n: int, length: int) -> Path:
        """Writes n sequences."""
        ids = self.disk / "ids.jsonl"
        lines = [json.dumps({"input_ids": [(7919 * (i * length + t)) % 49152 for t in range(length)]}) for i in range(n)]
        ids.write_text("\n".join(lines) + "\n")
        return ids

    def rounding(self) -> None:
        """Compensated rounding of SmolLM2-135M by 64 sequences of 512 tokens, against a calibration by the same tokens."""
        model = self.smollm2("rounding")
        if not model:
            return
        ids, out = self.token_ids(10 if self.options.quick else 64, 512), self.disk / "out"
        shared = ["--data", ids, "--quiet", "--threads", THREADS]
        commands = {"calibrate": [self.fp8conv, "calibrate", model, *shared, "-o", out],
                    "compensated": [self.fp8conv, "quantize", model, *shared, "-o", out, "--recipe", "blockwise", "--ragged",
                                    "--rounding", "compensated"]}
        rans = self.in_turn(commands, out, self.runs)
        seconds = {key: [ran.seconds for ran in values] for key, values in rans.items()}
        self.table.add(Row("rounding", "quantize --rounding compensated", "s", seconds["compensated"], "calibrate",
                           seconds["calibrate"], ratios(seconds["compensated"], seconds["calibrate"]), "<= 1.8"))

    def sensitivity(self) -> None:
        """What a group of SmolLM2-135M costs, over 512 tokens, beside a forward pass over as many: on average half of the layers,
        and the head."""
        model = self.smollm2("sensitivity")
        if not model:
            return
        n_groups, n, out = 4 * 30, 2 if self.options.quick else 16, self.disk / "out"
        shared = ["--quiet", "--threads", THREADS, "-o", out]
        data = ["--data", self.token_ids(n, 512)]
        commands = {"group": [self.fp8conv, "sensitivity", model, *data, "--passes", 1, "--ragged", *shared],
                    "pass": [self.fp8conv, "calibrate", model, *data, "--precision", "f32", *shared]}
        rans = self.in_turn(commands, out, 1 if self.options.quick else 2)
        group = [ran.seconds / n_groups for ran in rans["group"]]
        whole = [ran.seconds / n for ran in rans["pass"]]
        self.table.add(Row("sensitivity", "sensitivity, a group of SmolLM2-135M", "s", group, "calibrate, a pass", whole,
                           ratios(group, whole), "<= 0.75"))

    def calibrate(self) -> None:
        """SmolLM2-135M, 16 sequences of 512 tokens, against oneDNN's own rate on the same products, and others' passes."""
        model, n, length = self.smollm2("calibrate"), 2 if self.options.quick else 16, 512
        if not model:
            return
        ids, out = self.token_ids(n, length), self.disk / "s.amax"
        gemm = [self.tools / "gemm", "-t", THREADS, "-n", n * length // 512]
        commands = {"all its products, oneDNN": [*gemm, "-a"], "those of its weights, oneDNN": gemm,
                    "calibrate": [self.fp8conv, "calibrate", model, "--data", ids, "-o", out, "--quiet", "--threads", THREADS]}
        fp8 = self.disk / "fp8"
        run([self.fp8conv, "quantize", model, "-o", fp8, "--recipe", "channelwise", "--quiet"], self.log)
        commands["eval"] = [self.fp8conv, "eval", fp8, "--source", model, "--data", ids, "--quiet", "--threads", THREADS,
                            "--progress", "none"]
        if self.options.with_python:
            commands["transformers"] = [Path(self.options.with_python) / "bin" / "python", BENCH / "transformers_forward.py",
                                        model, ids, THREADS]
        if self.options.llamacpp:
            commands["llama.cpp"] = self.llamacpp(model, n, length)
        rates: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(self.runs):
            for name, command in commands.items():
                remove(out)
                seconds = run(command, self.log).seconds
                told = self.log.read_text().split()     # those that load a model for seconds tell their own time
                rates[name].append(json.loads(self.log.read_text())[0]["avg_ts"] if name == "llama.cpp" else
                                   n * length / (float(told[-1]) if told and name != "eval" else seconds))
        for products, target in (("all its products, oneDNN", ""), ("those of its weights, oneDNN", ">= 0.8")):
            self.table.add(Row("calibrate", "calibrate, SmolLM2-135M, bf16", "tok/s", rates["calibrate"], products, rates[products],
                               ratios(rates["calibrate"], rates[products]), target))
        twice = [rate / 2 for rate in rates["calibrate"]]
        self.table.add(Row("calibrate", "eval --source, SmolLM2-135M, channelwise", "tok/s", rates["eval"], "calibrate twice", twice,
                           ratios(rates["eval"], twice), ">= 0.77"))
        for peer, note in (("transformers", ""), ("llama.cpp", "which makes the logits of the last token alone")):
            if peer in rates:
                self.table.add(Row("calibrate", "calibrate, SmolLM2-135M, bf16", "tok/s", rates["calibrate"], f"{peer}, bf16",
                                   rates[peer], ratios(rates["calibrate"], rates[peer]), ">= 1", note=note))
            else:
                self.table.skip("calibrate", f"calibrate beside {peer}", "not given")

    def llamacpp(self, model: Path, n: int, length: int) -> list[object]:
        """The command that times llama.cpp on the model, made into a GGUF file."""
        source, gguf = Path(self.options.llamacpp), self.disk / "model.gguf"
        python = Path(self.options.with_python) / "bin" / "python"
        run(["env", f"PYTHONPATH={source / 'gguf-py'}", python, BENCH / "llamacpp_gguf.py", model, gguf], self.log)
        return ["sh", "-c", '"$@" 2>/dev/null', "sh", source / "build" / "bin" / "llama-bench", "-m", gguf,
                "-p", length, "-n", 0, "-r", n, "-t", THREADS, "-b", length, "-ub", length, "-ngl", 0, "-o", "json"]


SECTIONS = {"kernels": Bench.kernels, "library": library_rows.library, "compensate": Bench.compensate, "gpu": gpu_rows.gpu, "tmpfs": Bench.on_tmpfs,
            "disk": Bench.on_disk, "low-bit": Bench.low_bit, "memory": Bench.memory, "verify": Bench.verify,
            "remote": remote_rows.remote, "delta": delta_rows.delta, "start": Bench.start, "calibrate": Bench.calibrate, "models": model_rows.models,
            "sensitivity": Bench.sensitivity, "rounding": Bench.rounding, "peers": Bench.peers}


# --- where it ran ---

def cpu_model() -> str:
    with open("/proc/cpuinfo") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return found[1] if found else platform.machine()


def git_revision() -> str:
    """The commit, and + where the tree differs from it."""
    try:
        out = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
                             capture_output=True, text=True, check=True)
        return out.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def file_system(path: Path) -> str:
    """The type of the file system that path lies on: the longest mount point above it."""
    best, kind = "", "unknown"
    with open("/proc/mounts") as file:
        for line in file:
            _, mount, found, *_ = line.split()
            inside = str(path).startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, found
    return kind


def machine(bench: Bench) -> dict[str, object]:
    version = json.loads(subprocess.run([bench.fp8conv, "version", "--json"], check=True, capture_output=True).stdout)
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "cpu": cpu_model(), "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
            "kernel": platform.release(), "compiler": version["compiler"], "backend": version["backend"],
            "fp8conv": version["version"], "revision": git_revision(), "threads": THREADS, "runs": bench.runs,
            "file_systems": {"tmpfs": file_system(bench.tmpfs), "disk": file_system(bench.disk)},
            "load": round(os.getloadavg()[0], 2),
            "cache": {"warm": "read before", "cold": "dropped by sync and POSIX_FADV_DONTNEED",
                      "tmpfs": "input and output in memory"}}


def conformance_venv() -> str | None:
    """Of the environments in the cache (tests/conformance/venv.sh), one that has torch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for complete in sorted(cache.glob("fp8conv/venv-*/complete")):
        if any(complete.parent.glob("lib/python3*/site-packages/torch")):
            return str(complete.parent)
    return None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=ROOT / "build", help="where fp8conv and bench were built")
    parser.add_argument("--quick", action="store_true", help="sizes too small to judge by, one run: does it work at all")
    parser.add_argument("--runs", type=int, help="rounds of each figure (default 5)")
    parser.add_argument("--only", metavar="SECTION,...", help="of " + ", ".join(SECTIONS))
    parser.add_argument("--with-python", metavar="VENV", default=conformance_venv(),
                        help="an environment with torch and safetensors (default: that of the conformance tests)")
    parser.add_argument("--llmcompressor", metavar="VENV", help="an environment made from bench/requirements.txt")
    parser.add_argument("--llamacpp", metavar="DIR", help="llama.cpp's source, with build/bin/llama-bench (needs --with-python)")
    parser.add_argument("--output", metavar="FILE", help="where the results go")
    options = parser.parse_args()
    options.sections = options.only.split(",") if options.only else list(SECTIONS)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}")
    return options


def write_results(bench: Bench, before: dict[str, object]) -> None:
    options = bench.options
    path = options.output
    if not path and not options.quick and not options.only:
        slug = re.sub(r"\W+", "-", re.sub(r"\((R|TM)\)|\bCPU\b|@.*", "", before["cpu"])).strip("-").lower()
        path = ROOT / "bench" / "results" / f"{slug}-{before['cores']}-cores.json"
    if not path:
        return
    rows = [{key: [round(x, 5) for x in value] if isinstance(value, list) else value
             for key, value in asdict(row).items() if value not in ("", [], None)} for row in bench.table.rows]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    gpu = {"gpu": bench.gpu_facts} if bench.gpu_facts else {}
    Path(path).write_text(json.dumps(before | gpu | {"rows": rows}, indent=1) + "\n")
    print(f"written: {os.path.relpath(path)}")


def main() -> None:
    options = parse()
    parents = {"tmpfs": os.environ.get("FP8CONV_BENCH_TMPFS", "/dev/shm"),
               "dir": os.environ.get("FP8CONV_BENCH_DIR", options.build)}
    with contextlib.ExitStack() as stack:
        for name, parent in parents.items():
            folder = tempfile.TemporaryDirectory(prefix="fp8conv-bench-", dir=parent)
            setattr(options, name, stack.enter_context(folder))
        bench = Bench(options)
        before = machine(bench)
        for name in options.sections:
            SECTIONS[name](bench)
        write_results(bench, before)
    count = [sum(row.state == state for row in bench.table.rows) for state in ("ok", "MISS", "SKIPPED")]
    print("make bench: {} met, {} MISS, {} SKIPPED".format(*count))


if __name__ == "__main__":
    main()
