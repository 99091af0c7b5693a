# SPDX-License-Identifier: Apache-2.0
"""Standard output that is full, closed or left, standard input that ends early."""
import os
import pathlib
import subprocess

from runs import Command, ONE, begin, check, clear, counted, end, make_sample, one_line, run, start


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
