# SPDX-License-Identifier: Apache-2.0
"""Holds man/fp8conv-json.5 against the objects that the program prints: every key is described, and back."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

FP8CONV = os.environ["FP8CONV"]
SAMPLES = pathlib.Path("sample_checkpoints").resolve()
wrong = []


def fp8conv(*args, status=0):
    """The last object on standard output, and on standard error."""
    done = subprocess.run([FP8CONV, *args], capture_output=True, text=True)
    if done.returncode != status:
        wrong.append(f"fp8conv {' '.join(args)}: exit status {done.returncode}: {done.stderr}")
    objects = [[line for line in text.splitlines() if line.startswith("{") and '"note": ' not in line]
               for text in (done.stdout, done.stderr)]
    return [json.loads(lines[-1]) if lines else {} for lines in objects]


def paths(value, path=""):
    """The paths of all values that hold no others: "tensors[].name"; lists of plain values count as one."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from paths(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(member, dict) for member in value):
        for member in value:
            yield from paths(member, path + "[]")
    else:
        yield path


def page_keys(name):
    """{subsection: its tags} of a command in fp8conv-json(5), and of CONVERSIONS where it refers to them; without a title: ""."""
    page = pathlib.Path("man/fp8conv-json.5").read_text()
    text = re.search(rf"^\.SH {name.upper()}\n(.*?)(?=^\.SH )", page, re.M | re.S).group(1)
    parts = re.split(r"^\.SS (.*)\n", text, flags=re.M)
    keys = {}
    for title, part in zip([""] + parts[1::2], parts[::2]):
        keys[title] = re.findall(r"^\.TP\n\.B (\S+)$", part, re.M)
        if ".BR CONVERSIONS" in part:
            keys[title] += page_keys("conversions")[title]
    return keys


def find_tag(path, tags):
    """The tag that describes a path: itself, or "libraries.*"."""
    for tag in tags:
        if path == tag.removesuffix("[]") or (tag.endswith(".*") and path.startswith(tag[:-1])):
            return tag
    return None


def check(name, tags, objects):
    tags = ["schema", *tags]
    printed = {path for value in objects for path in paths(value)}
    described = {find_tag(path, tags) for path in printed}
    for value in objects:
        if value.get("schema") != 1:
            wrong.append(f"{name}: an object without schema 1: {str(value)[:80]}")
    for path in sorted(printed):
        if not find_tag(path, tags):
            wrong.append(f"fp8conv-json.5, {name}, does not describe the key {path}")
    for tag in tags:
        holds = any(path.startswith((tag.removesuffix("[]") + "[", tag + ".")) for path in printed)
        if tag not in described and not holds:
            wrong.append(f"fp8conv-json.5, {name}, describes the key {tag}, which is not printed")
    if len(set(tags)) != len(tags):
        wrong.append(f"fp8conv-json.5, {name}, describes a key twice")


def check_conversion(name, model, out, *options, has=None):
    """has: the object that this job prints, and others do not: low_bit is null, the others are missing."""
    plan, _ = fp8conv(name, model, "-o", out, "--dry-run", "--json", *options)
    absent = [prefix for prefix in ("low_bit.", "keep", "rounding") if not has or not prefix.startswith(has)]
    absent += [] if plan.get("notes") else ["notes[]."]
    keys = {title: [tag for tag in tags if not tag.startswith(tuple(absent))] for title, tags in page_keys(name).items()}
    result, progress = fp8conv(name, model, "-o", out, "--json", "--progress=json", *options)
    again, _ = fp8conv(name, model, "-o", out, "--json", *options)
    if not again.get("resumed") or again.get("files_written") != 0:
        wrong.append(f"{name}: a finished job again: {again}")
    check(name, keys["Plan (\\-\\-dry\\-run)"], [plan])
    check(name, keys["Result"], [result, again])
    check(name, keys["Progress (\\-\\-progress=json)"], [progress])


