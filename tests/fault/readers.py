# SPDX-License-Identifier: Apache-2.0
"""readers.py FOLDER short|long: commands that write nothing but their numbers, killed, interrupted, starved and lied to.

Each command is a row of JOBS.  After each disturbance every file lies as it did, and standard output has the numbers of a run
that nothing disturbed, or nothing: then standard error has one line, and the exit status says whose fault it is.
FP8CONV: the program; SAMPLES: sample_checkpoints; SEED: of the random moments.
"""
import contextlib
import json
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

from inputs import cut
from limits import limited
from runs import FP8CONV, Result, begin, begin_limits, check, clear, counted, end, one_line, snapshot, stop, verdict

N_SEQUENCES, N_TOKENS = 12, 256
TIMES = ("seconds", "peak_memory_bytes")                      # keys of numbers that differ from run to run
# What a user may take for data, and it is none.
HOSTILE = {
    "empty.jsonl": b"", "open.jsonl": b'{"input_ids": [1, 2', "deep.jsonl": b"[" * 100_000, "beyond.jsonl": b'{"input_ids": [1, 1000000]}\n',
    "negative.jsonl": b'{"input_ids": [1, -1]}\n', "words.jsonl": b'{"input_ids": ["a", "b"]}\n', "nul.jsonl": b"\0" * 5000,
    "huge.npy": b"\x93NUMPY\1\0\x76\0{'descr': '<i4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }" + b" " * 27 + b"\n",
    "short.npy": b"\x93NUMPY\1\0", "no.gz": b"\x1f\x8b\x08" + bytes(20), "no.zst": b"\x28\xb5\x2f\xfd" + bytes(20),
    "long.safetensors": b"\xff" * 8 + b"{}", "no.json": b'{"input_ids": 1e999}',
}


class Job(typing.NamedTuple):
    name: str
    arguments: list[str]                                      # in the folder that prepare() fills


EVAL = ["eval", "fp8", "--threads", "2", "--progress", "none"]
SOURCE = ["--source", "llama", "--by-layer"]
DIFF = ["diff", "fp8", "same", "--threads", "2", "--progress", "none", "--json"]
JOBS = [
    Job("diff", DIFF),
    Job("eval", [*EVAL, "--data", "ids.jsonl"]),
    Job("eval --source", [*EVAL, "--data", "ids.jsonl", *SOURCE, "--json", "--max-memory", "15500K"]),  # several sweeps
]


def prepare(work: pathlib.Path) -> None:
    work.mkdir()
    os.chdir(work)
    os.mkdir("tmp")
    os.environ["TMPDIR"] = str(work / "tmp")
    shutil.copytree(pathlib.Path(os.environ["SAMPLES"], "tiny-llama"), "llama")
    subprocess.run([sys.executable, pathlib.Path(os.environ["SAMPLES"], "broken.py"), "broken"], check=True)
    subprocess.run([FP8CONV, "quantize", "llama", "-o", "fp8", "--recipe", "channelwise"], check=True)
    shutil.copytree("fp8", "same")
    ids = [[(p * 37 + t * 7) % 1000 for t in range(N_TOKENS)] for p in range(N_SEQUENCES)]
    pathlib.Path("ids.jsonl").write_text("".join(f'{{"input_ids": {row}}}\n' for row in ids))


def start(arguments: list[str], **more: typing.Any) -> subprocess.Popen:
    return subprocess.Popen([FP8CONV, *arguments], **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                                      "stderr": subprocess.PIPE, **more})


def run(arguments: list[str], **more: typing.Any) -> Result:
    return end(start(arguments, **more))


def numbers(out: bytes) -> object:
    """Without what differs from run to run."""
    if not out.startswith(b"{"):
        return out
    return {key: value for key, value in json.loads(out).items() if key not in TIMES}


class Golden(typing.NamedTuple):
    out: object
    files: list[tuple]
    seconds: float


def has_no_numbers(result: Result) -> bool:
    """Nothing on standard output, or, of a job with --json, the object of the error alone."""
    return result.out == b"" or json.loads(result.out).keys() == {"schema", "error", "status"}


def check_end(what: str, result: Result, golden: Golden, statuses: tuple[int, ...], *words: str) -> None:
    """All numbers, or none and one line; and nothing was written."""
    if result.status == 0:
        check(numbers(result.out) == golden.out and result.err == "", f"{what}: not the golden numbers: {result}")
    else:
        check(has_no_numbers(result), f"{what}: part of an output: {result}")
        one_line(result, statuses, *words)
    check_files(what, golden)
    counted()


def check_files(what: str, golden: Golden) -> None:
    check(snapshot(pathlib.Path(".")) == golden.files, f"{what}: files have changed")


def kills(job: Job, golden: Golden, n: int) -> None:
    begin("kill -9")
    for _ in range(n):
        process = start(job.arguments)
        time.sleep(random.uniform(0, golden.seconds))
        process.kill()
        end(process)
        check_files(job.name, golden)
        counted()
    check_end(job.name, run(job.arguments), golden, (0,))


