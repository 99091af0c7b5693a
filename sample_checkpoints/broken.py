#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the files that must be refused, each with its message in NAME.expected.

    python broken.py OUT

One rejection a case, as small as it can be; a case is a file NAME.safetensors or a folder NAME.  The message is what
follows `fp8conv COMMAND: ` when the case is named OUT/NAME..., OUT as it was given here.  Plain Python, no packages.
"""
import json
import pathlib
import shutil
import sys

U8 = '"dtype":"U8","shape":[1],"data_offsets":[0,1]'
GOOD = '"t":{' + U8 + '}'
TWO_64 = 2 ** 64


def raw(header):
    """Text to bytes; a lone surrogate U+DCXX stands for the byte XX."""
    return header if isinstance(header, bytes) else header.encode("utf-8", "surrogateescape")


def at(header, where):
    """Offset in the file of what stands behind the bar in where: at(h, '"shape":|[')."""
    before, _, what = where.rpartition("|")
    return 8 + len(raw(header[:header.index(before + what)] + before))


def safetensors(header, data=b"\0", n=None):
    header = raw(header)
    return (len(header) if n is None else n).to_bytes(8, "little") + header + data


def tensor(dtype='"U8"', shape="[1]", offsets="[0,1]"):
    return '{"dtype":%s,"shape":%s,"data_offsets":%s}' % (dtype, shape, offsets)


# A case: name, what is in the file, message.  {path} in a message is the file's path.

def sizes():
    """What the eight bytes in front say."""
    yield "file-empty", b"", "'{path}' is empty: copy or download it again"
    yield "file-7-bytes", b"\0" * 7, "'{path}' is 7 bytes long, too short for a safetensors file (8)"
    for i in range(1, 9):
        yield (f"size-2-64-minus-{i}", safetensors("{}", b"", TWO_64 - i),
               f"'{{path}}' is not a safetensors file: its header would be {TWO_64 - i} bytes long, of a file of 10")
    yield ("size-past-end-by-1", safetensors("{}", b"", 3),
           "header of '{path}' is 3 bytes long, past the end of the file (10): copy or download it again")
    yield "size-0", safetensors("", b"{}"), "header of '{path}': bad JSON at byte 8: expected '{{': copy or download it again"


def syntax():
    """JSON that is none."""
    def case(name, header, where, what):
        return "json-" + name, safetensors(header), f"header of '{{path}}': bad JSON at byte {where}: {what}: copy or download it again"

    end = 8 + len(GOOD) + 1             # of "{" + GOOD
    yield case("list", "[]", 8, "expected '{{'")
    yield case("null", "null", 8, "expected '{{'")
    yield case("byte-order-mark", "\ufeff{}", 8, "expected '{{'")
    yield case("open", "{" + GOOD, end, "expected ',' or '}}'")
    yield case("comma-at-end", "{" + GOOD + ",}", end + 1, "expected a key in quotes")
    yield case("nul-padding", "{" + GOOD + "}\0\0", end + 1, "expected the end")
    yield case("text-behind", "{" + GOOD + "} {}", end + 2, "expected the end")
    yield case("brackets", '{"t":{"shape":[1}}', 24, "mismatched brackets")
    yield case("string-open", '{"t', 9, "expected a key in quotes")
    deep = "{" + GOOD[:-1] + ',"x":' + "[" * 126 + "]" * 126 + "}}"
    yield case("deep", deep, at(deep, "[" * 125 + "|["), "nested deeper than 127 levels")
    yield case("deep-and-open", '{"x":' + "[" * 2000, 8 + 5 + 126, "nested deeper than 127 levels")
    yield "json-not-utf8", safetensors('{"t\udcff":{' + U8 + '}}'), "header of '{path}' is not UTF-8 (byte 11): copy or download it again"
    yield "json-utf8-surrogate", safetensors(b'{"\xed\xa0\x80":{}}'), "header of '{path}' is not UTF-8 (byte 10): copy or download it again"


def names():
    """Names that cannot be."""
    def named(*keys):
        return "{" + ",".join('"%s":%s' % (k, tensor(offsets=f"[{i},{i + 1}]")) for i, k in enumerate(keys)) + "}"

    for name, key in [("nul", "a\\u0000b"), ("raw-newline", "a\nb"), ("lone-surrogate", "\\ud800"),
                      ("bad-escape", "\\x41")]:
        yield (f"name-{name}", safetensors(named(key)),
               "header of '{path}': bad JSON at byte 9: "
               "the key has a bad escape, a control character, a NUL or bad UTF-8: copy or download it again")
    for name, key, shown in [("escape", "a\\u001b[2J", "a?[2J"), ("del", "a\\u007f", "a?"), ("raw-del", "a\x7f", "a?"),
                             ("c1", "a\u009b", "a??")]:
        yield (f"name-control-{name}", safetensors(named(key)),
               f"name of tensor '{shown}' in '{{path}}' contains a control character (byte 9)")
    yield "name-empty", safetensors(named("")), "name of tensor '' in '{path}' is empty (byte 9)"
    for name, other in [("twice", "a.b"), ("twice-escaped", "\\u0061.b")]:
        yield (f"name-{name}", safetensors(named("a.b", other), b"\0\0"),
               "duplicate tensor 'a.b' in '{path}', with data at bytes 0 and 1")


def metadata():
    def case(name, value, where, message):
        header = '{"__metadata__":' + value + "," + GOOD + "}"
        return "metadata-" + name, safetensors(header), message.replace("BYTE", str(at(header, where)))

    no_string = "metadata 'k' in '{path}' is not a string without NUL (byte BYTE)"
    yield case("number", '{"k":1}', '"k":|1', no_string)
    yield case("object", '{"k":{}}', '"k":|{', no_string)
    yield case("value-nul", '{"k":"\\u0000"}', '"k":|', no_string)
    for name, value in [("list", '["k"]'), ("string", '"k"')]:
        yield case(name, value, "|" + value, "__metadata__ of '{path}': bad JSON at byte BYTE: expected '{{': copy or download it again")
    yield case("key-twice", '{"k":"1","\\u006b":"2"}', "|{", "duplicate metadata 'k' in '{path}'")
    yield case("twice", '{},"__metadata__":null', "|null", "duplicate member '__metadata__' in '{path}' (byte BYTE)")


def fields():
    """What a tensor's object says."""
    def case(name, value, where, message):
        header = '{"t":' + value + "}"
        return name, safetensors(header), message.replace("BYTE", str(at(header, where)))

    for name, value in [("list", '["U8",[1],[0,1]]'), ("null", "null")]:
        yield case(f"tensor-{name}", value, '"t":|', "tensor 't' in '{path}' is not an object (byte BYTE)")
    for name, value in [("dtype", '{"shape":[1],"data_offsets":[0,1]}'), ("shape", '{"dtype":"U8","data_offsets":[0,1]}'),
                        ("data_offsets", '{"dtype":"U8","shape":[1]}')]:
        yield case(f"tensor-without-{name}", value, '"t":|', f"tensor 't' in '{{path}}' has no {name} (byte BYTE)")
    for name, again in [("dtype", '"I8"'), ("shape", "[2]"), ("data_offsets", "[0,2]")]:
        yield case(f"{name}-twice", '{%s,"%s":%s}' % (U8, name, again), "|" + again,
                   f"duplicate member '{name}' of tensor 't' in '{{path}}' (byte BYTE)")
    for name, value, what in [("bad", "[01]", "2: invalid token near '0'"),
                              ("number-huge", "1e400", "5: real number overflow near '1e400'")]:
        yield case(f"field-{name}", '{%s,"x":%s}' % (U8, value), '"x":|',
                   f"field 'x' of tensor 't' in '{{path}}' (byte BYTE): bad JSON at byte {what}: copy or download it again")

    for name, dtype in [("unknown", "F7"), ("lower-case", "f32"), ("empty", ""), ("padded", "U8 "), ("torch", "uint8")]:
        yield case(f"dtype-{name}", tensor(dtype=f'"{dtype}"'), '"dtype":|',
                   f"tensor 't' in '{{path}}' has the unknown type '{dtype}' (byte BYTE)")
    for name, dtype in [("number", "8"), ("object", '{"U8":null}'), ("nul", '"\\u0000"')]:
        yield case(f"dtype-{name}", tensor(dtype=dtype), '"dtype":|',
                   "dtype of tensor 't' in '{path}' is not a string (byte BYTE)")
    for name, shape in [("float", "[1.0]"), ("exponent", "[1e0]"), ("minus-zero", "[-0]"), ("leading-zero", "[01]"),
                        ("negative", "[-1]"), ("2-64", f"[{TWO_64}]"), ("string", '["1"]'), ("nested", "[[1]]"),
                        ("number", "1"), ("null", "null")]:
        yield case(f"shape-{name}", tensor(shape=shape), '"shape":|',
                   "shape of tensor 't' in '{path}' is not a list of integers from 0 to 2^64-1 (byte BYTE)")
    yield case("shape-65-dimensions", tensor(shape="[" + ",".join("1" * 65) + "]"), "",
               "tensor 't' in '{path}' has 65 dimensions, more than the limit (64)")
    for name, offsets in [("one", "[0]"), ("three", "[0,1,1]"), ("float", "[0,1.0]"), ("negative", "[-1,0]"),
                          ("2-64", f"[0,{TWO_64}]"), ("null", "null")]:
        yield case(f"data_offsets-{name}", tensor(offsets=offsets), '"data_offsets":|',
                   "data_offsets of tensor 't' in '{path}' are not two integers from 0 to 2^64-1 (byte BYTE)")


