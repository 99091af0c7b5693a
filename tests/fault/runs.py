# SPDX-License-Identifier: Apache-2.0
"""What all disturbances need: the commands, their models, running them, and looking at what is left.

Each command is a row of COMMANDS; each check says what was not as promised.
FP8CONV: the program; SAMPLES: sample_checkpoints.
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
FP8CONV = os.environ["FP8CONV"]
MANIFEST = "fp8conv-manifest.json"
INDEX = "model.safetensors.index.json"
SLOW = ["--threads", "1", "--backend", "reference"]           # so that there is time to get in the way
TIMEOUT = 3000 if "QEMU_CPU" in os.environ else 300                      # seconds; an emulator multiplies slowly


class Command(typing.NamedTuple):
    name: str
    options: list[str]                                        # always given
    other: list[str]                                          # options that make it another job
    of_fp8: bool                                              # its input is what `quantize` makes of the models
    preserves: bool                                           # it has --preserve-high-precision


COMMANDS = [
    Command("quantize", [], ["--recipe", "channelwise"], of_fp8=False, preserves=True),
    Command("dequantize", [], ["--dtype", "f32"], of_fp8=True, preserves=False),
    Command("repack", ["--format", "compressed-tensors"], ["--recipe", "mxfp8"], of_fp8=True, preserves=False),
]

SHARDS = "tiny-moe/per-expert"                                # below SAMPLES: several shards, and one file
ONE = "tiny-moe/fused"


class Result(typing.NamedTuple):
    status: int
    out: bytes
    err: str


counts: dict[str, int] = {}
n_broken = 0
current = ""


def begin(name: str) -> None:
    global current
    current = name


def counted(n: int = 1) -> None:
    counts[current] = counts.get(current, 0) + n


def check(holds: object, text: str) -> None:
    global n_broken
    if not holds:
        n_broken += 1
        print(f"FAILED {current}: {text}", flush=True)


def verdict(title: str) -> bool:
    total = sum(counts.values())
    print(f"{title}: " + ", ".join(f"{n} {name}" for name, n in counts.items()) +
          f": {total} disturbances, {n_broken} promises broken")
    return n_broken == 0 and total > 0


def skip(reason: str) -> None:
    print(f"SKIPPED fault/{current}: {reason}", flush=True)


def begin_limits(rows: list[tuple]) -> typing.Iterator[tuple]:
    """Begins and yields each row of a name, a limit (RLIMIT_*), its values and more.  An emulator needs addresses itself."""
    for row in rows:
        begin(row[0])
        if row[1] == resource.RLIMIT_AS and "QEMU_CPU" in os.environ:
            skip("the address space is that of the emulator too")
        else:
            yield row


# --- running ---


def start(command: Command, source: object, out: object, *options: str, **more: typing.Any) -> subprocess.Popen:
    """stderr is a pipe, stdout another, unless said otherwise."""
    arguments = [FP8CONV, command.name, str(source), "-o", str(out), "--progress", "none", *command.options, *options]
    return subprocess.Popen(arguments, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                          "stderr": subprocess.PIPE, **more})


def end(process: subprocess.Popen) -> Result:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        check(False, f"did not end in {TIMEOUT} s: {process.args}")
    # Which engines do not load the result is said of a Llama in blocks whatever happens to the job; and oneDNN itself writes
    # that it cannot read what the caches of an arm64 processor are.
    said = re.sub(r"^(fp8conv \w+: note: .*; see --target \w+|.*/xbyak_aarch64/.*)\n", "", (err or b"").decode(), flags=re.M)
    return Result(process.returncode, out or b"", said)


def run(command: Command, source: object, out: object, *options: str, **more: typing.Any) -> Result:
    return end(start(command, source, out, *options, **more))


def one_line(result: Result, statuses: tuple[int, ...], *words: str) -> None:
    check(result.status in statuses, f"exit status {result.status}, expected {statuses}: {result.err}")
    check(result.err.count("\n") == 1 and result.err.startswith("fp8conv"), f"not one line: {result.err!r}")
    check(all(word in result.err for word in words), f"{words} not in: {result.err}")


# --- looking ---

def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*"))
            if p.is_file() and not p.is_symlink()} if folder.is_dir() else {}


def snapshot(folder: pathlib.Path) -> list[tuple]:
    """Names, kinds, inodes, times, and what is in them; a folder's own times change with locks."""
    found = []
    for path in sorted(folder.rglob("*")):
        st = path.lstat()
        regular = path.is_file() and not path.is_symlink()
        found.append((str(path), st.st_mode, st.st_ino, None if path.is_dir() else st.st_mtime_ns,
                      path.read_bytes() if regular else None))
    return found


