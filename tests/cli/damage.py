# SPDX-License-Identifier: Apache-2.0
"""Writes the checkpoints of releases.py, damages them, and asks `verify` what it finds.

A damage is (what, kind of problem, change): change(config, tensors) alters what the release says.  Weights are random codes of
the whole range, scales are small and positive; the members of a fused set share theirs where there is one for a tensor.
"""
import json
import math
import os
import random
import re
import subprocess

import checkpoint

WIDTH = {"BF16": 2, "F32": 4, "U8": 1, "I8": 1, "I32": 4, "I64": 8, "F8_E4M3": 1, "F8_E8M0": 1}
NO_NAN = bytes(c - 1 if c & 0x7F == 0x7F else c for c in range(256))


def plain(name, scales=r"\.(weight_scale_inv|weight_scale|scale|input_scale|activation_scale|qscale_weight|qscale_act)$"):
    """The weight in BF16, without its scales, and no other word about it."""
    stem = name.removesuffix(".weight")

    def change(config, tensors):
        assert name in tensors, name
        tensors[name] = ("BF16", tensors[name][1])
        for t in [t for t in tensors if t.startswith(stem) and re.fullmatch(scales, t[len(stem):])]:
            del tensors[t]
    return f"{name} in BF16", "dtype-mismatch", change


def without(name, kind="scale-missing"):
    return f"no {name}", kind, lambda config, tensors: tensors.pop(name)


def reshaped(name, shape, kind="scale-shape"):
    def change(config, tensors):
        tensors[name] = (tensors[name][0], shape)
    return f"{name} as {shape}", kind, change


def unlisted(entry, key="ignore", kind="dtype-mismatch"):
    return f"{entry} not in the list", kind, lambda config, tensors: config["quantization_config"][key].remove(entry)


def listed(entry, key="ignore", kind="dtype-mismatch"):
    return f"{entry} in the list", kind, lambda config, tensors: config["quantization_config"][key].append(entry)


def top_level(entry):
    """A module in high precision whose name is the end of FP8 modules' names."""
    def change(config, tensors):
        tensors[entry + ".weight"] = ("BF16", [128, 128])
        config["quantization_config"]["modules_to_not_convert"].append(entry)
    return f"a module {entry} beside {entry} in other names", "config-ignore", change


# ---------------------------------------------------------------- writing and asking

def values(name, dtype, n, rng):
    if dtype == "F8_E4M3":
        return rng.randbytes(n).translate(NO_NAN)
    if dtype == "F8_E8M0":
        return bytes(rng.choice((117, 118, 119)) for _ in range(n))
    if dtype in ("BF16", "F32"):
        scale = re.search(r"scale", name)
        one = n <= 1
        numbers = [2.0 ** -9 if one else 2.0 ** rng.choice((-9, -10)) if scale else rng.choice((-1, 1)) * 2.0 ** rng.randrange(-9, -3) for _ in range(min(n, 4096))]
        raw = checkpoint.pack(dtype, numbers)
        return (raw * (n // max(len(numbers), 1) + 1))[:n * WIDTH[dtype]]
    return rng.randbytes(n * WIDTH[dtype])


def write(folder, content, tensors):
    folder.mkdir(parents=True)
    rng = random.Random(1)
    made = {name: (dtype, shape, values(name, dtype, math.prod(shape), rng)) for name, (dtype, shape) in tensors.items()}
    checkpoint.write(folder / "model.safetensors", made, {"format": "pt"}, 8)
    for file, text in (content if any(name.endswith(".json") for name in content) else {"config.json": content}).items():
        (folder / file).write_text(json.dumps(text, indent=1))


def verify(folder, *options):
    done = subprocess.run([os.environ["FP8CONV"], "verify", folder, "--json", *options], capture_output=True, text=True)
    found = json.loads(done.stdout)["problems"] if done.stdout else [{"kind": "none", "message": done.stderr}]
    return done.returncode, found


def main_config(content):
    return content.get("config.json", content)


def check(releases, tmp):
    for name, function in releases.items():
        content, tensors, engines, _ = function()
        write(tmp / name, content, tensors)
        for options in ((), *(("--target", e) for e in engines)):
            status, found = verify(tmp / name, *options)
            if status:
                print(f"{name} {' '.join(options)}: exit status {status}", *(f"  {p['kind']}: {p['message']}" for p in found[:6]), sep="\n")
        for number in range(len(function()[3])):
            content, tensors, _, damages = function()
            what, kind, change = damages[number]
            change(main_config(content), tensors)
            write(tmp / f"{name}-{number}", content, tensors)
            status, found = verify(tmp / f"{name}-{number}")
            if status != 1 or kind not in {p["kind"] for p in found}:
                print(f"{name}, {what}: exit status {status}, not {kind}", *(f"  {p['kind']}: {p['message']}" for p in found[:6]), sep="\n")
