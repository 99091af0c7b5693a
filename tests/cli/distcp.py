# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch.distributed.checkpoint, put together opcode by opcode: .metadata, and .distcp files of small archives.

distcp.py OUT KIND     a directory whose tensor lies in two slices, or one that is damaged in a named way
distcp.py kinds        the names of the damages and what is said of each"""
import pathlib
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "sample_checkpoints"))
import broken_torch as b  # noqa: E402  pylint: disable=wrong-import-position

META = "torch.distributed.checkpoint.metadata"
NAME, ROWS, COLS = "model.layers.0.mlp.down_proj.weight", 128, 128
VALUES = struct.pack(f"<{ROWS * COLS}f", *((i * 37 % 1009 - 504) / 128 for i in range(ROWS * COLS)))
HALF = len(VALUES) // 2


def obj(name, state, module=META):
    return b.glob(module, name) + b")\x81" + state + b"b"


def table(*pairs):
    return b"}(" + b"".join(k + v for k, v in pairs) + b"u"


def members(**values):
    return table(*((b.text(k), v) for k, v in values.items()))


def size(*numbers):
    return b.glob("torch", "Size") + b.tup(b.tup(*map(b.num, numbers))) + b"R"


def chunk(offsets, sizes):
    return obj("ChunkStorageMetadata", members(offsets=size(*offsets), sizes=size(*sizes)))


def properties(dtype=b.glob("torch", "float32")):
    return obj("TensorProperties", b.tup(dtype, b.glob("torch.serialization", "_get_layout") + b.tup(b.text("torch.strided")) + b"R", b"\x89",
                                         b.glob(META, "_MEM_FORMAT_ENCODING") + b.tup(b.num(0)) + b"R", b"\x89"))


def item(shape, content):
    tensor = b.tensor(b.storage(n=shape[0] * shape[1]), shape=shape, strides=(shape[1], 1))
    return b.archive(b"\x80\x02" + tensor + b".", {"data/0": content}, prefix="archive/")


CHUNKS = [((0, 0), (64, COLS)), ((64, 0), (64, COLS))]


def entry(index, fqn=b.text(NAME), offset=None, at=None, place=None):
    """An entry of the storage; at: the index that it states."""
    offset = size(*CHUNKS[index][0]) if offset is None else offset
    key = obj("MetadataIndex", members(fqn=fqn, offset=offset, index=b.num(index) if at is None else at))
    return key, place or info(index)


def info(index, path=None, begin=None, length=None):
    n = len(item((64, COLS), VALUES[:HALF]))
    return obj("_StorageInfo", members(relative_path=path or b.text(f"__{index}_0.distcp"), offset=begin or b.num(3 * index),
                                       length=length or b.num(n), transform_descriptors=b"N"), "torch.distributed.checkpoint.filesystem")


def metadata(*entries, tensor=None, planner=None, key=NAME, **more):
    tensor = tensor or obj("TensorStorageMetadata", members(properties=properties(), size=size(ROWS, COLS), chunks=b"](" + b"".join(
        chunk(*c) for c in CHUNKS) + b"e"))
    values = {"state_dict_metadata": table((b.text(key), tensor), (b.text("step"), obj("BytesStorageMetadata", b"}"))),
              "planner_data": planner or table((b.text(key), b.tup(b.text(key)))),
              "storage_data": table(*(entries or (entry(0), entry(1)))), "storage_meta": b"N", "version": b"N"} | more
    return b"\x80\x02" + obj("Metadata", members(**values)) + b"."


def stored(**changed):
    values = {"properties": properties(), "size": size(ROWS, COLS), "chunks": b"](" + b"".join(chunk(*c) for c in CHUNKS) + b"e"} | changed
    return metadata(tensor=obj("TensorStorageMetadata", members(**values)))


AS_TORCH = "'{path}' has %s of tensor '" + NAME + "' as torch does not write it"
OTHER = "slice of tensor '" + NAME + "' in '*__0_0.distcp' has another type or shape than .metadata states"
KINDS = {
    "index-large": (metadata(entry(0, at=b.num(2)), entry(1)), AS_TORCH % "chunks"),
    "index-negative": (metadata(entry(0, at=b.num(-1)), entry(1)), AS_TORCH % "chunks"),
    "index-none": (metadata(entry(0, at=b"N"), entry(1)), AS_TORCH % "chunks"),
    "chunks-text": (stored(chunks=b.text("chunks")), AS_TORCH % "chunks"),
    "chunks-of-text": (stored(chunks=b"](" + b.text("chunkchunk") * 2 + b"e"), AS_TORCH % "sizes"),
    "sizes-short": (stored(chunks=b"](" + chunk((0,), (64,)) * 2 + b"e"), AS_TORCH % "sizes"),
    "offsets-short": (metadata(entry(0, offset=size(0)), entry(1)), AS_TORCH % "offsets"),
    "offsets-negative": (metadata(entry(0, offset=size(-1, 0)), entry(1)), AS_TORCH % "offsets"),
    "offsets-none": (metadata(entry(0, offset=b"N"), entry(1)), AS_TORCH % "offsets"),
    "size-text": (stored(size=b.text("sizesize")), AS_TORCH % "the size"),
    "type-text": (stored(properties=properties(b.text("torch float32"))), AS_TORCH % "the type"),
    "type-other": (stored(properties=properties(b.glob("torch", "Size"))), AS_TORCH % "the type"),
    # bytes of a text are no addresses of values
    "properties-of-text": (stored(properties=obj("TensorProperties", b.text("x" * 64))), AS_TORCH % "the type"),
    "properties-empty": (stored(properties=obj("TensorProperties", b")")), AS_TORCH % "the type"),
    "file-slash": (metadata(entry(0, place=info(0, b.text("sub/__0_0.distcp"))), entry(1)), AS_TORCH % "the place"),
    "file-above": (metadata(entry(0, place=info(0, b.text("../__0_0.distcp"))), entry(1)), AS_TORCH % "the place"),
    "file-hidden": (metadata(entry(0, place=info(0, b.text(".metadata"))), entry(1)), AS_TORCH % "the place"),
    "file-empty": (metadata(entry(0, place=info(0, b.text(""))), entry(1)), AS_TORCH % "the place"),
    "file-control": (metadata(entry(0, place=info(0, b.text("a\x1b.distcp"))), entry(1)), AS_TORCH % "the place"),
    "begin-negative": (metadata(entry(0, place=info(0, begin=b.num(-1))), entry(1)), AS_TORCH % "the place"),
    "length-negative": (metadata(entry(0, place=info(0, length=b.num(-1))), entry(1)), AS_TORCH % "the place"),
    "begin-text": (metadata(entry(0, place=info(0, begin=b.text("0"))), entry(1)), AS_TORCH % "the place"),
    "begin-far": (metadata(entry(0, place=info(0, begin=b.num(2 ** 40))), entry(1)), "slice of tensor '*' ends after the end of '*': copy or download the file again"),
    "length-far": (metadata(entry(0, place=info(0, length=b.num(2 ** 62))), entry(1)), "slice of tensor '*' ends after the end of '*': copy or download the file again"),
    "name-number": (metadata(entry(0, fqn=b.num(1)), entry(1)), "'{path}' has the name of tensor '?' as torch does not write it"),
    "name-control": (metadata(entry(0, fqn=b.text("a\x1b")), entry(1, fqn=b.text("a\x1b")), key="a\x1b"), "'{path}' has the name of tensor 'a?' as torch does not write it"),
    "file-absent": (metadata(entry(0, place=info(0, b.text("__7_0.distcp"))), entry(1)), "cannot open '*__7_0.distcp': No such file or directory"),
    "slice-missing": (metadata(entry(0)), "*"),
    "slice-twice": (metadata(entry(0), entry(1), entry(0)), "*"),
    "other-type": (stored(properties=properties(b.glob("torch", "int32"))), OTHER),
    "other-shape": (stored(chunks=b"](" + chunk((0, 0), (32, 256)) + chunk((64, 0), (64, COLS)) + b"e"), OTHER),
    "optimizer-alone": (metadata(entry(0, fqn=b.text("optim.w")), entry(1, fqn=b.text("optim.w")), key="optim.w"), "'{path}' names no tensors of a model"),
    "no-entries": (metadata(storage_data=b"}"), "'{path}' names no tensors of a model"),
    "storage-list": (metadata(storage_data=b"]"), "'{path}' is not the metadata of torch.distributed.checkpoint"),
    "top-dict": (b"\x80\x02}.", "'{path}' is not the metadata of torch.distributed.checkpoint"),
    "other-global": (b"\x80\x02" + b.glob("os", "system") + b".", "pickle '{path}' names the global 'os system' at byte 2, " + b.SENTENCE),
    "truncated": (metadata()[:-1], "pickle '{path}' ends in the middle of an opcode at byte *"),
    "empty": (b"", "pickle '{path}' ends in the middle of an opcode at byte 0: copy or download it again"),
}
# The model of a training among other things; other names than its keys.
GOOD = {
    "good": metadata(),
    "model": metadata(entry(0, fqn=b.text("m.w")), entry(1, fqn=b.text("m.w")), key="m.w",
                      planner=table((b.text("a"), b.tup(b.text("optimizer"), b.text("a"))), (b.text("m.w"), b.tup(b.text("model"), b.text(NAME))))),
    "step": metadata(entry(0), entry(1), entry(0, fqn=b.text("step"))),
}


def write(out, content):
    out.mkdir()
    for index, part in enumerate((VALUES[:HALF], VALUES[HALF:])):
        (out / f"__{index}_0.distcp").write_bytes(b"xyz"[:3 * index] + item((64, COLS), part))
    (out / ".metadata").write_bytes(content)


def main():
    if sys.argv[1:] == ["kinds"]:
        print("\n".join(KINDS))
        return
    out, content = pathlib.Path(sys.argv[1]), GOOD.get(sys.argv[2]) or KINDS[sys.argv[2]][0]
    write(out, content)
    if sys.argv[2] in KINDS:
        print(KINDS[sys.argv[2]][1].replace("{path}", f"{out}/.metadata"))


if __name__ == "__main__":
    main()
