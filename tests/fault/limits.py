# SPDX-License-Identifier: Apache-2.0
"""What the system refuses: space, memory, descriptors, long files; standard output that is full, closed or left, and standard
input that ends early."""
import contextlib
import ctypes
import json
import os
import pathlib
import resource
import signal
import subprocess
import typing

from runs import (
    Command, FP8CONV, MANIFEST, Model, ONE, SLOW, begin, begin_limits, check, check_again, check_golden,
    check_names, clear, counted, end, files, make_big, make_sample, no_partials, one_line, partial,
    run, skip, start, stop, wait_for
)


def limited(which: int, n: int) -> typing.Callable[[], None]:
    return lambda: resource.setrlimit(which, (n, n))


def limits(command: Command, model: Model, work: pathlib.Path, few: bool) -> None:
    """Files too long, memory, descriptors: done, or status 4 and one line."""
    out = work / "out"
    largest = max(map(len, model.golden.values()))
    step = 4 if few else 1
    memory = ("out of memory", "Cannot allocate memory")      # of ours; of the C library, with a file's name
    little = ["--threads", "1", "--max-memory", "32M"]
    rows = [("RLIMIT_FSIZE", resource.RLIMIT_FSIZE, [0, 1, 1000, 5000, largest // 2, largest - 1], ("File too large",), []),
            ("RLIMIT_AS", resource.RLIMIT_AS, [n << 20 for n in range(16, 280, 8 * step)], memory, []),
            ("RLIMIT_AS", resource.RLIMIT_AS, [n << 16 for n in range(128, 480, 2 * step)], memory, little),
            ("RLIMIT_NOFILE", resource.RLIMIT_NOFILE, list(range(3, 20, 1 if step == 1 else 2)), ("Too many open files",), [])]
    for name, which, values, words, options in begin_limits(rows):
        for value in values:
            able = subprocess.run([FP8CONV, "--version"], capture_output=True, preexec_fn=limited(which, value))
            result = run(command, model.folder, out, *(options or ["--threads", "2"]), preexec_fn=limited(which, value))
            if able.returncode and which != resource.RLIMIT_FSIZE and result.status:
                continue                                      # the program cannot even be loaded
            if result.status == 0:
                check(result.err == "", f"at {value}: {result.err}")
                check_golden(out, model.golden)
            else:
                one_line(result, (4,), next((word for word in words if word in result.err), words[0]))
                check_names(out, model.golden)
                if "metadata" not in result.err:              # that one ends the program on the spot
                    no_partials(out)
            check_again(command, model.folder, out, model.golden)
            clear(out)
            counted()


def small_disk(folder: pathlib.Path) -> bool:
    """Makes the folder a file system of 16 MiB; False: it takes root."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() or libc.unshare(0x20000) or subprocess.run(
            ["mount", "--make-rprivate", "/"], capture_output=True).returncode or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], capture_output=True).returncode:
        skip("mounting a tmpfs takes root")
        return False
    return True


def no_space(command: Command, work: pathlib.Path) -> None:
    """A file system of 16 MiB: too small from the start, and filled by others while we write."""
    begin("no space")
    small = work / "small"
    if not small_disk(small):
        return
    large = work / "large"
    make_big(command, large, 2, 20)
    one_line(run(command, large, small / "out"), (4,), "not enough space", "needed", "free", "missing")
    check(not any(small.iterdir()), "a refusal left something")
    counted()
    source = work / "fits"
    make_big(command, source, 3, 4)
    run(command, source, work / "out")
    golden = files(work / "out")
    clear(work / "out")
    for shard in [name for name in golden if name.endswith(".safetensors")]:
        out = small / "out"
        process = start(command, source, out, *SLOW)
        if wait_for(partial(out, shard), process):
            stop(process)
            fill(small / "filler")
            process.send_signal(signal.SIGCONT)
            one_line(end(process), (4,), "No space left on device")
            no_partials(out)
            check_names(out, golden)
            record = json.loads((out / MANIFEST).read_text()) if (out / MANIFEST).exists() else {"shards": []}
            done = {shard["name"]: (out / shard["name"]).stat().st_ino for shard in record["shards"]}
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
    one = make_sample(command, ONE, small.with_name("one"))
    for out in (small / "there", small / "new", small / "new.safetensors"):
        one_line(run(command, one if out.suffix else source, out), (4,), "Read-only file system")
        counted()
    clear(one)


def streams(command: Command, work: pathlib.Path) -> None:
    begin("streams")
    folder = make_sample(command, ONE, work / "one")
    one, out = folder / "model.safetensors", work / "out"
    wanted = run(command, one, "-").out
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
    clear(folder)