def signals(job: Job, golden: Golden, n: int) -> None:
    begin("signals")
    for i in range(n):
        number = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[i % 3]
        process = start(job.arguments)
        time.sleep(random.uniform(0, 1) * golden.seconds)
        process.send_signal(number)
        result = end(process)
        if result.status == -number:                          # before it could know of signals
            check((result.out, result.err) == (b"", ""), f"{job.name}: {result}")
        else:
            check_end(f"{job.name}, {number.name}", result, golden, (128 + number,), "interrupted")


def starved(job: Job, golden: Golden, few: bool) -> None:
    step = 4 if few else 1
    rows = [("RLIMIT_AS", resource.RLIMIT_AS, [n << 20 for n in range(16, 400, 12 * step)],
             ("out of memory", "Cannot allocate memory", "cannot load oneDNN", "failed with status")),
            ("RLIMIT_NOFILE", resource.RLIMIT_NOFILE, list(range(3, 16, step)), ("Too many open files", "cannot load oneDNN"))]
    for name, which, values, words in begin_limits(rows):
        for value in values:
            able = subprocess.run([FP8CONV, "--version"], capture_output=True, preexec_fn=limited(which, value))
            result = run(job.arguments, preexec_fn=limited(which, value))
            if able.returncode and result.status:
                continue                                      # the program cannot even be loaded
            check_end(f"{job.name} at {value}", result, golden, (4,), next((word for word in words if word in result.err), words[0]))


def streams(job: Job, golden: Golden) -> None:
    begin("streams")
    full = open("/dev/full", "wb", buffering=0)
    for options in ([], ["--dry-run"]):
        arguments = [*job.arguments, *options]
        for more, word in (({"stdout": full}, "No space left on device"),
                           ({"stdout": None, "preexec_fn": lambda: os.close(1)}, "Bad file descriptor")):
            one_line(run(arguments, **more), (4,), word)
            counted()
        reader, writer = os.pipe()
        os.close(reader)
        result = run(arguments, stdout=writer)                # silent: the reader has had enough
        check((result.status, result.err) == (4, ""), f"{job.name}, a broken pipe: {result}")
        os.close(writer)
        counted()
    for more in ({"stderr": full}, {"stderr": None, "preexec_fn": lambda: os.close(2)}):
        check(numbers(run([*job.arguments, "--verbose"], **more).out) == golden.out, "without stderr: other numbers")
        result = run([*job.arguments, "--data", "none"], **more)
        check(result.status == 3 and has_no_numbers(result), f"an error without stderr: {result}")
        counted(2)
    check_files(job.name, golden)


def changed_input(job: Job, golden: Golden, n: int) -> None:
    """Weights that are cut off while they are read: by then all of them were, or the file is named."""
    begin("changed input")
    for i in range(n):
        name = ("fp8", "llama")[i % 2]
        path, whole = pathlib.Path(name, "model.safetensors"), pathlib.Path("whole")
        path.rename(whole)
        shutil.copy2(whole, path)
        process = start(job.arguments)
        time.sleep(random.uniform(0, 1) * golden.seconds)
        with contextlib.suppress(ChildProcessError):          # it has ended
            stop(process)
            cut(path)
            process.send_signal(signal.SIGCONT)
        result = end(process)
        if result.status:
            check(has_no_numbers(result), f"part of an output: {result}")
            one_line(result, (3,), f"{name}/model.safetensors")
        else:
            check(numbers(result.out) == golden.out, f"other numbers of a file that was cut off: {result}")
        whole.replace(path)
        check_files(job.name, golden)
        counted()


def hostile(golden: Golden) -> None:
    """Checkpoints, sources and data that are none: status 3, one line."""
    begin("broken checkpoints")
    for path in sorted(pathlib.Path("broken").iterdir()):
        if path.suffix == ".expected":
            continue
        for arguments in ([str(path)], ["fp8", "--source", str(path)]):
            check_end(path.name, run(["eval", *arguments, "--data", "ids.jsonl"]), golden, (3,))
        check_end(path.name, run(["diff", "fp8", str(path)]), golden, (3,))
    begin("hostile data")
    for name, data in HOSTILE.items():
        path = pathlib.Path("hostile", name)
        path.parent.mkdir()
        path.write_bytes(data)
        result = run(["eval", "fp8", "--data", str(path), "--seq-len", "2"])
        one_line(result, (3,), name)
        check(result.out == b"", f"{name}: {result}")
        clear(path.parent)
        check_files(name, golden)
        counted()


def main() -> int:
    folder, extent = sys.argv[1:]
    few = extent == "short"
    seed = int(os.environ.get("SEED", "1"))
    random.seed(seed)
    prepare(pathlib.Path(folder).resolve() / "readers")
    for job in JOBS:
        begin("set-up")
        files = snapshot(pathlib.Path("."))
        began = time.monotonic()
        result = run(job.arguments)
        check((result.status, result.err) == (0, ""), f"{job.name} undisturbed: {result}")
        golden = Golden(numbers(result.out), files, time.monotonic() - began)
        kills(job, golden, 6 if few else 100)
        signals(job, golden, 6 if few else 60)
        starved(job, golden, few)
        if "--data" in job.arguments:
            streams(job, golden)
        changed_input(job, golden, 4 if few else 40)
    hostile(golden)
    return 0 if verdict(f"readers (SEED={seed})") else 1


if __name__ == "__main__":
    sys.exit(main())