def raise_scale(path):
    """The values of one scale in a file, times 2^10: a note."""
    data = bytearray(path.read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    name, tensor = next(item for item in json.loads(data[8:start]).items() if item[0].endswith("_scale_inv"))
    for at in range(start + tensor["data_offsets"][0], start + tensor["data_offsets"][1], 4):
        data[at:at + 4] = struct.pack("<f", 1024 * struct.unpack("<f", data[at:at + 4])[0])
    path.write_bytes(data)


def main():
    if not (SAMPLES / "tiny-moe/per-expert").exists():
        print("SKIPPED docs/json_keys: no sample_checkpoints/tiny-moe")
        return
    folder = pathlib.Path(tempfile.mkdtemp())
    moe, dense, out = str(SAMPLES / "tiny-moe/per-expert"), str(SAMPLES / "tiny-llama"), str(folder / "out")
    packed = str(folder / "packed")
    subprocess.run([sys.executable, "tests/cli/low_bit.py", "finite", "ct-mxfp4", packed], check=True)
    progress = "Progress (\\-\\-progress=json)"
    text = folder / "text.txt"
    text.write_text("A text that a model is calibrated with. " * 40)
    compensated = ["--rounding=compensated", f"--data={text}", "--seq-len=16", "--passes=4"]
    check_conversion("quantize", moe, out)
    check_conversion("quantize", dense, str(folder / "compensated"), *compensated, has="rounding")
    check_conversion("quantize", packed, str(folder / "unpacked"), "--requantize", has="low_bit")
    check_conversion("repack", out, str(folder / "repacked"), "--format=compressed-tensors")
    check_conversion("dequantize", out, str(folder / "dequantized"))

    keys = page_keys("verify")
    good, told = fp8conv("verify", out, "--source", moe, "--json", "--progress=json")
    raise_scale(next(pathlib.Path(out).glob("*.safetensors")))
    noted, _ = fp8conv("verify", out, "--json", status=1)
    (folder / "out/config.json").write_text("{}")
    bad, _ = fp8conv("verify", out, "--json", status=1)
    packed_good, _ = fp8conv("verify", str(folder / "unpacked"), "--source", packed, "--json")
    moved, _ = fp8conv("verify", str(folder / "compensated"), "--source", dense, "--json")
    check("verify", keys["Result"], [good, packed_good, moved, noted, bad])
    check("verify", keys[progress], [told])

    keys = page_keys("diff")
    (folder / "copy").mkdir()
    for file in pathlib.Path(dense).iterdir():
        if not file.name.startswith("tokenizer"):
            shutil.copy(file, folder / "copy" / file.name)
    differing, told = fp8conv("diff", moe, str(folder / "repacked"), "--json", "--progress=json", status=1)
    files, _ = fp8conv("diff", dense, str(folder / "copy"), "--json", status=1)
    check("diff", keys["Result"], [differing, files])
    check("diff", keys[progress], [told])

    keys = page_keys("delta")
    delta = str(folder / "D.safetensors")
    made, told = fp8conv("delta", dense, str(folder / "copy"), "-o", delta, "--json", "--progress=json")
    check("delta", keys["Result"], [made, fp8conv("apply", dense, delta, "-o", str(folder / "applied"), "--json")[0]])
    check("delta", keys[progress], [told])
    check("delta", keys["Result"], [fp8conv("verify", delta, "--base", dense, "--json")[0]])
    fp8conv("delta", moe, out, "-o", delta)
    check("inspect", page_keys("inspect")["Delta"], [fp8conv("inspect", delta, "--json")[0]])

    keys = page_keys("inspect")
    stats, told = fp8conv("inspect", str(folder / "repacked"), "--stats", "--json", "--progress=json")
    packed, _ = fp8conv("inspect", packed, "--json")
    (folder / "repacked/model-00001-of-00002.safetensors").unlink()
    part, _ = fp8conv("inspect", str(folder / "repacked"), "--json")
    check("inspect", keys["Checkpoint"], [stats, packed, part])
    check("inspect", keys[progress], [told])
    amax, _ = fp8conv("inspect", str(SAMPLES / "amax/tiny-llama-1.amax"), "--json")
    fp8conv("calibrate", dense, "--data", str(text), "--seq-len", "16", "--passes", "2", "-o", str(folder / "r.amax"), "--ranks", "1/2")
    share, _ = fp8conv("inspect", str(folder / "r.amax.1-of-2"), "--json")
    check("inspect", keys["Checkpoint"] + keys["Amax history, in addition"], [stats, packed, part, amax, share])

    keys = page_keys("calibrate")
    arguments = ["calibrate", dense, "--data", str(text), "--seq-len", "16", "--passes", "2"]
    check("calibrate", keys["Plan (\\-\\-dry\\-run)"], [fp8conv(*arguments, "--dry-run", "--json")[0]])
    result, told = fp8conv(*arguments, "-o", str(folder / "s.amax"), "--json", "--progress=json")
    check("calibrate", keys["Result"], [result])
    check("calibrate", keys[progress], [told])

    keys = page_keys("eval")
    whole = str(folder / "whole")
    fp8conv("quantize", dense, "-o", whole)
    arguments = ["eval", whole, "--source", dense, "--data", str(text), "--seq-len", "16", "--passes", "2"]
    check("eval", keys["Plan (\\-\\-dry\\-run)"], [fp8conv(*arguments, "--dry-run", "--json")[0]])
    result, told = fp8conv(*arguments, "--by-layer", "--json", "--progress=json")
    check("eval", keys["Result"], [result])
    check("eval", keys[progress], [told])

    (folder / "eval.json").write_text(json.dumps(result))
    arguments = ["report", whole, "--source", dense, "--eval", str(folder / "eval.json"), "-o", str(folder / "report"), "--json"]
    check("report", page_keys("report")[""], [fp8conv(*arguments, "--dry-run")[0], fp8conv(*arguments)[0],
                                              fp8conv("report", whole, "-o", str(folder / "report"), "--json")[0]])

    keys = page_keys("sensitivity")
    arguments = ["sensitivity", dense, "--data", str(text), "--seq-len", "16", "--passes", "2"]
    check("sensitivity", keys["Plan (\\-\\-dry\\-run)"], [fp8conv(*arguments, "--dry-run", "--json")[0]])
    table = str(folder / "S.json")
    result, told = fp8conv(*arguments, "-o", table, "--json", "--progress=json")
    check("sensitivity", keys["Result"], [result])
    check("sensitivity", keys[progress], [told])
    check("sensitivity", keys["Choice (\\-\\-from)"],
          [fp8conv("sensitivity", "--from", table, "--budget", "20%", "--dry-run", "--json")[0]])

    histories = [str(SAMPLES / f"amax/tiny-llama-{i}.amax") for i in (1, 2)]
    check("merge", page_keys("merge")[""], [fp8conv("merge", *histories, "-o", str(folder / "m.amax"), "--json")[0]])

    for name in ("recipes", "formats", "families", "version"):
        check(name, page_keys(name)[""], [fp8conv(name, "--json")[0]])
    shutil.rmtree(folder)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))


main()
