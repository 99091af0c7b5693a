# SPDX-License-Identifier: Apache-2.0
"""outputs.py FOLDER short|long: `report`, beside the checkpoint and into it, `delta`, `quantize --since`, and `apply`, beside and
in place, killed, interrupted, starved and on a full disk.

After each disturbance an output is whole, as it was, or goes with a journal, and the files of a report are each whole or as they
were; the same command again gives the golden files, with nothing beside them: what the delta was made of, and what a run that
nothing disturbed gives.
FP8CONV: the program; SAMPLES: sample_checkpoints; SEED: of the random moments.
"""
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import typing

from limits import limited, small_disk
from readers import run, start
from runs import FP8CONV, HERE, MANIFEST, begin, begin_limits, check, clear, counted, end, files, one_line, verdict

NAME = "D.safetensors"
JOURNAL = ".fp8conv-apply/.journal"


class Job(typing.NamedTuple):
    name: str
    arguments: list[str]                                      # "out/..." is in the folder of the place
    golden: dict[str, bytes] | None                           # of "out"; None: what the first run makes
    start: str = ""                                           # the folder that "out" is at first; empty: an empty one
    mixes: bool = False                                       # its files may be whole and as they were


class Place:
    """A folder in which a job is run: its output is below "out"."""

    def __init__(self, job: Job, folder: pathlib.Path):
        self.job, self.out = job, folder / "out"
        self.command = [str(folder / word) if word.startswith("out") else word for word in job.arguments]
        self.reset()
        self.before = files(self.out)
        began = time.monotonic()
        result = run(self.command)
        self.seconds = time.monotonic() - began
        self.golden = files(self.out) if job.golden is None else job.golden
        check(result == (0, b"", "") and files(self.out) == self.golden != self.before, f"{job.name}, undisturbed: {result}")
        self.reset()

    def reset(self) -> None:
        clear(self.out)
        if self.job.start:
            shutil.copytree(self.job.start, self.out)
        else:
            self.out.mkdir()

    def look(self, what: str, killed: bool) -> None:
        found, states = files(self.out), (self.before, self.golden)
        if JOURNAL not in found:
            if killed:
                found = {name: data for name, data in found.items() if not name.startswith(".") and name != MANIFEST}
            mixed = self.job.mixes and all(data in [state.get(name) for state in states] for name, data in found.items())
            whole = any({name: data for name, data in state.items() if not killed or name != MANIFEST} == found for state in states)
            check(whole or mixed and found.keys() >= self.before.keys(), f"{self.job.name}, {what}: a mixture is left: {sorted(found)}")
        elif "config.json" in found:
            whole = any(all(found.get(name) == data for name, data in state.items()) for state in states)
            check(whole, f"{self.job.name}, {what}: config.json without the rest")

    def again(self, what: str, killed: bool = False) -> None:
        self.look(what, killed)
        result = run(self.command)
        check((result.status, result.err) == (0, ""), f"{self.job.name}, {what}, again: {result}")
        check(files(self.out) == self.golden, f"{self.job.name}, {what}, again: not the golden files")
        counted()
        self.reset()


