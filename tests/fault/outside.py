# SPDX-License-Identifier: Apache-2.0
"""outside.py FOLDER short|long: conversions that are killed, interrupted, starved and lied to.

Each command is a row of COMMANDS; each check says what was not as promised, and the last line counts by class.
FP8CONV: the program; SAMPLES: sample_checkpoints.
"""
import contextlib
import ctypes
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

HERE = pathlib.Path(__file__).resolve().parent
FP8CONV = os.environ["FP8CONV"]
MANIFEST = "fp8conv-manifest.json"
INDEX = "model.safetensors.index.json"
SLOW = ["--threads", "1", "--backend", "reference"]           # so that there is time to get in the way
TIMEOUT = 300


class Command(typing.NamedTuple):
    name: str
    sample: str                                               # a model of several shards, below SAMPLES
    one: str                                                  # one of a single file
    other: list[str]                                          # options that make it another job


COMMANDS = [
    Command("quantize", "tiny-moe/per-expert", "tiny-moe/fused", ["--recipe", "mxfp8"]),
]


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


def skip(reason: str) -> None:
    print(f"SKIPPED fault/{current}: {reason}", flush=True)


# --- running ---

def start(command: Command, source: object, out: object, *options: str, **more: typing.Any) -> subprocess.Popen:
    """stderr is a pipe, stdout another, unless said otherwise."""
    arguments = [FP8CONV, command.name, str(source), "-o", str(out), "--progress", "none", *options]
    return subprocess.Popen(arguments, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                          "stderr": subprocess.PIPE, **more})


def end(process: subprocess.Popen) -> Result:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        check(False, f"did not end in {TIMEOUT} s: {process.args}")
    return Result(process.returncode, out or b"", (err or b"").decode())


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


class Model(typing.NamedTuple):
    """A model large enough that one can get in the way, and what becomes of it."""
    folder: pathlib.Path
    shards: list[str]
    golden: dict[str, bytes]
    seconds: float                                            # of a slow run


def partial(out: pathlib.Path, name: str) -> pathlib.Path:
    return out / f".{name}.partial"


def make_model(command: Command, folder: pathlib.Path, shards: int, mib: int) -> Model:
    subprocess.run([sys.executable, HERE.parent / "cli" / "checkpoint.py", "big", folder, str(shards), str(mib)],
                   check=True)
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


# --- ended at any moment ---

