# SPDX-License-Identifier: Apache-2.0
"""What others may have put into the output: manifests, and links that lead out of it."""
import os
import pathlib

from runs import (
    Command, INDEX, MANIFEST, Model, begin, check, check_again, check_golden, check_refused, clear, counted, one_line,
    run, snapshot
)


def manifests(command: Command, model: Model, work: pathlib.Path) -> None:
    """What may lie there instead of a manifest: one line and nothing touched, or, where the job is told, the golden bytes."""
    begin("manifest")
    out, victim = work / "out", work / "victim"
    run(command, model.folder, out)
    good = (out / MANIFEST).read_text(encoding="utf-8")
    victim.write_bytes(b"not ours")
    damaged_manifests(command, model, out, good)
    manifests_leading_out(command, model, out, victim)
    manifests_of_others(command, model, out)
    no_files(command, model, out, victim)
    clear(out, victim)


def damaged_manifests(command: Command, model: Model, out: pathlib.Path, good: str) -> None:
    """good: this job's own manifest."""
    shards = good[good.index('"shards": ['):good.index('"finished"')]
    bad = [b"", b"\0", b"\xff\xfe garbage", b"[]", b"{}", b"5", b"null", b'"x"', b"{", b'{"shards": {}}', b'{"shards": []}',
           b"[" * 100000, b'{"shards": [], "shards": []}', b'{"shards": ' + b"9" * 5000 + b"}",
           good.replace(shards, '"shards": 5, ').encode(), good.replace(shards, '"shards": null, ').encode(),
           good.replace(shards, "").encode(), good.encode()[:-20]]
    for data in bad:
        (out / MANIFEST).write_bytes(data)
        check_refused(data[:40], command, model.folder, out, statuses=(2, 3), words=("--restart",))
        check_again(command, model.folder, out, model.golden, "--restart")
        counted()
    for text in ('"shards": [], ', '"shards": [5, null, {}, {"name": 7}, {"name": "x"}, []], '):
        (out / MANIFEST).write_text(good.replace(shards, text), encoding="utf-8")
        check_again(command, model.folder, out, model.golden, manifest=False)
        counted()


def plant_shard(out: pathlib.Path, name: str) -> None:
    """A manifest that lists this shard alone."""
    (out / MANIFEST).write_text(f'{{"shards": [{{"name": "{name}"}}]}}', encoding="utf-8")


def manifests_leading_out(command: Command, model: Model, out: pathlib.Path, victim: pathlib.Path) -> None:
    """Names of shards that are paths: nothing at their end is removed."""
    for name in ("../victim", "..", ".", "", str(victim), "original"):
        plant_shard(out, name)
        result = run(command, model.folder, out, "--restart")
        check(result == (0, b"", "") or (result.status in (2, 3, 4) and result.err.count("\n") == 1), f"{name}: {result}")
        check(victim.exists() and victim.read_bytes() == b"not ours", f"--restart followed '{name}' out of the folder")
        clear(out)
        run(command, model.folder, out)
        counted()


def manifests_of_others(command: Command, model: Model, out: pathlib.Path) -> None:
    """Files of no job, or of another: not for --restart to remove."""
    for name in ("notes.txt", "model.bin", "another.safetensors"):
        path = out / name
        path.write_bytes(b"not ours")
        plant_shard(out, name)
        if path.suffix == ".safetensors":                     # which would be loaded with ours
            check_refused(name, command, model.folder, out, "--restart", statuses=(2,), words=(name, "another job"))
        else:
            run(command, model.folder, out, "--restart")
        check(path.read_bytes() == b"not ours", f"--restart removed '{name}'")
        path.unlink()
        check_again(command, model.folder, out, model.golden, "--restart")
        counted()


def no_files(command: Command, model: Model, out: pathlib.Path, victim: pathlib.Path) -> None:
    """What is no plain file under the manifest's name."""
    make = {"a link": lambda p: p.symlink_to(victim), "a link to nowhere": lambda p: p.symlink_to("nowhere"),
            "a loop": lambda p: p.symlink_to(p.name), "a FIFO": os.mkfifo, "a folder": os.mkdir,
            "a device": lambda p: p.symlink_to("/dev/zero")}
    for name, place in make.items():
        (out / MANIFEST).unlink()
        place(out / MANIFEST)
        check_refused(name, command, model.folder, out, statuses=(3,), words=(MANIFEST,))
        if name == "a folder":
            one_line(run(command, model.folder, out, "--restart"), (4,), MANIFEST)
            (out / MANIFEST).rmdir()
        check_again(command, model.folder, out, model.golden, "--restart")
        check(victim.read_bytes() == b"not ours", f"{name}: its end was written")
        counted()


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
            for where, options in ((out, []), (out, ["--restart"]), (kept, []))[:3 if command.preserves else 2]:
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
