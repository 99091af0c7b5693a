# SPDX-License-Identifier: Apache-2.0
"""Checks of an output directory.  Each yields what is wrong, in words; test_damage.py shows that
each finds what it is for."""
import fnmatch
import json
import pathlib
from collections.abc import Iterator

import numpy as np
import safetensors

from cases import Case
from checkpoint import INDEX, Tensor, read_checkpoint, read_file, shard_names
from expected import Expected, compressed_tensors_config, hf_config, modelopt_config

# How safetensors.serialize() spells the types of our files.
SPELLING = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "U8": "uint8",
            "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
WEIGHTS = ("*.safetensors", "*.bin", "*.pth", INDEX)
OURS = ("config.json", "hf_quant_config.json", "fp8conv*")


def without_metadata(data: bytes) -> bytes:
    """A file less its __metadata__, whose keys the package writes in another order every time."""
    key = b'"__metadata__":'
    start = data.index(key) + len(key)
    text = data[start:8 + int.from_bytes(data[:8], "little")].decode("utf-8")
    _, end = json.JSONDecoder().raw_decode(text)
    return data[:start] + text[end:].encode("utf-8") + data[start + len(text.encode("utf-8")):]


def container(out: pathlib.Path) -> Iterator[str]:
    """The safetensors package reads every file, and would have written the same bytes."""
    for file in shard_names(out):
        data = (out / file).read_bytes()
        tensors = {name: t for name, t in safetensors.deserialize(data)}
        buffers = {name: np.frombuffer(t["data"], np.uint8) for name, t in tensors.items()}
        specs = {name: safetensors.TensorSpec(dtype=SPELLING[t["dtype"]], shape=t["shape"],
                                              data_ptr=buffers[name].ctypes.data, data_len=buffers[name].nbytes)
                 for name, t in tensors.items()}
        with safetensors.safe_open(out / file, "np") as opened:
            metadata = opened.metadata() or {}
        if metadata.get("format") != "pt":
            yield f"{file}: metadata {metadata}"
        again = safetensors.serialize(specs, metadata)
        if again != data and (len(metadata) < 2 or without_metadata(again) != without_metadata(data)):
            yield f"{file}: safetensors.serialize() gives other bytes"


def metadata(out: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    for file in shard_names(out):
        ours, theirs = read_file(out / file)[0], read_file(source / file)[0]
        if ours != {**theirs, "format": "pt"}:
            yield f"{file}: metadata {ours}, the source has {theirs}"


def difference(name: str, found: Tensor, wanted: Tensor) -> str | None:
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{name}: {found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
    if np.array_equal(found.data, wanted.data):
        return None
    a, b = found.array(), wanted.array()
    if a.dtype == np.float32:
        a, b = a.view(np.uint32), b.view(np.uint32)
    where = np.argwhere(np.atleast_1d(a != b))
    first = tuple(where[0])
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    return (f"{name}: {len(where)} of {a.size} elements differ, first {list(map(int, first))}: "
            f"{a[first]:#x}, expected {b[first]:#x}")


def tensors(out: pathlib.Path, expected: Expected) -> Iterator[str]:
    """Names, files, types, shapes, and every byte."""
    found = {name: (file, tensor) for file, name, tensor in read_checkpoint(out)}
    for name in sorted(found.keys() ^ expected.tensors.keys()):
        yield f"{name}: {'not expected' if name in found else 'missing'}"
    for name in found.keys() & expected.tensors.keys():
        file, tensor = found[name]
        if file != expected.files[name]:
            yield f"{name}: in {file}, expected {expected.files[name]}"
        if problem := difference(name, tensor, expected.tensors[name]):
            yield problem


def index(out: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    """Every tensor mapped to the file that has it; the sum of their bytes; the source's file names."""
    if shard_names(out) != shard_names(source):
        yield f"files {shard_names(out)}, the source has {shard_names(source)}"
    if (out / INDEX).exists() != (source / INDEX).exists():
        yield "an index where the source has none, or none where it has one"
    if not (out / INDEX).exists():
        return
    content = json.loads((out / INDEX).read_text(encoding="utf-8"))
    found = {name: (file, tensor.data.nbytes) for file, name, tensor in read_checkpoint(out)}
    if content["weight_map"] != {name: file for name, (file, _) in found.items()}:
        yield "weight_map is not what the files hold"
    if content["metadata"]["total_size"] != sum(size for _, size in found.values()):
        yield f"total_size {content['metadata']['total_size']}"


def edited(ours: str, theirs: str) -> Iterator[str]:
    """One piece was put into the text, in the place of nothing or of null; the rest is as it was."""
    start = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    rest = min(len(ours), len(theirs)) - start
    end = next((i for i in range(rest) if ours[-1 - i] != theirs[-1 - i]), rest)
    replaced = theirs[start:len(theirs) - end]
    if replaced not in ("", "null"):
        yield f"config.json: {replaced[:60]!r} was replaced"
    try:
        before, after = json.loads(theirs), json.loads(ours)
    except json.JSONDecodeError as error:
        yield f"config.json: {error}"
        return
    for content in (before, after):
        content.pop("quantization_config", None)
    if list(before.items()) != list(after.items()):
        yield "config.json: other keys changed"


def config(out: pathlib.Path, source: pathlib.Path, case: Case, expected: Expected) -> Iterator[str]:
    ours = (out / "config.json").read_bytes().decode("utf-8")
    yield from edited(ours, (source / "config.json").read_bytes().decode("utf-8"))
    found = json.loads(ours).get("quantization_config")
    hf_quant_config = out / "hf_quant_config.json"
    if hf_quant_config.exists() != (case.format == "modelopt"):
        yield "hf_quant_config.json: there, or not there"
    if len(set(expected.recipes.values())) > 1:
        kept = found.get("ignore")          # its groups are for test_decompress.py
        if kept != expected.kept:
            yield f"ignore {kept}, expected {expected.kept}"
        return
    if case.format == "hf":
        wanted = hf_config(case, expected.kept)
    elif case.format == "compressed-tensors":
        wanted = compressed_tensors_config(case, expected.kept)
    else:
        wanted, other = modelopt_config(case, expected.kept, found["producer"]["version"])
        if json.loads(hf_quant_config.read_text(encoding="utf-8")) != other:
            yield f"hf_quant_config.json: expected {other}"
    for key in found.keys() | wanted.keys():
        if key not in found or key not in wanted or found[key] != wanted[key]:
            yield f"quantization_config.{key}: {found.get(key, 'missing')}, expected {wanted.get(key, 'none')}"


def others(out: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    """Everything beside the weights is copied, weights in other containers are not."""
    def files(folder: pathlib.Path) -> dict[str, pathlib.Path]:
        return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()
                and not any(fnmatch.fnmatch(path.name, pattern) for pattern in WEIGHTS + OURS)}

    ours, theirs = files(out), files(source)
    for name in sorted(ours.keys() ^ theirs.keys()):
        yield f"{name}: {'not in the source' if name in ours else 'not copied'}"
    for name in ours.keys() & theirs.keys():
        if ours[name].read_bytes() != theirs[name].read_bytes():
            yield f"{name}: not as in the source"
    stray = {path.name for pattern in WEIGHTS[:3] for path in out.rglob(pattern)} - set(shard_names(out))
    for name in sorted(stray):
        yield f"{name}: copied, and is no shard"


def everything(out: pathlib.Path, source: pathlib.Path, case: Case, expected: Expected) -> Iterator[str]:
    yield from container(out)
    yield from metadata(out, source)
    yield from tensors(out, expected)
    yield from index(out, source)
    yield from config(out, source, case, expected)
    yield from others(out, source)
