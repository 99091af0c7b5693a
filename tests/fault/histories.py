# SPDX-License-Identifier: Apache-2.0
"""histories.py FOLDER short|long: jobs that make or use an amax history, a table, compensated codes or a delta, killed,
interrupted and starved.

Each job is a row of JOBS; after each disturbance what has its final name is whole, and the same job run again gives the bytes
of a run that nothing disturbed.
FP8CONV: the program; SAMPLES: sample_checkpoints; SEED: of the random moments.
"""
import contextlib
import fcntl
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import typing

from limits import limited
from runs import FP8CONV, HERE, Result, begin, check, clear, counted, end, files, one_line, stop, verdict
from stores import stores

N_PASSES, N_TOKENS = 24, 128
HISTORY = "out/s.amax"


class Job(typing.NamedTuple):
    name: str
    arguments: list[str]                                      # in the folder that prepare() fills
    output: str
    start: str = ""                                           # what the output is before; "": nothing


CALIBRATE = ["calibrate", "llama", "--threads", "1", "--progress", "none", "--quiet", "--resume", "-o", HISTORY]
KEPT = re.compile(r".*\.unfinished$|\.fp8conv\.rounding")      # what the next run goes on with
NEAREST = ["quantize", "llama", "-o", "out", "--progress", "none"]
COMPENSATION = ["--rounding", "compensated", "--data", "ids.jsonl"]
JOBS = [
    Job("merge", ["merge", "a.amax", "b.amax", "-o", HISTORY], HISTORY),
    Job("calibrate", [*CALIBRATE, "--data", "ids.jsonl", "--max-memory", "2100K"], HISTORY),   # three sweeps
    Job("sensitivity", ["sensitivity", "llama", "--threads", "1", "--progress", "none", "--quiet", "--passes", "2", "--data",
                        "ids.jsonl", "--max-memory", "4900K", "-o", "out/S.json"], "out/S.json"),    # several rounds
    Job("static", ["quantize", "llama", "-o", "out", "--recipe", "delayed", "--calibration", "a.amax"], "out"),
    Job("compensated", [*NEAREST, *COMPENSATION, "--threads", "1"], "out"),
    Job("delta", ["delta", "fp8", "next8", "-o", "out/D.safetensors"], "out/D.safetensors"),
    Job("since", ["quantize", "next", "--since", "fp8", "-o", "out/D.safetensors"], "out/D.safetensors"),
    Job("apply", ["apply", "fp8", "D.safetensors", "-o", "out"], "out"),
    Job("apply in place", ["apply", "out", "D.safetensors", "--in-place"], "out", "fp8"),
]


def prepare(work: pathlib.Path) -> None:
    cli = HERE.parent / "cli"
    work.mkdir()
    os.chdir(work)
    shutil.copytree(pathlib.Path(os.environ["SAMPLES"], "tiny-llama"), "llama")
    for name, seed in (("a", 1), ("b", 2)):
        subprocess.run([sys.executable, cli / "amax.py", "make", "llama", f"{name}.amax", f"seed={seed}"], check=True)
    ids = [[(p * 37 + t * 7) % 1000 for t in range(N_TOKENS)] for p in range(N_PASSES)]
    pathlib.Path("ids.jsonl").write_text("".join(f'{{"input_ids": {row}}}\n' for row in ids))
    shutil.copytree("llama", "next")
    data = bytearray(pathlib.Path("next/model.safetensors").read_bytes())
    for at in range(len(data) // 2, len(data), 500):
        data[at - at % 2] ^= 1
    pathlib.Path("next/model.safetensors").write_bytes(data)
    pathlib.Path("next/generation_config.json").write_text("{}")
    for name, to in (("llama", "fp8"), ("next", "next8")):
        subprocess.run([FP8CONV, "quantize", name, "-o", to, "--quiet"], check=True)
    subprocess.run([FP8CONV, "delta", "fp8", "next8", "-o", "D.safetensors", "--quiet"], check=True)


def reset(job: Job) -> None:
    clear(pathlib.Path("out"))
    if job.start:
        shutil.copytree(job.start, "out")


def start(job: Job, **more: typing.Any) -> subprocess.Popen:
    return subprocess.Popen([FP8CONV, *job.arguments], **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                                          "stderr": subprocess.PIPE, **more})


def run(job: Job, **more: typing.Any) -> Result:
    return end(start(job, **more))


def left(job: Job) -> dict[str, bytes]:
    return {name: data for name, data in files(pathlib.Path("out")).items() if name != "fp8conv-manifest.json"}


