# SPDX-License-Identifier: Apache-2.0
"""The codes that an interrupted compensation leaves in its output, damaged, or made by somebody who means harm: the next run
ends with the bytes of one that nothing disturbed, and leaves nothing hidden."""
import copy
import json
import os
import pathlib
import shutil
import subprocess
import time
import typing
import zlib

from runs import MANIFEST, SLOW, begin, check, clear, counted, end, files

OUT, STATE, ELSEWHERE = pathlib.Path("out"), pathlib.Path("state"), pathlib.Path("elsewhere")
RECORD = OUT / ".fp8conv.rounding.json"
STAGE = OUT / ".fp8conv.rounding-00001"
HUGE = 2 ** 62


def compact(value: object) -> str:
    """As jansson prints it: members sorted, 17 digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{compact(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text if set(text) & set(".e") else text + ".0"
    return json.dumps(value)


def start(command: list[str]) -> subprocess.Popen:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def leave(command: list[str], seen: pathlib.Path) -> None:
    """Kills a run when this file appears, and keeps what it left as STATE."""
    clear(STATE)
    for _ in range(50):
        process = start(command)
        until = time.monotonic() + 60
        while not seen.exists() and process.poll() is None and time.monotonic() < until:
            pass
        process.kill()
        end(process)
        if seen.exists() and RECORD.exists() and STAGE.exists():
            OUT.rename(STATE)
            return
        clear(OUT)
    raise AssertionError(f"'{seen}' is never seen while it is there")


def same_again(command: list[str], golden: dict[str, bytes], what: str) -> None:
    result = end(start(command))
    check(result == (0, b"", ""), f"{what}: {result}")
    found = {name: data for name, data in files(OUT).items() if name != MANIFEST}
    wrong = sorted(name for name in found.keys() | golden.keys() if found.get(name) != golden.get(name))
    check(not wrong, f"{what}: {wrong} are not as of an undisturbed run")
    left = sorted(path.name for path in OUT.rglob(".*"))
    check(not left, f"{what}: left behind: {left}")
    clear(OUT)
    counted()


def put(path: pathlib.Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def flip(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    put(path, bytes(data))


def choose_another() -> None:
    """Another shrink, where one is chosen, under the checksum of the record before."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    if "outcome" in record:
        record["outcome"] |= {"nearest": False, "rho": (record["outcome"]["rho"] + 1) % 3}
    RECORD.write_text(compact(record), encoding="utf-8")


