# SPDX-License-Identifier: Apache-2.0
"""What others may have put into the output: manifests, and links that lead out of it."""
import os
import pathlib

from runs import (
    Command, INDEX, MANIFEST, Model, begin, check, check_again, check_golden, clear, counted,
    one_line, run, snapshot
)


def manifests(command: Command, model: Model, work: pathlib.Path) -> None:
    """What may lie there instead of a manifest: one line and nothing touched, or, where the job is told, the golden bytes."""
    begin("manifest")
    out, victim = work / "out", work / "victim"
    run(command, model.folder, out)
    good = (out / MANIFEST).read_text(encoding="utf-8")
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
        (out / MANIFEST).write_text(good.replace(shards, text), encoding="utf-8")
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
    others = {name: out / name for name in ("notes.txt", "model.bin", "another.safetensors")}
    for name, path in others.items():                         # of no job, or of another: not for --restart to remove
        path.write_bytes(b"not ours")
        (out / MANIFEST).write_text(f'{{"shards": [{{"name": "{name}"}}]}}', encoding="utf-8")
        before = snapshot(out)
        result = run(command, model.folder, out, "--restart")
        if path.suffix == ".safetensors":                     # which would be loaded with ours
            one_line(result, (2,), name, "another job")
            check(snapshot(out) == before, f"{name}: a refusal changed something")
        check(path.read_bytes() == b"not ours", f"--restart removed '{name}'")
        path.unlink()
        check_again(command, model.folder, out, model.golden, "--restart")
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
