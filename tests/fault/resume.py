# SPDX-License-Identifier: Apache-2.0
"""Output that holds this job, unfinished or damaged, or another one."""
import os
import pathlib
import resource
import shutil
import typing

from inputs import cut, replace, rewrite
from limits import limited
from runs import (
    Command, INDEX, MANIFEST, Model, begin, check, check_again, check_golden, check_refused, clear, counted, one_line, run
)


def resume(command: Command, model: Model, work: pathlib.Path) -> None:
    begin("resume")
    out, kept = work / "out", work / "kept"
    run(command, model.folder, out)
    for damage, redone in ((lambda shard: shard.unlink(), True), (cut, True),
                           (lambda shard: open(shard, "ab").write(b"x"), True),
                           (lambda shard: (rewrite(shard), (out / "config.json").unlink()), True),
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

    def flip() -> None:
        data = bytearray(shard.read_bytes())
        data[-1] ^= 0x40
        shard.write_bytes(data)

    rows: list[tuple[str, typing.Callable[[], object], list[str]]] = [
        ("other options", lambda: None, command.other),
        ("contents", flip, []),
        ("size", grow, []),
        ("time", lambda: os.utime(shard, (1, 1)), []),
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
        check_refused(name, command, copy, out, *options, statuses=(2,), words=("another job", "--restart"))
        check(run(command, copy, out, "--restart", *options) == (0, b"", ""), f"{name}: --restart failed")
        if not options and change is not flip:
            check_golden(out, model.golden, manifest=False)
        clear(out, copy)
        counted()

    # The same contents and time under another inode or change time are the same job, finished or not.
    for change in (lambda: os.utime(shard, ns=(1, shard.stat().st_mtime_ns)), lambda: replace(shard)):
        for missing in (False, True):
            shutil.copytree(model.folder, copy)
            shard = copy / model.shards[0]
            run(command, copy, out)
            change()
            if missing:
                (out / model.shards[-1]).unlink()
            check_again(command, copy, out, model.golden, manifest=False)
            clear(out, copy)
            counted()