def check_whole(job: Job, golden: dict[str, bytes]) -> None:
    """A history may be of fewer passes, and what is changed in place as before, unless there is a journal; all else is
    golden."""
    if job.start and pathlib.Path("out/.fp8conv-apply/.journal").exists():
        return
    if job.start and all(files(pathlib.Path(job.start)).get(name) == data or name.startswith(".")
                         for name, data in left(job).items()):
        return
    for name, data in left(job).items():
        if name.startswith(".") or golden.get(name) == data:
            continue
        known = job.output == HISTORY and subprocess.run([FP8CONV, "inspect", HISTORY], capture_output=True).returncode == 0
        check(known and name == "s.amax", f"{job.name}: '{name}' is not whole")


def check_again(job: Job, golden: dict[str, bytes]) -> None:
    result = run(job)
    applied = job.arguments[0] == "apply" and result.err          # before the disturbance, or not
    said = f"fp8conv apply: note: 'D.safetensors' is already applied to '{job.output}'\n" if applied else ""
    check(result == (0, b"", said), f"{job.name} run again: {result}")
    check(left(job) == golden, f"{job.name} run again: {sorted(left(job))} are not the golden ones")
    reset(job)
    counted()


def disturbed(job: Job, golden: dict[str, bytes], seconds: float, n: int) -> None:
    begin("kill -9")
    for _ in range(n):
        process = start(job)
        time.sleep(random.uniform(0, seconds))
        process.kill()
        end(process)
        check_whole(job, golden)
        check_again(job, golden)
    begin("signals")
    for i in range(n):
        number = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[i % 3]
        process = start(job)
        time.sleep(random.uniform(0.1, 1) * seconds)
        process.send_signal(number)
        result = end(process)
        if result.status not in (0, -number):                 # ended in time, or before it could know of signals
            one_line(result, (128 + number,), "interrupted")
            hidden = [name for name in left(job) if name.startswith(".") and not KEPT.match(name)]
            check(not hidden, f"{job.name}: left behind: {hidden}")
        check_whole(job, golden)
        check_again(job, golden)


def starved(job: Job, golden: dict[str, bytes]) -> None:
    begin("RLIMIT_FSIZE")
    largest = max(map(len, golden.values()))
    for value in (0, 1, largest // 2, largest - 1):
        one_line(run(job, preexec_fn=limited(resource.RLIMIT_FSIZE, value)), (4,), "File too large")
        check_whole(job, golden)
        check_again(job, golden)
    begin("RLIMIT_NOFILE")
    for value in range(3, 12, 2):
        able = subprocess.run([FP8CONV, "--version"], capture_output=True, preexec_fn=limited(resource.RLIMIT_NOFILE, value))
        result = run(job, preexec_fn=limited(resource.RLIMIT_NOFILE, value))
        if result.status and able.returncode == 0:            # else the program cannot even be loaded
            one_line(result, (4,), "Too many open files")
        check_whole(job, golden)
        check_again(job, golden)


def is_locked() -> bool:
    """Another process holds a lock of out/: its file alone, between open() and flock(), is no lock."""
    for path in pathlib.Path("out").glob(".*.lock"):
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def second_run(job: Job, golden: dict[str, bytes]) -> None:
    begin("locked output")
    process = start(job)
    until = time.monotonic() + 60
    while not list(pathlib.Path(".").glob("out/.*.lock")) and process.poll() is None and time.monotonic() < until:
        pass
    if process.poll() is None:
        stop(process)
        if is_locked():
            one_line(run(job), (4,), "in use by another fp8conv")
            counted()
        process.send_signal(signal.SIGCONT)
    check(end(process).status == 0, f"{job.name}: the first run suffered")
    check(left(job) == golden, f"{job.name}: the first run suffered")
    reset(job)


def main() -> int:
    folder, extent = sys.argv[1:]
    seed = int(os.environ.get("SEED", "1"))
    random.seed(seed)
    os.umask(0o022)
    prepare(pathlib.Path(folder).resolve() / "histories")
    for job in JOBS:
        begin("set-up")
        reset(job)
        began = time.monotonic()
        result = run(job)
        check(result == (0, b"", ""), f"{job.name} undisturbed: {result}")
        seconds = time.monotonic() - began
        golden = left(job)
        reset(job)
        disturbed(job, golden, seconds, 4 if extent == "short" else 60)
        if not job.start:                                     # a file that is changed in place has its size already
            starved(job, golden)
        second_run(job, golden)
        clear(pathlib.Path("out"))
    stores([FP8CONV, *NEAREST], COMPENSATION, extent == "short")
    return 0 if verdict(f"histories (SEED={seed})") else 1


if __name__ == "__main__":
    sys.exit(main())