def damages() -> dict[str, typing.Callable[[], object]]:
    return {
        "nothing": lambda: None,
        "a stage is missing": STAGE.unlink,
        "a stage is cut short": lambda: os.truncate(STAGE, STAGE.stat().st_size // 2),
        "a stage is longer": lambda: put(STAGE, STAGE.read_bytes() + b"x"),
        "a stage is empty": lambda: put(STAGE, b""),
        "a stage has another bit": lambda: flip(STAGE),
        "a stage of zeros": lambda: put(STAGE, bytes(STAGE.stat().st_size)),
        "two stages are missing": lambda: (STAGE.unlink(), OUT.joinpath(".fp8conv.rounding-00000").unlink()),
        "a stage is a link": lambda: (shutil.copy(STAGE, ELSEWHERE), STAGE.unlink(), STAGE.symlink_to("../elsewhere")),
        "a stage is a fifo": lambda: (STAGE.unlink(), os.mkfifo(STAGE)),
        "stages of a larger model": lambda: OUT.joinpath(".fp8conv.rounding-00099").write_bytes(b"x"),
        "a part of a stage": lambda: OUT.joinpath("..fp8conv.rounding-00099.partial").write_bytes(b"x"),
        "no record": RECORD.unlink,
        "the record has another choice": choose_another,
        "the record is a link": lambda: (RECORD.rename(ELSEWHERE), RECORD.symlink_to("../elsewhere")),
        "the record is a fifo": lambda: (RECORD.unlink(), os.mkfifo(RECORD)),
    }


def texts(record: dict) -> dict[str, bytes]:
    """Records that are no records."""
    whole = RECORD.read_bytes()
    numbers = {f"digit {i} is another": whole[:i] + (b"1" if whole[i:i + 1] != b"1" else b"2") + whole[i + 1:]
               for i in range(len(whole)) if whole[i:i + 1].isdigit()}
    return {"empty": b"", "cut short": whole[:len(whole) // 2], "not JSON": b"\xff\x00" * 100, "a list": b"[]", "null": b"null",
            "open brackets": b"[" * 1_000_000, "deep": b'{"stages":' * 100_000 + b"{}" + b"}" * 100_000,
            "too long": whole + b" " * (17 << 20), "of numbers": b'{"job": 1e999, "stages": 99999999999999999999}',
            "twice": whole + whole, "no crc32": compact(record).encode(),
            "many stages": compact(record | {"crc32": 0, "n_stages": HUGE}).encode()} | dict(list(numbers.items())[::7])


def changed(record: dict) -> typing.Iterator[tuple[str, dict]]:
    """Records of other contents, whose checksum is made to fit."""
    wrong = (None, True, -1, 0.5, HUGE, -HUGE, 1e308, "", "1", [], [1], {}, [[]] * 1000)

    def at(path: tuple[str, ...], value: object) -> tuple[str, dict]:
        new = copy.deepcopy(record)
        inner = new
        for key in path[:-1]:
            inner = inner[key]
        if value is KeyError:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        return f"{'.'.join(path)} is {str(value)[:40]}", new

    for value in (KeyError, *wrong):
        for path in (("job",), ("stages",), ("stages", "1"), ("stages", "1", "crc32"), ("outcome",), ("outcome", "rho"),
                     ("outcome", "nearest")):
            if all(key in record for key in path[:1]) and not (path[-1] == "nearest" and value is True):
                yield at(path, value)
        for path in (("stages", "1", "few"), ("stages", "1", "raised")):
            yield at(path, value)
            yield at(path, [value if value is not KeyError else HUGE] * 3)
    for key in ("7", "-1", "1 ", "18446744073709551617", "x" * 100_000):
        yield at(("stages", key), record["stages"]["1"])


def hostile(command: list[str], golden: dict[str, bytes], few: bool) -> None:
    record = json.loads((STATE / RECORD.name).read_text(encoding="utf-8"))
    wanted = record.pop("crc32")
    check(zlib.crc32(compact(record).encode()) == wanted, "the checksum of the record is not that of its members")
    for name, damage in damages().items():
        shutil.copytree(STATE, OUT, symlinks=True)
        damage()
        same_again(command, golden, name)
        check(not ELSEWHERE.exists() or ELSEWHERE.stat().st_size > 0, f"{name}: the file that a link led to was written")
        clear(ELSEWHERE)
    shutil.copytree(STATE, OUT)
    rows = texts(record)
    clear(OUT)
    rows |= {name: compact(new | {"crc32": zlib.crc32(compact(new).encode())}).encode() for name, new in changed(record)}
    for name in list(rows)[::8 if few else 1]:
        shutil.copytree(STATE, OUT)
        RECORD.write_bytes(rows[name])
        same_again(command, golden, f"record: {name}")


def undisturbed(command: list[str]) -> dict[str, bytes]:
    result = end(start(command))
    check(result == (0, b"", ""), f"undisturbed: {result}")
    found = {name: data for name, data in files(OUT).items() if name != MANIFEST}
    clear(OUT)
    return found


def stores(nearest: list[str], compensation: list[str], few: bool) -> None:
    """With some layers finished, and with the choice made."""
    begin("damaged codes")
    nearest = [*nearest, *SLOW]
    command = [*nearest, *compensation, "--passes", "4", "--seq-len", "40"]
    plain, golden = undisturbed(nearest), undisturbed(command)
    check(plain != golden, "compensation changes nothing")
    for seen in (OUT / ".fp8conv.rounding-00002", OUT / ".model.safetensors.partial"):
        leave(command, seen)
        hostile(command, golden, few)
        shutil.copytree(STATE, OUT)
        same_again([*nearest, "--restart"], plain, "another job")
    clear(STATE)