def changed(folder: pathlib.Path, to: pathlib.Path) -> None:
    """The next step: some bytes of each weight file, and a file more."""
    shutil.copytree(folder, to)
    for path in to.glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        at = slice(len(data) // 2 & ~1, None, 50)
        data[at] = bytes(x ^ 5 for x in data[at])
        path.write_bytes(data)
    (to / "generation_config.json").write_text("{}\n")


def report_jobs() -> list[Job]:
    shutil.copytree(pathlib.Path(os.environ["SAMPLES"], "tiny-llama"), "llama")
    pathlib.Path("llama/README.md").write_bytes(b"---\nlicense: mit\n---\n# Tiny\n")
    subprocess.run([FP8CONV, "quantize", "llama", "-o", "whole", "--manifest", "--quiet"], check=True)
    end_of = ["--source", "llama", "--progress", "none", "-o", "out"]
    return [Job("report beside", ["report", "whole", *end_of], None, mixes=True),
            Job("report", ["report", "out", *end_of], None, start="whole", mixes=True)]


def delta_jobs(mib: int) -> list[Job]:
    """Of a model of 3 weight files of MIB MiB."""
    subprocess.run([sys.executable, HERE.parent / "cli/checkpoint.py", "big", "model", "3", str(mib)], check=True)
    changed(pathlib.Path("model"), pathlib.Path("next"))
    for source, to in (("model", "old"), ("next", "new")):
        subprocess.run([FP8CONV, "quantize", source, "-o", to, "--quiet"], check=True)
    subprocess.run([FP8CONV, "delta", "old", "new", "-o", NAME, "--quiet"], check=True)
    delta, new = {NAME: pathlib.Path(NAME).read_bytes()}, files(pathlib.Path("new"))
    end_of = ["--progress", "none", "--quiet"]
    return [Job("delta", ["delta", "old", "new", "-o", f"out/{NAME}", *end_of], delta),
            Job("since", ["quantize", "next", "--since", "old", "-o", f"out/{NAME}", *end_of], delta),
            Job("apply", ["apply", "old", NAME, "-o", "out", *end_of], new),
            Job("apply in place", ["apply", "out", NAME, "--in-place", *end_of], new, start="old")]


def kills(place: Place, n: int) -> None:
    begin("kill -9")
    for _ in range(n):
        process = start(place.command)
        time.sleep(random.uniform(0, place.seconds))
        process.kill()
        end(process)
        place.again("kill -9", killed=True)


def signals(place: Place, n: int) -> None:
    begin("signals")
    for i in range(n):
        number = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[i % 3]
        process = start(place.command)
        time.sleep(random.uniform(0, place.seconds))
        process.send_signal(number)
        result = end(process)
        if result.status not in (0, -number):
            one_line(result, (128 + number,), "interrupted by signal")
        place.again(number.name)


def starved(place: Place, few: bool) -> None:
    step = 4 if few else 1
    rows = [("RLIMIT_FSIZE", resource.RLIMIT_FSIZE, [0, 1, 1000, 5000, 20000, 1 << 20], ("File too large",)),
            ("RLIMIT_AS", resource.RLIMIT_AS, [n << 20 for n in range(16, 200, 8 * step)], ("out of memory", "Cannot allocate memory", "no memory")),
            ("RLIMIT_NOFILE", resource.RLIMIT_NOFILE, list(range(3, 20, step)), ("Too many open files",))]
    for name, which, values, words in begin_limits(rows):
        for value in values:
            able = subprocess.run([FP8CONV, "--version"], capture_output=True, preexec_fn=limited(which, value))
            result = run(place.command, preexec_fn=limited(which, value))
            if result.status and (able.returncode == 0 or which == resource.RLIMIT_FSIZE):
                one_line(result, (4,), next((word for word in words if word in result.err), words[0]))
            place.again(f"{name} {value}", killed="metadata" in result.err)       # that ends the program on the spot


def no_space(place: Place, small: pathlib.Path, few: bool) -> None:
    """Others leave only so many bytes of the file system."""
    begin("no space")
    failed = 0
    for left in [4096 * n for n in ((0, 1, 5, 40, 300) if few else range(0, 600, 3))]:
        free = os.statvfs(small)
        with open(small / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - left, 1))
        result = run(place.command)
        if result.status:
            failed += 1
            one_line(result, (4,), "not enough space" if "not enough" in result.err else "No space left on device")
        (small / "filler").unlink()
        place.again(f"{left} bytes")
    check(failed, f"{place.job.name}: the disk is never full")


def main() -> int:
    folder, extent = sys.argv[1:]
    few = extent == "short"
    seed = int(os.environ.get("SEED", "1"))
    random.seed(seed)
    work = pathlib.Path(folder).resolve() / "outputs"
    work.mkdir()
    os.chdir(work)
    made = delta_jobs(2)
    for job in made + report_jobs():
        place = Place(job, work)
        kills(place, 4 if few else 200)
        signals(place, 3 if few else 60)
        starved(place, few)
        clear(place.out)
    begin("no space")
    if small_disk(work / "small"):
        for job in made:
            no_space(Place(job, work / "small"), work / "small", few)
            clear(work / "small/out")
        subprocess.run(["umount", work / "small"], check=True)
    return 0 if verdict(f"outputs (SEED={seed})") else 1


if __name__ == "__main__":
    sys.exit(main())