def kills(command: Command, model: Model, work: pathlib.Path, n: int) -> None:
    """Random moments, all over the run; every fifth as a name appears."""
    begin("kill -9")
    out = work / "out"
    phases: dict[str, int] = {}
    watched = [partial(out, name) for name in [*model.shards, "tokenizer.json", INDEX, "config.json"]]
    for i in range(n):
        process = start(command, model.folder, out, *SLOW)
        if i % 5 == 4:
            wait_for(watched[i // 5 % len(watched)], process)
        else:
            time.sleep(random.uniform(0, model.seconds))
        process.kill()
        end(process)
        where = phase(out, model)
        phases[where] = phases.get(where, 0) + 1
        check_names(out, model.golden)
        check_again(command, model.folder, out, model.golden)
        clear(out)
        counted()
    print("kill -9 in: " + ", ".join(f"{name} {count}" for name, count in sorted(phases.items())))


def signals(command: Command, model: Model, work: pathlib.Path, n: int) -> None:
    begin("signals")
    out = work / "out"
    for i in range(n):
        number = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[i % 3]
        hashes = ["--manifest"] if i % 4 == 3 else []
        process = start(command, model.folder, out, *SLOW, *hashes)
        moment = random.uniform(0.05, 1) * model.seconds
        time.sleep(moment)
        process.send_signal(number)
        result = end(process)
        if result.status == -number:
            check(not out.exists(), f"{number.name} ended it in the hard way, with work begun")
        elif result.status == 0:
            check_golden(out, model.golden, not hashes)
        else:
            one_line(result, (128 + number,), "interrupted by signal")
            no_partials(out)
        check_names(out, model.golden)
        check_again(command, model.folder, out, model.golden, manifest=not hashes)
        clear(out)
        counted()


def second_run(command: Command, model: Model, work: pathlib.Path) -> None:
    begin("locked output")
    out = work / "out"
    first = start(command, model.folder, out, *SLOW)
    if wait_for(partial(out, model.shards[0]), first):
        first.send_signal(signal.SIGSTOP)
        before = files(out)
        for options in ([], ["--restart"], command.other):
            one_line(run(command, model.folder, out, *options), (2,), "in use by another fp8conv")
            counted()
        check(files(out) == before, "the second run touched the first one's files")
        first.send_signal(signal.SIGCONT)
    check(end(first) == (0, b"", ""), "the first run suffered")
    check_golden(out, model.golden)
    clear(out)


# --- the input ---

def cut(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def rewrite(path: pathlib.Path) -> None:
    with open(path, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"x" * 100)


def replace(path: pathlib.Path) -> None:
    new = path.with_name("new")
    shutil.copy2(path, new)
    new.replace(path)


def changed_input(command: Command, model: Model, work: pathlib.Path) -> None:
    """While it is read: the shard that is being read, and one whose turn comes later."""
    begin("changed input")
    out, copy = work / "out", work / "copy"
    for change in (cut, rewrite, replace):
        for shard in (model.shards[0], model.shards[-1]):
            clear(copy)
            shutil.copytree(model.folder, copy)
            process = start(command, copy, out, *SLOW)
            if wait_for(partial(out, model.shards[0]), process):
                process.send_signal(signal.SIGSTOP)
                change(copy / shard)
                process.send_signal(signal.SIGCONT)
            result = end(process)
            if change is replace and shard == model.shards[0] and result.status == 0:
                counted()                                     # the old file was open: all of it was read
                check_golden(out, model.golden, manifest=False)
            else:
                one_line(result, (3,), shard)
                check("changed while it was read" in result.err or "truncated" in result.err, result.err)
                check(not (out / shard).exists(), f"'{shard}' was made of it")
                check_names(out, model.golden)
                no_partials(out)
                counted()
            clear(out, copy)


def same_places(command: Command, work: pathlib.Path) -> None:
    begin("in == out")
    model = work / "same"
    shutil.copytree(pathlib.Path(os.environ["SAMPLES"], command.sample), model)
    one = work / "one"
    shutil.copytree(pathlib.Path(os.environ["SAMPLES"], command.one), one)
    (work / "link").symlink_to("same")
    (work / "hard").mkdir()
    for path in model.glob("*.safetensors"):
        os.link(path, work / "hard" / path.name)
    os.link(one / "model.safetensors", work / "hard.safetensors")
    (work / "soft.safetensors").symlink_to("one/model.safetensors")
    before = snapshot(work)
    for source, out in ((model, model), (model, work / "link"), (work / "link", model), (model, work / "hard"),
                        (one / "model.safetensors", one / "model.safetensors"),
                        (one / "model.safetensors", work / "hard.safetensors"),
                        (one / "model.safetensors", work / "soft.safetensors"),
                        (work / "soft.safetensors", one / "model.safetensors")):
        for options in ([], ["--restart"]):
            one_line(run(command, source, out, *options), (2,), "same")
            counted()
    check(snapshot(work) == before, "a refusal left something")
    clear(model, one, *(work / name for name in ("link", "hard", "hard.safetensors", "soft.safetensors")))


# --- what the system refuses ---

def limited(which: int, n: int) -> typing.Callable[[], None]:
    return lambda: resource.setrlimit(which, (n, n))


def limits(command: Command, model: Model, work: pathlib.Path, few: bool) -> None:
    """Files too long, memory, descriptors: done, or status 4 and one line."""
    out = work / "out"
    largest = max(map(len, model.golden.values()))
    step = 4 if few else 1
    little = ["--threads", "1", "--max-memory", "32M"]
    rows = [("RLIMIT_FSIZE", resource.RLIMIT_FSIZE, [0, 1, 1000, 5000, largest // 2, largest - 1], "File too large", []),
            ("RLIMIT_AS", resource.RLIMIT_AS, [n << 20 for n in range(16, 280, 8 * step)], "out of memory", []),
            ("RLIMIT_AS", resource.RLIMIT_AS, [n << 16 for n in range(128, 480, 2 * step)], "out of memory", little),
            ("RLIMIT_NOFILE", resource.RLIMIT_NOFILE, list(range(3, 20, 1 if step == 1 else 2)), "Too many open files", [])]
    for name, which, values, words, options in rows:
        begin(name)
        for value in values:
            able = subprocess.run([FP8CONV, "--version"], capture_output=True, preexec_fn=limited(which, value))
            result = run(command, model.folder, out, *(options or ["--threads", "2"]), preexec_fn=limited(which, value))
            if able.returncode and which != resource.RLIMIT_FSIZE and result.status:
                continue                                      # the program cannot even be loaded
            if result.status == 0:
                check(result.err == "", f"at {value}: {result.err}")
                check_golden(out, model.golden)
            else:
                one_line(result, (4,), words)
                check_names(out, model.golden)
                if "metadata" not in result.err:              # that one ends the program on the spot
                    no_partials(out)
            check_again(command, model.folder, out, model.golden)
            clear(out)
            counted()


def no_space(command: Command, model: Model, work: pathlib.Path) -> None:
    """A file system of 16 MiB: too small from the start, and filled by others while we write."""
    begin("no space")
    small = work / "small"
    small.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() or libc.unshare(0x20000) or subprocess.run(
            ["mount", "--make-rprivate", "/"], capture_output=True).returncode or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", small], capture_output=True).returncode:
        skip("mounting a tmpfs takes root")
        return
    large = work / "large"
    subprocess.run([sys.executable, HERE.parent / "cli" / "checkpoint.py", "big", large, "2", "20"], check=True)
    one_line(run(command, large, small / "out"), (4,), "not enough space", "needed", "free", "missing")
    check(not any(small.iterdir()), "a refusal left something")
    counted()
    source = work / "fits"
    subprocess.run([sys.executable, HERE.parent / "cli" / "checkpoint.py", "big", source, "3", "4"], check=True)
    run(command, source, work / "out")
    golden = files(work / "out")
    clear(work / "out")
    for shard in [name for name in golden if name.endswith(".safetensors")]:
        out = small / "out"
        process = start(command, source, out, *SLOW)
        if wait_for(partial(out, shard), process):
            process.send_signal(signal.SIGSTOP)
            fill(small / "filler")
            process.send_signal(signal.SIGCONT)
            one_line(end(process), (4,), "No space left on device")
            no_partials(out)
            check_names(out, golden)
            done = {name: (out / name).stat().st_ino for name in golden if (out / name).exists() and name != MANIFEST}
            (small / "filler").unlink()
            check_again(command, source, out, golden)
            check(all((out / name).stat().st_ino == inode for name, inode in done.items()), "a finished shard was made again")
            counted()
        else:
            end(process)
        clear(out)
    read_only(command, source, small)
    subprocess.run(["umount", small], check=True)
    clear(large, source)


def fill(path: pathlib.Path) -> None:
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


def read_only(command: Command, source: pathlib.Path, small: pathlib.Path) -> None:
    (small / "there").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    for out in (small / "there", small / "new", small / "new.safetensors"):
        given = pathlib.Path(os.environ["SAMPLES"], command.one) if out.suffix else source
        one_line(run(command, given, out), (4,), "Read-only file system")
        counted()


# --- streams ---

def streams(command: Command, work: pathlib.Path) -> None:
    begin("streams")
    one = pathlib.Path(os.environ["SAMPLES"], command.one, "model.safetensors")
    out = work / "out"
    wanted = run(command, one, "-").out
    folder = one.parent
    full = open("/dev/full", "wb", buffering=0)
    for options in (["-"], [out, "--dry-run"], [out, "--json"]):
        one_line(run(command, one if options == ["-"] else folder, *options, stdout=full), (4,), "No space left on device")
        one_line(run(command, one if options == ["-"] else folder, *options, stdout=None, preexec_fn=lambda: os.close(1)),
                 (4,), "Bad file descriptor")
        clear(out)
        counted(2)
    for n in (0, 1, 100000):                                  # bytes until the reader goes away
        reader, writer = os.pipe()
        process = start(command, one, "-", stdout=writer)
        os.close(writer)
        while n > 0 and (got := os.read(reader, n)):
            n -= len(got)
        os.close(reader)
        one_line(end(process), (4,), "Broken pipe")
        counted()
    for stderr in (full, None):
        more = {"stderr": stderr} if stderr else {"stderr": None, "preexec_fn": lambda: os.close(2)}
        check(run(command, one, "-", **more).out == wanted, "without stderr: other bytes")
        result = run(command, one.with_name("none.safetensors"), "-", **more)
        check((result.status, result.out) == (3, b""), f"an error without stderr: {result}")
        counted(2)
    for n in (0, 7, 8, 500, len(one.read_bytes()) - 1):       # input that ends early
        reader, writer = os.pipe()
        feeder = subprocess.Popen(["head", "-c", str(n), one], stdout=writer)
        os.close(writer)
        result = run(command, "-", "-", stdin=reader)
        os.close(reader)
        feeder.wait()
        one_line(result, (3,), "'-'")
        check(result.out == b"", "bytes of a stream that failed")
        counted()


# --- what the output holds already ---

def resume(command: Command, model: Model, work: pathlib.Path) -> None:
    begin("resume")
    out, kept = work / "out", work / "kept"
    run(command, model.folder, out)
    for damage, redone in ((lambda shard: shard.unlink(), True), (cut, True),
                           (lambda shard: open(shard, "ab").write(b"x"), True),
                           (lambda shard: (shard.unlink(), shard.symlink_to(kept)), True),
                           (lambda shard: (out / "config.json").unlink(), False),
                           (lambda shard: (out / INDEX).unlink(), False)):
        for name in (model.shards[0], model.shards[-1]):
            shutil.copy2(out / name, kept)
            state = {s: ((out / s).stat().st_ino, (out / s).stat().st_mtime_ns) for s in model.shards}
            damage(out / name)
            check_again(command, model.folder, out, model.golden)
            changed = {s for s in model.shards if state[s] != ((out / s).stat().st_ino, (out / s).stat().st_mtime_ns)}
            check(changed == ({name} if redone else set()), f"written again: {changed}, damaged: {name}")
            check(kept.read_bytes() == model.golden[name], "the file that a link led to was written")
            counted()
    clear(out, kept)
    # A run that finds a shard cut short, and cannot mend it, leaves no checkpoint.
    run(command, model.folder, out)
    cut(out / model.shards[-1])
    one_line(run(command, model.folder, out, preexec_fn=limited(resource.RLIMIT_FSIZE, 5000)), (4,), "File too large")
    check(not (out / "config.json").exists() and not (out / INDEX).exists(), "config.json or index without all shards")
    # A part does not take the record of another part's shard for the shard.
    run(command, model.folder, out)
    cut(out / model.shards[-1])
    run(command, model.folder, out, "--part", "1/2")
    check(not (out / "config.json").exists(), "a part made config.json beside a shard that is cut short")
    check_again(command, model.folder, out, model.golden)
    counted(2)
    clear(out)


def other_jobs(command: Command, model: Model, work: pathlib.Path) -> None:
    begin("another job")
    out, copy = work / "out", work / "copy"

    def edit(old: str, new: str) -> typing.Callable[[], None]:
        def change() -> None:
            text = (out / MANIFEST).read_text(encoding="utf-8")
            check(old in text, f"the manifest has no {old}")
            (out / MANIFEST).write_text(text.replace(old, new, 1), encoding="utf-8")
        return change

    def grow() -> None:
        data = shard.read_bytes()
        n = int.from_bytes(data[:8], "little")
        shard.write_bytes((n + 8).to_bytes(8, "little") + data[8:8 + n] + b" " * 8 + data[8 + n:])

    rows: list[tuple[str, typing.Callable[[], object], list[str]]] = [
        ("other options", lambda: None, command.other),
        ("mtime", lambda: os.utime(shard, (1, 1)), []),
        ("ctime", lambda: os.utime(shard, ns=(shard.stat().st_atime_ns, shard.stat().st_mtime_ns)), []),
        ("inode", lambda: replace(shard), []),
        ("size", grow, []),
        ("tool version", edit('"version": "', '"version": "9.'), []),
        ("tool", edit('"fp8conv"', '"another"'), []),
        ("command", edit(f'"{command.name}"', '"another"'), []),
        ("input list", edit('"inputs": [', '"inputs": [ {},'), []),
        ("options of a wrong type", edit('"options": {', '"options": 5, "was": {'), []),
    ]
    for name, change, options in rows:
        shutil.copytree(model.folder, copy)
        shard = copy / model.shards[0]
        run(command, copy, out)
        change()
        before = snapshot(out)
        one_line(run(command, copy, out, *options), (2,), "another job", "--restart")
        check(snapshot(out) == before, f"{name}: a refusal changed something")
        check(run(command, copy, out, "--restart", *options) == (0, b"", ""), f"{name}: --restart failed")
        if not options:
            check_golden(out, model.golden, manifest=False)
        clear(out, copy)
        counted()


def manifests(command: Command, model: Model, work: pathlib.Path) -> None:
    """What may lie there instead of a manifest: one line and nothing touched, or, where the job is told, the golden bytes."""
    begin("manifest")
    out, victim = work / "out", work / "victim"
    run(command, model.folder, out)
    good = model_manifest = (out / MANIFEST).read_text(encoding="utf-8")
    shards = good[good.index('"shards": ['):good.index('"finished"')]
    bad = [b"", b"\0", b"\xff\xfe garbage", b"[]", b"{}", b"5", b"null", b'"x"', b"{", b'{"shards": {}}', b'{"shards": []}',
           b"[" * 100000, b'{"shards": [], "shards": []}', b'{"shards": ' + b"9" * 5000 + b"}",
           good.replace(shards, '"shards": 5, ').encode(), good.replace(shards, '"shards": null, ').encode(),
           good.replace(shards, "").encode(), good.encode()[:-20]]
    for data in bad:
        (out / MANIFEST).write_bytes(data)
        before = snapshot(out)
        one_line(run(command, model.folder, out), (2, 3), "--restart")
        check(snapshot(out) == before, f"{data[:40]!r}: a refusal changed something")
        check_again(command, model.folder, out, model.golden, "--restart")
        counted()
    for text in ('"shards": [], ', '"shards": [5, null, {}, {"name": 7}, {"name": "x"}, []], '):
        (out / MANIFEST).write_text(model_manifest.replace(shards, text), encoding="utf-8")
        result = run(command, model.folder, out)
        check(result == (0, b"", ""), f"{text}: {result}")
        check_golden(out, model.golden, manifest=False)
        counted()
    victim.write_bytes(b"not ours")
    for name in ("../victim", "..", ".", "", str(victim), "original"):
        (out / MANIFEST).write_text(f'{{"shards": [{{"name": "{name}"}}]}}', encoding="utf-8")
        result = run(command, model.folder, out, "--restart")
        check(result == (0, b"", "") or (result.status in (2, 3, 4) and result.err.count("\n") == 1), f"{name}: {result}")
        check(victim.exists() and victim.read_bytes() == b"not ours", f"--restart followed '{name}' out of the folder")
        clear(out)
        run(command, model.folder, out)
        counted()
    make = {"a link": lambda p: p.symlink_to(victim), "a link to nowhere": lambda p: p.symlink_to("nowhere"),
            "a loop": lambda p: p.symlink_to(p.name), "a FIFO": os.mkfifo, "a folder": os.mkdir,
            "a device": lambda p: p.symlink_to("/dev/zero")}
    for name, place in make.items():
        (out / MANIFEST).unlink()
        place(out / MANIFEST)
        before = snapshot(out)
        one_line(run(command, model.folder, out), (3,), MANIFEST)
        check(snapshot(out) == before and victim.read_bytes() == b"not ours", f"{name}: a refusal changed something")
        if name == "a folder":
            one_line(run(command, model.folder, out, "--restart"), (4,), MANIFEST)
            (out / MANIFEST).rmdir()
        check_again(command, model.folder, out, model.golden, "--restart")
        check(victim.read_bytes() == b"not ours", f"{name}: its end was written")
        counted()
    clear(out, victim)


def planted_links(command: Command, model: Model, work: pathlib.Path, few: bool) -> None:
    """No name in OUT, or below it, leads to a write outside."""
    begin("planted links")
    out, kept, outside = work / "out", work / "kept", work / "outside"
    names = [model.shards[0], f".{model.shards[0]}.partial", ".fp8conv.lock", ".fp8conv.guard", MANIFEST,
             f".{MANIFEST}.partial", INDEX, "config.json", ".config.json.partial", "hf_quant_config.json",
             "tokenizer.json", ".tokenizer.json.partial", "original", "original/deep", "original/deep/notes.txt",
             "original/deep/.notes.txt.partial"]
    number = 0
    for name in names:
        for end_of_link in ("file", "folder", "nothing"):
            for where, options in ((out, []), (out, ["--restart"]), (kept, [])):
                number += 1
                if few and number % 4:
                    continue
                if where == kept and (name.startswith(("original", "tok", "config")) or end_of_link == "folder"):
                    continue
                outside.mkdir()
                (outside / "file").write_bytes(b"not ours")
                (outside / "folder").mkdir()
                link = where / name
                link.parent.mkdir(parents=True)
                link.symlink_to(outside / end_of_link)
                before = snapshot(outside)
                keep = ["--preserve-high-precision", str(kept)] if where == kept else []
                result = run(command, model.folder, out, *options, *keep)
                check(snapshot(outside) == before, f"'{name}' led to a write outside ({options}): {result}")
                if result.status:
                    one_line(result, (2, 3, 4))
                elif where == out:
                    check_golden(out, model.golden)
                clear(out, kept, outside)
                counted()


def main() -> int:
    folder, extent = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    few = extent == "short"
    seed = int(os.environ.get("SEED", "1"))
    random.seed(seed)
    os.umask(0o022)
    os.environ.pop("TMPDIR", None)
    for command in COMMANDS:
        work = folder / command.name
        work.mkdir()
        begin("set-up")
        big = make_model(command, work / "model", *((3, 8) if few else (5, 16)))
        kills(command, big, work, 8 if few else 200)
        signals(command, big, work, 6 if few else 50)
        second_run(command, big, work)
        changed_input(command, big, work)
        same_places(command, work)
        small = make_model(command, work / "small-model", 3, 1)
        limits(command, small, work, few)
        streams(command, work)
        resume(command, small, work)
        other_jobs(command, small, work)
        manifests(command, small, work)
        planted_links(command, small, work, few)
        no_space(command, big, work)
    total = sum(counts.values())
    print("outside: " + ", ".join(f"{n} {name}" for name, n in counts.items()) +
          f": {total} disturbances, {n_broken} promises broken (SEED={seed})")
    return n_broken > 0 or total == 0


if __name__ == "__main__":
    sys.exit(main())
