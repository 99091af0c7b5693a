# SPDX-License-Identifier: Apache-2.0
"""apply_delta.py OLD D.safetensors NEW: what `fp8conv apply` does, in numpy, as man 7 fp8conv-formats describes it."""
import json, pathlib, shutil, sys
import numpy as np, zstandard
from safetensors.numpy import load_file

def tensors(start):  # of the beginning of a safetensors file, by their offsets
    header = json.loads(start[8:])
    return sorted(((n, t) for n, t in header.items() if n != "__metadata__"), key=lambda item: item[1]["data_offsets"])

def frames(blob, sizes):
    ends = np.cumsum(sizes)
    return [zstandard.ZstdDecompressor().decompress(bytes(blob[end - size:end])) for end, size in zip(ends, sizes)]

old, delta, new = pathlib.Path(sys.argv[1]), load_file(sys.argv[2]), pathlib.Path(sys.argv[3])
BITS = {"F4": 8, "F6_E2M3": 8, "F6_E3M2": 8, "BF16": 16, "F16": 16, "I16": 16, "U16": 16, "F32": 32, "I32": 32, "U32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64}
base = {}
for path in old.glob("*.safetensors"):
    data = np.memmap(path, np.uint8, "r")
    start = 8 + int(data[:8].view("<u8")[0])
    base |= {n: data[start + t["data_offsets"][0]:start + t["data_offsets"][1]] for n, t in tensors(bytes(data[:start]))}
about = json.loads(frames(delta["about"], [len(delta["about"])])[0])
texts = iter(frames(delta["texts"], [f["frame"] for f in about["weights"] + about["files"] if "frame" in f]))
rows = {}
for (tensor, chunk, kind, count, _), frame in zip(delta["table"].tolist(), frames(delta["changes"], delta["table"][:, 4].astype(int))):
    rows.setdefault(tensor, []).append((chunk << 22, kind, count, np.frombuffer(frame, np.uint8)))
number = 0
new.mkdir()
for file in about["weights"]:
    start = next(texts)
    with open(new / file["name"], "wb") as out:
        out.write(start)
        for name, t in tensors(start):
            size, element = t["data_offsets"][1] - t["data_offsets"][0], BITS.get(t["dtype"], 8) // 8
            same = name in base and len(base[name]) == size
            data = np.array(base[name]) if same else np.zeros(size, np.uint8)
            for at, kind, count, frame in rows.get(number, []):
                part = data[at:at + (1 << 22)].reshape(-1, element)
                where, values = np.split(frame, [len(frame) - count * element])
                if kind == 4:
                    at = np.flatnonzero(np.unpackbits(where, bitorder="little"))
                elif kind:
                    gaps = (where.reshape(kind, count).astype(np.int64) << 8 * np.arange(kind)[:, None]).sum(0)
                    at = np.cumsum(gaps + 1) - 1
                else:
                    at = slice(None)
                part[at] = values.reshape(element, count).T
            out.write(data.tobytes())
            number += 1
for file in about["files"]:
    (new / file["name"]).parent.mkdir(parents=True, exist_ok=True)
    if "frame" in file:
        (new / file["name"]).write_bytes(next(texts))
    else:
        shutil.copy(old / file["name"], new / file["name"])
