# SPDX-License-Identifier: Apache-2.0
"""`make conformance`: other people's packages read what fp8conv wrote.  As many tests at once as there are processors.

    FP8CONV=/path/to/fp8conv $(venv.sh)/bin/python run.py [NAME...]     all tests, or test_NAME.py
"""
import ctypes
import gc
import os
import pathlib
import runpy
import shutil
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = ("config", "default_models", "bytes", "back")     # begin first, so that none is left alone at the end
MEMORY = pathlib.Path("/dev/shm")
ROOM = 10 << 30                                             # bytes: conversions of SmolLM2, a few at a time, beside its passes
M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1                       # of malloc.h
MOST = 20                                                   # lines of standard error of a test that did not end


def environment() -> None:
    """For the tests and what they start; packages read it when they are imported.  Files are made in memory, if it is large."""
    paths = [HERE, HERE.parent / "golden", HERE.parent / "families"]
    sys.path[:0] = map(str, paths)
    sys.pycache_prefix, sys.dont_write_bytecode = os.path.join(sys.prefix, "pycache"), False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)         # venv.sh leaves compiling to the first import
    os.environ |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONPYCACHEPREFIX": sys.pycache_prefix, "HF_HUB_OFFLINE": "1",
                   "TRANSFORMERS_VERBOSITY": "error", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ.setdefault("TMPDIR", str(MEMORY))
    os.chdir(HERE)


def prepare() -> None:
    """The real models and the text, which each test would make otherwise; and the packages of most tests: importing them takes
    seconds, and a test has them from its parent."""
    import harness
    import tiny_models  # noqa: F401
    harness.real_model(1)
    harness.real_model(3)
    harness.eval_text()
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 0)                             # keeps the memory of arrays that are gone: the kernel would clear each
    libc.mallopt(M_TRIM_THRESHOLD, 0x7fffffff)              # page of the next one again
    gc.freeze()             # no test needs to look through what was imported
    gc.set_threshold(100_000, 50, 50)       # nor, each few thousand objects of a plan, through the modules of a model


def test(name: str, logs: pathlib.Path) -> None:
    """Runs a test, in a process of its own."""
    for stream, end in ((1, "out"), (2, "err")):
        os.dup2(os.open(logs / f"{name}.{end}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o666), stream)
    sys.argv = [str(HERE / f"test_{name}.py")]
    runpy.run_path(sys.argv[0], run_name="__main__")


def ended(name: str, status: int, seconds: float, logs: pathlib.Path) -> list[str]:
    """Shows the log of a test, and returns its lines.  A test that ends without a word is a failure too."""
    lines = (logs / f"{name}.out").read_text().splitlines()
    if "done" not in lines:
        said = (logs / f"{name}.err").read_text().splitlines()[-MOST:]
        print(*said, sep="\n")
        lines.append(f"FAILED test_{name}.py: it did not end: {said[-1] if said else f'exit status {status}'}")
    print(*lines, f"test_{name}.py: {seconds:.0f} s", sep="\n", flush=True)
    return lines


def main() -> None:
    environment()
    names = sys.argv[1:] or sorted((path.stem.removeprefix("test_") for path in HERE.glob("test_*.py")), key=lambda name: (name not in LONGEST, name))
    prepare()
    running: dict[BaseProcess, tuple[str, float]] = {}
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        logs = pathlib.Path(folder)
        while names or running:
            while names and len(running) < len(os.sched_getaffinity(0)):
                process = get_context("fork").Process(target=test, args=(names[0], logs))
                process.start()
                running[process] = names.pop(0), time.monotonic()
            wait([process.sentinel for process in running])
            for process in [process for process in running if not process.is_alive()]:
                name, began = running.pop(process)
                lines += ended(name, process.exitcode, time.monotonic() - began, logs)
    passed, failed, skipped = (sum(line.startswith(f"{word} ") for line in lines) for word in ("ok", "FAILED", "SKIPPED"))
    print(f"conformance: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0 or passed == 0)


main()
