# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in the middle of a job of several files: it says what is finished, and the same command finishes the rest."""
import json
import os
import pathlib
import subprocess
import sys

from terminal import Terminal

FP8CONV, CLI = os.environ["FP8CONV"], os.environ["CLI"]
JOB = [FP8CONV, "quantize", "m", "-o", "out", "--backend", "reference", "--threads", "1"]


def finished():
    return sorted(path.name for path in pathlib.Path("out").glob("model-*.safetensors"))


subprocess.run([sys.executable, CLI + "/checkpoint.py", "big", "m", "4", "128"], check=True)
terminal = Terminal(*JOB).emulate()
while not finished() and terminal.read():
    pass
terminal.type("\x03")
status = terminal.finish()
kept = finished()
told = f"fp8conv quantize: interrupted by signal 2: {len(kept)} of 4 files are finished: run the same command to continue"
if status != 130 or "".join(terminal.display()[1:]).replace(" ", "") != told.replace(" ", ""):
    print(f"status {status}, {len(kept)} files, and on the screen:", *terminal.display()[1:], sep="\n  ")
if kept != [f"model-{i + 1:05}-of-00004.safetensors" for i in range(len(kept))] or not 0 < len(kept) < 4:
    print("finished:", *kept)

inodes = [os.stat("out/" + name).st_ino for name in kept]
result = json.loads(subprocess.run(JOB + ["--json"], check=True, capture_output=True).stdout)
if result["files_found"] != len(kept) or result["files_written"] != 4 - len(kept) or len(finished()) != 4:
    print("the same command again:", result)
if inodes != [os.stat("out/" + name).st_ino for name in kept]:
    print("finished files were written again")
subprocess.run(JOB[:2] + ["m", "-o", "whole"], check=True, capture_output=True)
for name in finished():
    if pathlib.Path("out", name).read_bytes() != pathlib.Path("whole", name).read_bytes():
        print(name, "is not that of a job in one go")