def is_ours(name: str) -> bool:
    return pathlib.PurePath(name).name.startswith(".") or name == MANIFEST


def check_names(out: pathlib.Path, golden: dict[str, bytes]) -> None:
    """Every final name is whole; index and config come last."""
    found = files(out)
    for name, data in found.items():
        check(is_ours(name) or golden.get(name) == data, f"'{name}' is not whole")
    if "config.json" in found or INDEX in found:
        missing = [name for name in golden if name.endswith(".safetensors") and found.get(name) != golden[name]]
        check(not missing, f"index or config.json without {missing}")


def check_golden(out: pathlib.Path, golden: dict[str, bytes], manifest: bool = True) -> None:
    found = files(out)
    names = {name for name in found.keys() | golden.keys() if found.get(name) != golden.get(name)}
    check(not names - (set() if manifest else {MANIFEST}), f"not the golden bytes: {sorted(names)}")


def check_again(command: Command, source: object, out: pathlib.Path, golden: dict[str, bytes], *options: str,
                manifest: bool = True) -> None:
    result = run(command, source, out, *options)
    check(result == (0, b"", ""), f"the same job run again: {result}")
    check_golden(out, golden, manifest)


def check_refused(what: object, command: Command, source: object, out: pathlib.Path, *options: str,
                  statuses: tuple[int, ...], words: tuple[str, ...]) -> None:
    """One line that has the words, and nothing in out changes."""
    before = snapshot(out)
    one_line(run(command, source, out, *options), statuses, *words)
    check(snapshot(out) == before, f"{what}: a refusal changed something")


def no_partials(folder: pathlib.Path) -> None:
    left = [str(p) for p in folder.rglob(".*")]
    check(not left, f"left behind: {left}")


def clear(*paths: pathlib.Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def wait_for(path: pathlib.Path, process: subprocess.Popen) -> bool:
    until = time.monotonic() + 60
    while not path.exists() and process.poll() is None and time.monotonic() < until:
        pass
    return path.exists() and process.poll() is None


def stop(process: subprocess.Popen) -> None:
    """On return it stands still, or has ended."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class Model(typing.NamedTuple):
    """A model large enough that one can get in the way, and what becomes of it."""
    folder: pathlib.Path
    shards: list[str]
    golden: dict[str, bytes]
    seconds: float                                            # of a slow run


def partial(out: pathlib.Path, name: str) -> pathlib.Path:
    return out / f".{name}.partial"


def quantized(command: Command, folder: pathlib.Path) -> None:
    """The model in folder becomes FP8 where the command takes nothing else."""
    if not command.of_fp8:
        return
    source = folder.with_name(folder.name + "-source")
    folder.rename(source)
    subprocess.run([FP8CONV, "quantize", source, "-o", folder], check=True)
    clear(source, folder / MANIFEST)


def make_sample(command: Command, sample: str, folder: pathlib.Path) -> pathlib.Path:
    shutil.copytree(pathlib.Path(os.environ["SAMPLES"], sample), folder)
    quantized(command, folder)
    return folder


def make_big(command: Command, folder: pathlib.Path, shards: int, mib: int) -> None:
    """Shards of MIB MiB each, before they become FP8."""
    subprocess.run([sys.executable, HERE.parent / "cli" / "checkpoint.py", "big", folder, str(shards), str(mib)],
                   check=True)
    quantized(command, folder)


def make_model(command: Command, folder: pathlib.Path, shards: int, mib: int) -> Model:
    make_big(command, folder, shards, mib)
    (folder / "original" / "deep").mkdir(parents=True)
    (folder / "original" / "deep" / "notes.txt").write_bytes(b"notes\n" * (1 << 18))
    (folder / "tokenizer.json").write_bytes(bytes(range(256)) * (shards * mib << 8))
    out = folder.with_name("golden")
    began = time.monotonic()
    result = run(command, folder, out, *SLOW)
    seconds = time.monotonic() - began
    check(result == (0, b"", ""), f"undisturbed: {result}")
    golden = files(out)
    clear(out)
    return Model(folder, sorted(name for name in golden if name.endswith(".safetensors")), golden, seconds)


def phase(out: pathlib.Path, model: Model) -> str:
    """How far a run had come, by what it left."""
    names = files(out)
    if not names:
        return "start"
    if "config.json" in names:
        return "end"
    n = sum(name in names for name in model.shards)
    return "auxiliary" if n == len(model.shards) else f"shard {n + 1}"