def layout():
    """Objects that are good each, and cannot be true."""
    def case(name, n_bytes, message, *tensors):
        header = "{" + ",".join('"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}' % t for t in tensors) + "}"
        return name, safetensors(header, b"\0" * n_bytes), message

    yield case("data-truncated", 7, "tensor 't' in '{path}' ends at byte 8, past the end of the file (7): copy or download it again",
               ("t", "F32", "[2]", 0, 8))
    yield case("data-missing", 0, "tensor 't' in '{path}' ends at byte 8, past the end of the file (0): copy or download it again",
               ("t", "F32", "[2]", 0, 8))
    yield case("data-too-long", 9, "the tensors of '{path}' end at byte 8, before the end of the file (9)",
               ("t", "F32", "[2]", 0, 8))
    yield case("data-without-tensors", 1, "the tensors of '{path}' end at byte 0, before the end of the file (1)")
    yield case("offsets-near-2-64", 1,
               f"tensor 't' in '{{path}}' ends at byte {TWO_64 - 1}, past the end of the file (1): copy or download it again",
               ("t", "U8", "[1]", TWO_64 - 2, TWO_64 - 1))
    yield case("offsets-reversed", 8, "tensor 't' in '{path}' ends at byte 0, before it begins (8)",
               ("t", "F32", "[2]", 8, 0))
    yield case("offsets-not-from-0", 8,
               "tensor 't' in '{path}' begins at byte 4, after a gap: the data before it ends at 0",
               ("t", "F32", "[1]", 4, 8))
    yield case("offsets-hole", 12,
               "tensor 'b' in '{path}' begins at byte 8, after a gap: the data before it ends at 4",
               ("b", "F32", "[1]", 8, 12), ("a", "F32", "[1]", 0, 4))
    yield case("offsets-overlap", 12, "tensor 'b' in '{path}' begins at byte 4, before the end of tensor 'a' (8)",
               ("b", "F32", "[2]", 4, 12), ("a", "F32", "[2]", 0, 8))
    yield case("offsets-shared", 8, "tensor 'b' in '{path}' begins at byte 0, before the end of tensor 'a' (8)",
               ("a", "F32", "[2]", 0, 8), ("b", "F32", "[2]", 0, 8))
    yield case("offsets-empty-inside", 8, "tensor 'e' in '{path}' begins at byte 4, before the end of tensor 'a' (8)",
               ("a", "F32", "[2]", 0, 8), ("e", "F32", "[0]", 4, 4))
    yield case("size-too-small", 8, "tensor 't' in '{path}' has 8 bytes at byte 0, but F32 [3] needs 12",
               ("t", "F32", "[3]", 0, 8))
    yield case("size-too-large", 8, "tensor 't' in '{path}' has 8 bytes at byte 0, but BF16 [1, 3] needs 6",
               ("t", "BF16", "[1,3]", 0, 8))
    yield case("size-of-empty", 8, "tensor 't' in '{path}' has 8 bytes at byte 0, but F32 [2, 0] needs 0",
               ("t", "F32", "[2,0]", 0, 8))
    yield case("size-of-scalar", 0, "tensor 't' in '{path}' has 0 bytes at byte 0, but F64 [] needs 8",
               ("t", "F64", "[]", 0, 0))
    yield case("size-half-byte", 2, "tensor 't' in '{path}' does not fill whole bytes: F4 [3] is 12 bits",
               ("t", "F4", "[3]", 0, 2))
    yield case("size-six-bits", 4, "tensor 't' in '{path}' does not fill whole bytes: F6_E3M2 [5] is 30 bits",
               ("t", "F6_E3M2", "[5]", 0, 4))
    for name, dtype, shape in [("wraps-to-0", "U8", [4194305, 4194305, 211106198978564]), ("2-64", "U8", [2 ** 32] * 2),
                               ("before-0", "U8", [2 ** 40, 2 ** 40, 0]), ("bits-2-64", "F64", [2 ** 58])]:
        yield case(f"shape-product-{name}", 0, f"tensor 't' in '{{path}}' has more than 2^64-1 bits: {dtype} {shape}",
                   ("t", dtype, shape, 0, 0))


