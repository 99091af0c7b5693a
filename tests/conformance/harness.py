# SPDX-License-Identifier: Apache-2.0
"""Running fp8conv, finding models, and telling how it went: one line per group of checks."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator

import numpy as np

import smollm2

FP8CONV = os.environ["FP8CONV"]
SAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "sample_checkpoints"
SMALL = ("tiny-llama", "tiny-moe/per-expert", "tiny-moe/fused", "tiny-moe/fused-transposed", "odd-shapes")
MANY = 3                                    # problems of a group that are shown

failed = 0
forward: subprocess.Popen | None = None     # the program of our_logits


def report(group: str, problems: Iterable[str]) -> bool:
    """One line: ok, or FAILED with the first problems and their number."""
    global failed
    try:
        found = list(problems)
    except Exception as error:              # a package that raises is a problem as any other
        found = [f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"]
    if not found:
        print(f"ok {group}", flush=True)
        return True
    failed += 1
    more = f" (and {len(found) - MANY} more)" if len(found) > MANY else ""
    print(f"FAILED {group}: {'; '.join(found[:MANY])}{more}", flush=True)
    return False


def skip(group: str, reason: str) -> None:
    print(f"SKIPPED {group}: {reason}", flush=True)


def finish() -> None:
    """Tells run.py that nothing was left out."""
    if forward is not None:
        report("the forward pass ends", forward_end())
    print("done", flush=True)
    sys.exit(1 if failed else 0)


def sample(name: str) -> pathlib.Path | None:
    """A sample model that is complete; else a line that it was skipped."""
    folder = SAMPLES / name
    if (folder / "config.json").exists():
        return folder
    skip(name, "not in sample_checkpoints")
    return None


def real_model(n_shards: int) -> pathlib.Path:
    return smollm2.make_once(pathlib.Path(sys.prefix).parent, n_shards)


def eval_text() -> pathlib.Path | None:
    """English prose to measure a perplexity on, made once; None where no package has it."""
    folder = pathlib.Path(sys.prefix).parent / "corpus"
    text = folder / "eval.txt"
    if not text.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            script = pathlib.Path(__file__).with_name("corpus.sh")
            if subprocess.run(["sh", script, made], stdout=subprocess.DEVNULL, check=False).returncode:
                return None
            folder.mkdir(exist_ok=True)
            for name in ("calibration.txt", "eval.txt"):
                os.replace(pathlib.Path(made) / name, folder / name)
    return text


def run(*args: str | pathlib.Path, **more) -> subprocess.CompletedProcess:
    return subprocess.run([FP8CONV, *map(str, args)], capture_output=True, check=False, **more)


def quantize(source: pathlib.Path | str, out: pathlib.Path | str, *args: str, **more) -> subprocess.CompletedProcess:
    return run("quantize", source, "-o", out, "--progress", "none", *args, **more)


def our_logits(folder: pathlib.Path, ids: np.ndarray, *recipe: str) -> np.ndarray | str:
    """float32 (tokens x vocabulary) of our forward pass; or its message; or how the program ended.  One process answers all, for
    a start takes longer than a tiny model."""
    global forward
    ids.astype(np.uint32).tofile(folder / "ids")
    if forward is None or forward.poll() is not None:
        forward = subprocess.Popen([pathlib.Path(FP8CONV).parent / "tests/conformance/forward"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
    print(folder, "f32", folder / "ids", folder / "logits", *recipe, sep="\t", file=forward.stdin, flush=True)
    word, _, message = forward.stdout.readline().strip().partition(": ")
    if word in ("", "failed"):
        status = forward.wait()
        return message or f"exit {status}"
    return message or np.fromfile(folder / "logits", np.float32)


def forward_end() -> Iterator[str]:
    """How its process ends, when nothing more is asked."""
    if forward is not None and forward.poll() is None:
        forward.stdin.close()
        if status := forward.wait():
            yield f"exit {status}"


def silence(done: subprocess.CompletedProcess) -> Iterator[str]:
    """Silent success, except for notes, and for progress where a machine is busy."""
    error = done.stderr.decode()
    if done.returncode or done.stdout or not all(re.search(r"note:|^fp8conv \w+: \d+%, ", line) for line in error.splitlines()):
        yield f"exit status {done.returncode}, stdout {len(done.stdout)} bytes, stderr {error.strip()!r}"


@contextlib.contextmanager
def scratch() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(prefix="fp8conv-conformance-") as folder:
        yield pathlib.Path(folder)


def library():
    """Returns the Python module of this checkout, over the library beside the program."""
    folder = os.fspath(pathlib.Path(FP8CONV).parent)
    if folder not in os.environ.get("LD_LIBRARY_PATH", ""):     # the loader reads it when a process begins
        os.environ["LD_LIBRARY_PATH"] = folder
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.path.insert(0, os.fspath(SAMPLES.parent / "python"))
    import fp8conv
    return fp8conv
