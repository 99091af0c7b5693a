# SPDX-License-Identifier: Apache-2.0
"""Input that changes while it is read, and input that is the output."""
import os
import pathlib
import shutil
import signal
import subprocess

from runs import (
    Command, Model, ONE, SHARDS, SLOW, begin, check, check_golden, check_names, clear, counted, end,
    make_sample, no_partials, one_line, partial, run, snapshot, start, stop, wait_for
)


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


def stopped_at(command: Command, source: pathlib.Path, out: pathlib.Path, path: pathlib.Path, *options: str) -> subprocess.Popen:
    """A run that is stopped while it writes path; on a busy machine one may get past that before it is stopped."""
    for _ in range(50):
        process = start(command, source, out, *SLOW, *options)
        if wait_for(path, process):
            stop(process)
            if path.exists():
                return process
            process.send_signal(signal.SIGCONT)
        end(process)
        clear(out)
    raise AssertionError(f"'{path}' is never seen while it is written")


def changed_input(command: Command, model: Model, work: pathlib.Path) -> None:
    """While it is read: the shard that is being read, and one whose turn comes later."""
    begin("changed input")
    out, copy = work / "out", work / "copy"
    for change in (cut, rewrite, replace):
        for shard in (model.shards[0], model.shards[-1]):
            clear(copy)
            shutil.copytree(model.folder, copy)
            process = stopped_at(command, copy, out, partial(out, model.shards[0]))
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
    # Between its conversion and its SHA-256.
    for change in (rewrite, replace):
        shutil.copytree(model.folder, copy)
        process = stopped_at(command, copy, out, partial(out, model.shards[-1]), "--manifest")
        change(copy / model.shards[0])
        process.send_signal(signal.SIGCONT)
        one_line(end(process), (3,), f"{model.shards[0]}' changed while it was read")
        counted()
        clear(out, copy)


def same_places(command: Command, work: pathlib.Path) -> None:
    begin("in == out")
    model = make_sample(command, SHARDS, work / "same")
    one = make_sample(command, ONE, work / "one")
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