# A folder: name, files by name, message.  {path} is the folder's path, {index} its index's.

A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def one(*names):
    """A shard with these tensors."""
    return safetensors(json.dumps({n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
                                   for i, n in enumerate(names)}), b"\0" * len(names))


def index_text():
    """Indices that cannot be read."""
    def case(name, text, message):
        return "index-" + name, {"model.safetensors.index.json": raw(text), A: one("a")}, message

    yield case("empty-file", "", "index '{index}': bad JSON at byte 0: expected '{{'")
    yield case("open", '{"weight_map": {', "index '{index}': bad JSON at byte 16: unexpected end")
    yield case("list", "[]", "index '{index}': bad JSON at byte 0: expected '{{'")
    yield case("without-weight_map", '{"metadata": {}}',
               "'{index}' has no weight_map, as an index of a model has: give its directory")
    yield case("weight_map-twice", '{"weight_map": {}, "weight_map": {}}',
               "index '{index}': duplicate member 'weight_map'")
    yield case("weight_map-empty", '{"weight_map": {}}', "weight_map of index '{index}' is empty")
    yield case("weight_map-list", '{"weight_map": ["a"]}',
               "weight_map of index '{index}': bad JSON at byte 15: expected '{{'")
    for name, value in [("number", "1"), ("null", "null"), ("object", '{"a": "b"}'), ("list", '["b"]'),
                        ("nul", f'"{A}\\u0000"')]:
        yield case(f"value-{name}", '{"weight_map": {"a": %s}}' % value,
                   "weight_map of index '{index}' has no file name for tensor 'a' (byte 21)")


