# SPDX-License-Identifier: Apache-2.0
"""Makes inputs too large to be kept: hostile.py CASE..., each in the folder it is named after."""
import os
import pathlib
import socket
import sys

HEADER = b'{"up_proj.weight":{"dtype":"F32","shape":[128,128],"data_offsets":[0,65536]}}'
DEEP = b"[" * 10**6 + b"]" * 10**6


def file(path, header, data=0, claimed=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    n = len(header) if claimed is None else claimed
    path.write_bytes(n.to_bytes(8, "little") + header)
    os.truncate(path, 8 + max(n if n < 10**9 else 0, len(header)) + data)


def good(folder):
    file(folder / "model.safetensors", HEADER, 65536)


def text(name, content):
    def make(folder):
        good(folder)
        (folder / name).write_bytes(content)
    return make


def header(content, data=0, claimed=None):
    return lambda folder: file(folder / "model.safetensors", content, data, claimed)


def special(name, kind):
    """A file that is none, in the place of one that is."""
    def make(folder):
        good(folder)
        path = folder / name
        if name.startswith("shard"):
            (folder / "model.safetensors.index.json").write_text('{"weight_map":{"up_proj.weight":"%s"}}' % name)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            here = os.getcwd()
            os.chdir(folder)                      # such a path may have 108 bytes
            socket.socket(socket.AF_UNIX).bind(name)
            os.chdir(here)
        elif kind == "directory":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(name)
        else:
            path.symlink_to("/dev/zero")
    return make


CASES = {
    "deep-header": header(b'{"a":' + DEEP + b"}"),
    "deep-header-open": header(b'{"a":{"b":' + b'{"":' * 10**6),
    "deep-field": header(b'{"up_proj.weight":{"dtype":"F32","shape":[128,128],"data_offsets":[0,65536],"x":' + DEEP + b"}}", 65536),
    "deep-index": text("model.safetensors.index.json", b'{"weight_map":' + DEEP + b"}"),
    "deep-config": text("config.json", b'{"quantization_config":' + DEEP + b"}"),
    "long-header": header(b'{"a', claimed=10**8),
    "long-field": header(b'{"up_proj.weight":{"dtype":"F32","shape":[128,128],"data_offsets":[0,65536],"x":[' + b"1," * 10**6 + b"1]}}", 65536),
    "long-name": header(b'{"' + b"x" * 10**6 + b'":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}', 4),
    "experts": header(b"{" + b",".join(
        b'"a.%d.experts.%s":{"dtype":"BF16","shape":[65536,%s],"data_offsets":[%d,%d]}'
        % (i, name, shape, i * 6 * 65536 + begin, i * 6 * 65536 + end)
        for i in range(9) for name, shape, begin, end in ((b"down_proj", b"1,1", 0, 131072), (b"gate_up_proj", b"2,1", 131072, 393216)))
        + b"}", 9 * 6 * 65536),
    "config-loop": special("config.json", "loop"),
}
for kind in ("fifo", "socket", "directory", "device"):
    for place, name in (("shard", "shard.safetensors"), ("config", "config.json"), ("index", "model.safetensors.index.json")):
        CASES[f"{kind}-as-{place}"] = special(name, kind)

for case in sys.argv[1:] or CASES:
    CASES[case](pathlib.Path(case))
