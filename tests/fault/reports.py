# SPDX-License-Identifier: Apache-2.0
"""reports.py FOLDER short|long: `report` killed, interrupted and starved, beside the checkpoint and into it.

After each disturbance a file of the output is whole or as it was, and the same command again gives the files of a run that
nothing disturbed, with nothing beside them.
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

from limits import limited
from readers import run, start
from runs import FP8CONV, MANIFEST, begin, begin_limits, check, clear, counted, end, files, no_partials, one_line, verdict

CARD = b"---\nlicense: mit\n---\n# Tiny\n"
COMMAND = ["report", "fp8", "--source", "llama", "--progress", "none"]
OWN = ("README.md", "report.html")


def prepare(work: pathlib.Path) -> None:
    work.mkdir()
    os.chdir(work)
    shutil.copytree(pathlib.Path(os.environ["SAMPLES"], "tiny-llama"), "llama")
    pathlib.Path("llama/README.md").write_bytes(CARD)
    subprocess.run([FP8CONV, "quantize", "llama", "-o", "whole", "--manifest", "--quiet"], check=True)


def reset() -> None:
    clear(pathlib.Path("fp8"), pathlib.Path("out"))
    shutil.copytree("whole", "fp8")


class Place:
    """Where the report goes, and what is there at first and in the end."""

    def __init__(self, folder: str):
        self.folder, self.command = pathlib.Path(folder), [*COMMAND, "-o", folder]
        reset()
        self.before = files(self.folder)
        began = time.monotonic()
        result = run(self.command)
        check((result.status, result.out, result.err) == (0, b"", ""), f"undisturbed: {result}")
        self.seconds = time.monotonic() - began
        self.after = files(self.folder)
        check(all(name in self.after for name in OWN), f"files: {sorted(self.after)}")

    def look(self, what: str) -> None:
        found = files(self.folder)
        for name, data in found.items():
            states = (self.before.get(name), self.after.get(name))
            check(data in states or name.startswith(".") or name == MANIFEST, f"{what}: '{name}' is not whole")
        check(all(name in found for name in self.before), f"{what}: a file is gone")

    def again(self, what: str) -> None:
        self.look(what)
        result = run(self.command)
        check((result.status, result.err) == (0, ""), f"{what}, again: {result}")
        check(files(self.folder) == self.after, f"{what}, again: not the golden files")
        no_partials(self.folder)
        counted()
        reset()


def kills(place: Place, n: int) -> None:
    begin("kill -9")
    for _ in range(n):
        process = start(place.command)
        time.sleep(random.uniform(0, place.seconds))
        process.kill()
        end(process)
        place.again("kill -9")


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
    rows = [("RLIMIT_FSIZE", resource.RLIMIT_FSIZE, [0, 1, 1000, 5000, 20000], ("File too large",)),
            ("RLIMIT_AS", resource.RLIMIT_AS, [n << 20 for n in range(16, 200, 8 * step)], ("out of memory", "Cannot allocate memory")),
            ("RLIMIT_NOFILE", resource.RLIMIT_NOFILE, list(range(3, 14, step)), ("Too many open files",))]
    for name, which, values, words in begin_limits(rows):
        for value in values:
            able = subprocess.run([FP8CONV, "--version"], capture_output=True, preexec_fn=limited(which, value))
            result = run(place.command, preexec_fn=limited(which, value))
            if result.status and (able.returncode == 0 or which == resource.RLIMIT_FSIZE):
                one_line(result, (4,), next((word for word in words if word in result.err), words[0]))
            place.again(f"{name} {value}")


def main() -> int:
    folder, extent = sys.argv[1:]
    few = extent == "short"
    seed = int(os.environ.get("SEED", "1"))
    random.seed(seed)
    prepare(pathlib.Path(folder).resolve() / "reports")
    for name in ("out", "fp8"):
        place = Place(name)
        reset()
        kills(place, 6 if few else 100)
        signals(place, 6 if few else 60)
        starved(place, few)
    return 0 if verdict(f"reports (SEED={seed})") else 1


if __name__ == "__main__":
    sys.exit(main())