def index_names():
    """Names of shards that lead elsewhere."""
    for name, shard, shown, what in [
            ("parent", "../" + A, None, "is not a plain file name"),
            ("absolute", "/etc/" + A, None, "is not a plain file name"),
            ("folder", "folder/" + A, None, "is not a plain file name"),
            ("backslash", "..\\" + A, None, "is not a plain file name"),
            ("dot", "." + A, None, "begins with a dot"),
            ("dot-dot", "..", None, "begins with a dot"),
            ("control", "a\x1b.safetensors", "a?.safetensors", "contains a control character"),
            ("empty", "", None, "is empty"),
            ("suffix", "pytorch_model.bin", None, "does not end in .safetensors"),
            ("only-suffix", "x.safetensors.", None, "does not end in .safetensors"),
            ("256-bytes", "x" * 244 + ".safetensors", None, "is longer than 255 bytes")]:
        yield (f"shard-name-{name}", {"model.safetensors.index.json": {"a": shard}, A: one("a")},
               f"shard name '{shown or shard}' of tensor 'a' in index '{{index}}' {what}")


def sets():
    """Files that do not fit together."""
    def case(name, weight_map, files, message):
        return name, {"model.safetensors.index.json": weight_map, **files}, message

    yield case("shard-missing", {"a": A, "b": B}, {A: one("a")},
               f"'{{path}}' is unfinished (1 of 2 files): download or copy the missing ones, the first is '{B}'")
    yield case("shard-is-folder", {"a": A}, {A + "/note.txt": b"a folder\n"},
               f"'{{path}}/{A}' is a directory, not a file")
    yield case("shard-broken", {"a": A, "b": B}, {A: one("a"), B: b"\0" * 7},
               f"'{{path}}/{B}' is 7 bytes long, too short for a safetensors file (8)")
    yield case("index-tensor-missing", {"a": A, "b": B, "c": B}, {A: one("a"), B: one("b")},
               f"tensor 'c' is not in '{{path}}/{B}', although index '{{index}}' lists it there")
    yield case("index-tensor-unmapped", {"a": A, "b": B}, {A: one("a"), B: one("b", "c")},
               f"tensor 'c' in '{{path}}/{B}' is not in index '{{index}}'")
    yield case("index-tensor-in-both", {"a": A, "b": B}, {A: one("a"), B: one("a", "b")},
               f"tensor 'a' is in '{{path}}/{B}', but index '{{index}}' lists it in '{A}'")
    yield case("index-tensor-elsewhere", {"a": B, "b": A}, {A: one("a"), B: one("b")},
               f"tensor 'a' is in '{{path}}/{A}', but index '{{index}}' lists it in '{B}'")
    yield ("index-tensor-twice", {"model.safetensors.index.json": raw('{"weight_map": {"a": "%s", "a": "%s"}}' % (A, A)),
                                  A: one("a")},
           "duplicate tensor 'a' in the weight_map of index '{index}'")
    yield ("index-tensor-twice-in-both",
           {"model.safetensors.index.json": raw('{"weight_map": {"a": "%s", "a": "%s"}}' % (A, B)), A: one("a"), B: one("a")},
           f"tensor 'a' is in both '{{path}}/{A}' and '{{path}}/{B}'")
    yield ("config-empty", {"model.safetensors": one("a"), "config.json": b""},
           "'{path}/config.json' is empty: copy or download it again")
    yield ("slice", safetensors(json.dumps({
               "__metadata__": {"DCP_SHARDING_INFO": '{"a": {"saved_offsets": [0]}}', "DCP_VERSION": "1.0"},
               "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})),
           "'{path}' holds one rank's slices of tensors (DCP_SHARDING_INFO in its header): give the directory that has the "
           "files of all ranks, shard-00001-model-00001-of-00001.safetensors and so on, without another model")
    yield ("parts-of-ranks", {"model-rank-0-part-0.safetensors": one("a"), "model-rank-1-part-0.safetensors": one("a")},
           "'{path}/model-rank-0-part-0.safetensors' is one rank's part of a model (beside "
           "'model-rank-1-part-0.safetensors'): give the model that it was made from, or join the parts first")
    neither = "found neither model.safetensors.index.json nor model.safetensors in '{path}', "
    yield ("folder-without-weights", {"config.json": b"{}\n"},
           "found no model.safetensors.index.json, model.safetensors or other .safetensors file in '{path}'")
    yield ("folder-two-files", {"a.safetensors": one("a"), "b.safetensors": one("b")},
           neither + "but 2 other .safetensors files ('a.safetensors', 'b.safetensors'): give one of them")
    yield ("folder-three-files", {f"{n}.safetensors": one(n) for n in "cba"},
           neither + "but 3 other .safetensors files ('a.safetensors', 'b.safetensors', ...): give one of them")


def slices():
    """Files of ranks, as torch's HuggingFaceStorageWriter names them."""
    def rank(offsets, shape, dtype="U8", info=None):
        n = 1
        for d in shape:
            n *= d
        n *= {"U8": 1, "F32": 4}[dtype]
        info = {"a": {"saved_offsets": offsets}} if info is None else info
        return safetensors(json.dumps({
            "__metadata__": {"format": "pt", "DCP_SHARDING_INFO": info if isinstance(info, str) else json.dumps(info)},
            "a": {"dtype": dtype, "shape": shape, "data_offsets": [0, n]}}), b"\0" * n)

    def case(name, *ranks, **more):
        return "slices-" + name, {f"shard-{i + 1:05d}-{'model-00001-of-00001'}.safetensors": r for i, r in enumerate(ranks)} | more

    one, two, three = (f"{{path}}/shard-0000{i}-model-00001-of-00001.safetensors" for i in (1, 2, 3))
    yield (*case("gap", rank([0, 0], [2, 3]), rank([3, 0], [1, 3])),
           f"tensor 'a' has 12 elements, but its slices (2) have 9, with a gap between [0:2, 0:3] in '{one}' and [3:4, 0:3] "
           f"in '{two}': copy the files of all ranks")
    yield (*case("first-missing", rank([2, 0], [2, 3])),
           f"tensor 'a' has 12 elements, but its slices (1) have 6, the first one is [2:4, 0:3] in '{one}': copy the files of all ranks")
    yield (*case("column-missing", rank([0, 0], [2, 3]), rank([0, 3], [1, 3])),
           f"tensor 'a' has 12 elements, but its slices (2) have 9, the last one is [0:1, 3:6] in '{two}': copy the files of "
           "all ranks")
    yield (*case("overlap", rank([0, 0], [2, 3]), rank([1, 0], [2, 3])),
           f"slices of tensor 'a' overlap: [0:2, 0:3] in '{one}' and [1:3, 0:3] in '{two}': give the files of one save")
    yield (*case("corner", rank([0, 0], [2, 2]), rank([2, 2], [2, 2]), rank([1, 1], [2, 2])),
           f"slices of tensor 'a' overlap: [0:2, 0:2] in '{one}' and [1:3, 1:3] in '{three}': give the files of one save")
    yield (*case("twice", rank([0], [2]), rank([0], [2])),
           f"slices of tensor 'a' overlap: [0:2] in '{one}' and [0:2] in '{two}': give the files of one save")
    yield (*case("scalar-twice", rank([], []), rank([], [])),
           f"slices of tensor 'a' overlap: [] in '{one}' and [] in '{two}': give the files of one save")
    yield (*case("type", rank([0], [2]), rank([2], [1], "F32")),
           f"slices of tensor 'a' have the type U8 in '{one}' and F32 in '{two}'")
    yield (*case("dimensions", rank([0, 0], [2, 1]), rank([2], [1])),
           f"slices of tensor 'a' have 2 dimensions in '{one}' and 1 in '{two}'")
    for name, info in (("no-tensor", {"b": {"saved_offsets": [0]}}), ("no-offsets", {"a": {}}), ("few", {"a": {"saved_offsets": []}}),
                       ("many", {"a": {"saved_offsets": [0, 0]}}), ("text", {"a": {"saved_offsets": "0"}}), ("list", [])):
        yield (*case("offsets-" + name, rank([0], [2], info=info)),
               f"DCP_SHARDING_INFO of '{one}' has no 1 saved_offsets for tensor 'a'")
    for name, offset in (("negative", -1), ("float", 0.0), ("null", None)):
        yield (*case("offsets-" + name, rank([0], [2], info={"a": {"saved_offsets": [offset]}})),
               f"saved_offsets of tensor 'a' in '{one}' are not integers from 0 to 2^63-1")
    yield (*case("offsets-no-json", rank([0], [2], info="{")),
           f"DCP_SHARDING_INFO of '{one}': bad JSON at byte 1: unexpected end")
    yield (*case("far", rank([0], [2]), rank([2 ** 62], [1])),
           "tensor 'a' has more than 2^64-1 bits: [4611686018427387905]")
    yield ("slices-other", {"shard-00001-model-00001-of-00001.safetensors": safetensors("{" + GOOD + "}")},
           f"'{one}' has no DCP_SHARDING_INFO in its header, as a rank's file has")
    yield (*case("rank-lost", rank([0, 0], [2, 3]), **{"config.json": b'{"vocab_size": 4}'}),
           "no tensor of '{path}' has the 4 rows that vocab_size of config.json states (at most 2), so a rank's file is missing: "
           "copy the files of all ranks")
    yield (*case("rank-lost-inner", rank([0, 0], [2, 3]), **{"config.json": b'{"text_config": {"vocab_size": 4}}'}),
           "no tensor of '{path}' has the 4 rows that vocab_size of config.json states (at most 2), so a rank's file is missing: "
           "copy the files of all ranks")


def write_folder(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, dict):      # a weight_map
            data = (json.dumps({"metadata": {}, "weight_map": data}, indent=2) + "\n").encode()
        path.write_bytes(data)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    seen = set()
    for make in (sizes, syntax, names, metadata, fields, layout, index_text, index_names, sets, slices):
        for name, content, message in make():
            if name in seen:
                sys.exit(f"two cases are called {name}")
            seen.add(name)
            path = f"{out}/{name}"
            if isinstance(content, dict):
                write_folder(out / name, content)
            else:
                path += ".safetensors"
                pathlib.Path(path).write_bytes(content)
            message = message.format(path=path, index=path + "/model.safetensors.index.json")
            (out / f"{name}.expected").write_text(message + "\n")


if __name__ == "__main__":
    main()
