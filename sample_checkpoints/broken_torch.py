#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make files of torch.save() that must be refused, each with its message in NAME.expected.

    python broken_torch.py OUT

As broken.py; a case is a file NAME.bin.  A message of "*" stands for any that names the file.  Plain Python, no packages:
a pickle is put together opcode by opcode, and archives by zipfile.
"""
import io
import pathlib
import pickle
import struct
import sys
import zipfile

SENTENCE = "which no weights need: fp8conv reads tensors alone, and calls nothing"


def num(n):
    return b"J" + struct.pack("<i", n) if -2 ** 31 <= n < 2 ** 31 else pickle.dumps(n, 2)[2:-1]


def text(s):
    return b"X" + struct.pack("<I", len(s.encode())) + s.encode()


def tup(*items):
    return b"(" + b"".join(items) + b"t"


def glob(module, name):
    return f"c{module}\n{name}\n".encode()


REBUILD = glob("torch._utils", "_rebuild_tensor_v2")
V3 = glob("torch._utils", "_rebuild_tensor_v3")
HOOKS = glob("collections", "OrderedDict") + b")R"


def storage(kind="FloatStorage", key="0", n=6, word="storage", module="torch"):
    return tup(text(word), glob(module, kind), text(key), text("cpu"), num(n)) + b"Q"


def tensor(store=None, offset=0, shape=(2, 3), strides=(3, 1), call=REBUILD, more=b""):
    return call + tup(store or storage(), num(offset), tup(*map(num, shape)), tup(*map(num, strides)), b"\x89", HOOKS, more) + b"R"


def state(*pairs):
    return b"\x80\x02}(" + b"".join(pairs) + b"u."


def named(name, value):
    return text(name) + value


GOOD = state(named("w", tensor()))


def archive(data=GOOD, members=None, prefix="m/", order="little", compress=(), extra=()):
    """A zip as torch writes it: six floats in data/0."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, body in [("data.pkl", data)] + list((members or {"data/0": bytes(24)}).items()) + \
                ([("byteorder", order.encode())] if order else []) + list(extra):
            info = zipfile.ZipInfo(prefix + name)
            z.writestr(info, body, zipfile.ZIP_DEFLATED if name in compress else zipfile.ZIP_STORED)
    return out.getvalue()


def patched(data, at, new):
    return data[:at] + new + data[at + len(new):]


def zip64(data):
    """An archive as it is above 4 GiB: all sizes and offsets in zip64 fields, behind a field of another kind."""
    all_32, out, directory = 2 ** 32 - 1, bytearray(), bytearray()
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for info in z.infolist():
            content, name, at = z.read(info), info.filename.encode(), len(out)
            extra = struct.pack("<HHQQ", 1, 16, len(content), len(content))
            out += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, 0, 0, 0, 0, info.CRC, all_32, all_32, len(name), len(extra)) + name + extra + content
            extra = struct.pack("<HHI", 0x5455, 4, 0) + struct.pack("<HHQQQ", 1, 24, len(content), len(content), at)
            directory += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 45, 0, 0, 0, 0, info.CRC, all_32, all_32, len(name), len(extra),
                                     0, 0, 0, 0, all_32) + name + extra
        n = len(z.infolist())
    start, end = len(out), len(out) + len(directory)
    return bytes(out + directory + struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n, n, len(directory), start) +
                 struct.pack("<4sIQI", b"PK\6\7", 0, end, 1) + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 2 ** 16 - 1, 2 ** 16 - 1, all_32, all_32, 0))


# A case: name, what is in the file, message.  {path} in a message is the file's path.

def tensors():
    """Storages, shapes and strides."""
    def case(name, value, message, **more):
        return name, archive(state(named("w", value)), **more), message.replace("W", "tensor 'w' in '{path}'")

    def small(name, last, **more):
        return case(name, tensor(**more), f"W ends at element {last} of its storage, which has 6")

    yield small("shape-too-long", 7, shape=(2, 4), strides=(4, 1))
    yield small("offset-1", 6, offset=1)
    yield small("offset-6", 6, offset=6, shape=(1,), strides=(1,))
    yield small("offset-2-62", 2 ** 62, offset=2 ** 62, shape=(1,), strides=(1,))
    yield small("stride-wide", 10, strides=(8, 1))
    yield small("scalar-behind", 6, offset=6, shape=(), strides=())
    for name, shape, strides in (("stride-wraps", (3, 3), (2 ** 62, 2 ** 62)), ("stride-wraps-4", (5,), (2 ** 62,)),
                                 ("shape-wraps", (2 ** 62, 2 ** 62), (1, 1)), ("broadcast-wraps", (2 ** 40, 2 ** 40), (0, 0))):
        yield case(name, tensor(shape=shape, strides=strides), "*")
    plain = "W is not as torch.save() writes it"
    yield case("offset-negative", tensor(offset=-1), plain)
    yield case("offset-negative-long", REBUILD + tup(storage(), b"\x8a\x01\xff", tup(num(2), num(3)), tup(num(3), num(1)), b"\x89", HOOKS) + b"R", plain)
    yield case("shape-negative", tensor(shape=(-2, 3)), plain)
    yield case("stride-negative", tensor(strides=(-3, 1)), plain)
    yield case("strides-few", tensor(strides=(3,)), plain)
    yield case("strides-many", tensor(strides=(3, 1, 1)), plain)
    yield case("dimensions-65", tensor(shape=(1,) * 65, strides=(1,) * 65), plain)
    yield case("shape-text", REBUILD + tup(storage(), num(0), tup(text("2"), num(3)), tup(num(3), num(1)), b"\x89", HOOKS) + b"R", plain)
    yield case("shape-list", REBUILD + tup(storage(), num(0), b"]", tup(), b"\x89", HOOKS) + b"R", plain)
    yield case("shape-large", tensor(shape=(2 ** 70, 1)), plain)
    yield case("arguments-3", REBUILD + tup(storage(), num(0), tup()) + b"R", plain)
    yield case("arguments-0", REBUILD + b")R", plain)
    yield case("parameter-empty", glob("torch._utils", "_rebuild_parameter") + b")R", plain)
    yield case("parameter-of-int", glob("torch._utils", "_rebuild_parameter") + tup(num(1)) + b"R", plain)
    yield case("parameter-of-parameter", glob("torch._utils", "_rebuild_parameter") + tup(
        glob("torch._utils", "_rebuild_parameter") + tup(tensor()) + b"R") + b"R", plain)
    none = "W has no storage as torch.save() writes it"
    yield case("storage-int", tensor(num(1)), none)
    yield case("storage-text-id", tensor(text("0") + b"Q"), none)
    yield case("storage-other-word", tensor(storage(word="module")), none)
    yield case("storage-short", tensor(tup(text("storage"), glob("torch", "FloatStorage"), text("0"), text("cpu")) + b"Q"), none)
    yield case("storage-long", tensor(tup(text("storage"), glob("torch", "FloatStorage"), text("0"), text("cpu"), num(6), num(6)) + b"Q"), none)
    yield case("storage-key-int", tensor(tup(text("storage"), glob("torch", "FloatStorage"), num(0), text("cpu"), num(6)) + b"Q"), none)
    yield case("storage-type-text", tensor(tup(text("storage"), text("torch FloatStorage"), text("0"), text("cpu"), num(6)) + b"Q"), none)
    yield case("storage-n-text", tensor(tup(text("storage"), glob("torch", "FloatStorage"), text("0"), text("cpu"), text("6")) + b"Q"), none)
    yield case("storage-type-device", tensor(storage("device")), "W has a storage of an unknown type")
    yield case("storage-absent", tensor(storage(key="1")), "W: no member 'm/data/1'")
    yield case("storage-outside", tensor(storage(key="../data.pkl")), "W: no member 'm/data/../data.pkl'")
    for n in (0, 5, 7, -1, 2 ** 40, 2 ** 62):
        yield case(f"storage-of-{n}", tensor(storage(n=n)), f"W: its storage has 24 bytes, but states {n} elements of F32")
    yield case("storage-odd", tensor(), "W: its storage has 25 bytes, but states 6 elements of F32", members={"data/0": bytes(25)})
    yield case("storage-empty", tensor(), "W: its storage has 0 bytes, but states 6 elements of F32", members={"data/0": b""})
    yield case("storage-half", tensor(storage("HalfStorage")), "W: its storage has 24 bytes, but states 6 elements of F16")
    untyped = storage("UntypedStorage", n=24, module="torch.storage")
    yield case("v2-untyped", tensor(untyped, shape=(30,), strides=(1,)), "W has an unknown type")
    yield case("v3-no-type", tensor(untyped, call=V3), "W has an unknown type")
    yield case("v3-type-text", tensor(untyped, call=V3, more=text("torch uint16")), "W has an unknown type")
    yield case("v3-type-device", tensor(untyped, call=V3, more=glob("torch", "device")), "W has an unknown type")
    yield case("v3-too-long", tensor(untyped, call=V3, shape=(13,), strides=(1,), more=glob("torch", "uint16")),
               "W ends at element 12 of its storage, which has 12")
    yield case("compressed", tensor(), "member 'm/data/0' of '{path}' is compressed (method 8), but torch.save() stores: load the file "
               "with torch and save it again", compress=("data/0",))
    yield case("big-endian", tensor(), "'{path}' was not saved on a little-endian machine: save it again on one", order="big")
    yield case("order-empty", tensor(), "'{path}' was not saved on a little-endian machine: save it again on one", extra=[],
               order="litle!")


def dicts():
    """What the pickle is of."""
    yield "top-tensor", archive(b"\x80\x02" + tensor() + b"."), "'{path}' has no dict of tensors: save the state_dict() of the model"
    yield "top-list", archive(b"\x80\x02]."), "'{path}' has no dict of tensors: save the state_dict() of the model"
    yield "top-int", archive(b"\x80\x02K\x01."), "'{path}' has no dict of tensors: save the state_dict() of the model"
    yield "top-none", archive(b"\x80\x02N."), "'{path}' has None in the place of tensors"
    empty = "'{path}' has no tensors in its dict"
    yield "top-empty", archive(b"\x80\x02}."), empty
    yield "top-ordered-empty", archive(b"\x80\x02" + HOOKS + b"."), empty
    yield "top-numbers", archive(state(named("step", num(3)))), empty
    yield "inner-other-key", archive(state(named("optimizer", b"}(" + named("w", tensor()) + b"u"))), empty
    yield "inner-deep", archive(state(named("model", b"}(" + named("model", b"}(" + named("w", tensor()) + b"u") + b"u"))), empty
    yield "inner-itself", archive(b"\x80\x02}q\x00(" + named("model", b"h\x00") + b"u."), empty
    yield "name-twice", archive(state(named("w", tensor()), named("w", tensor()))), "tensor 'w' in '{path}' occurs twice"
    yield "name-empty", archive(state(named("", tensor()))), "tensor '' in '{path}' has an invalid name"
    yield "name-control", archive(state(named("w\x1b[2J", tensor()))), "tensor 'w?[2J' in '{path}' has an invalid name"
    yield "name-nul", archive(state(named("w\0", tensor()))), "tensor '?' in '{path}' has an invalid name"
    encoded = glob("_codecs", "encode")
    for name, content in (("call", b")"), ("none", b"N"), ("short", tup()), ("text", tup(text("x"), b"K\x00", b"N")),
                          ("codec", tup(encoded + tup(text("x"), text("utf8")) + b"R")), ("wide", tup(encoded + tup(text("\u0100"), text("latin1")) + b"R")),
                          ("codec-int", tup(encoded + tup(num(1), num(2)) + b"R")), ("codec-alone", tup(encoded + b")R"))):
        value = glob("_io", "BytesIO") + b")\x81" + content + b"b"
        yield (f"state-{name}", archive(state(named("w", tensor()), named("a._extra_state", value))),
               "tensor 'a._extra_state' in '{path}' is an io.BytesIO without bytes")
    same = tup(b"C\x64" + b"b" * 100, num(0), b"N") + b"bq\x00"
    for_each = (text(f"{i}._extra_state") + b"h\x00" for i in range(9))
    yield ("state-again", archive(state(text("a._extra_state") + glob("_io", "BytesIO") + b")\x81" + same, *for_each,
                                        named("w", tensor()))),
           "tensor '3._extra_state' in '{path}' has the bytes of other states")
    yield "name-int", archive(state(num(1) + tensor())), "tensor '?' in '{path}' has an invalid name"
    yield "name-tuple", archive(state(b")" + tensor())), "tensor '?' in '{path}' has an invalid name"
    wide = b"\x80\x02}(" + text("a") + b"}q\x01(" + b"".join(num(i) + b"N" for i in range(60)) + b"u" + \
        b"".join(text("model") + b"h\x01" for _ in range(200)) + b"u."
    yield "wide", archive(wide), "tensor '*' in '{path}' has dicts in each other"


def globals_and_opcodes():
    """What runs code in other readers."""
    for module, name in (("os", "system"), ("posix", "system"), ("builtins", "eval"), ("builtins", "exec"), ("__builtin__", "getattr"),
                         ("subprocess", "Popen"), ("torch", "load"), ("torch._utils", "_rebuild_sparse_tensor"), ("numpy", "dtype"),
                         ("numpy.core.multiarray", "_reconstruct"), ("argparse", "Namespace"), ("__torch__", "Net"), ("", ""),
                         ("torch._utils", "_rebuild_tensor_v2 "), ("torch", "QInt8Storage"), ("torch", "quantize_per_tensor"),
                         ("collections", "OrderedDict.fromkeys"), ("pickle", "loads"), ("torch.nn.modules.linear", "Linear")):
        message = f"pickle '{{path}}' names the global '{module} {name}' at byte 2, {SENTENCE}"
        slug = f"{module}-{name}".replace(" ", "_").replace(".", "_")
        yield f"global-{slug}", archive(b"\x80\x02" + glob(module, name) + tup(text("id")) + b"R."), message
        stack = b"\x80\x04" + text(module) + text(name) + b"\x93)R."
        yield f"stack-global-{slug}", archive(stack), message.replace("byte 2", f"byte {len(stack) - 4}")
    used = b"\x80\x95.(N\x88\x89)t\x85\x86\x87}]JKM\x8aGX\x8c\x8dBC\x8e\x96c\x93R\x81baesuqr\x94hjQ"
    for op in range(256):
        if op not in used:
            yield (f"opcode-{op:02x}", archive(b"\x80\x02" + bytes([op]) + b"\n\n\n\n."),
                   f"pickle '{{path}}' has the opcode 0x{op:02x} at byte 2, {SENTENCE}")


def machine():
    """A stack and a memo that do not hold what an opcode takes."""
    def case(name, code, what, at=2, advice=""):
        return "pickle-" + name, archive(b"\x80\x02" + code), f"pickle '{{path}}' {what} at byte {at}{advice}"

    again = ": copy or download it again"
    under = "takes from an empty stack"
    for name, code in (("reduce", b"R"), ("newobj", b"\x81"), ("build", b"b"), ("append", b"a"), ("setitem", b"s"), ("tuple1", b"\x85"),
                       ("tuple2", b"\x86"), ("tuple3", b"\x87"), ("put", b"q\x00"), ("long-put", b"r\x00\x00\x00\x00"), ("memoize", b"\x94"),
                       ("persid", b"Q"), ("stack-global", b"\x93")):
        yield case(f"empty-{name}", code + b".", under)
        yield case(f"mark-{name}", b"(" + code + b".", under, 3)
    for name, code in (("tuple", b"t"), ("appends", b"e"), ("setitems", b"u")):
        yield case(f"no-mark-{name}", b"N" + code + b".", "has no mark", 3)
    yield case("appends-to-mark", b"(N(Ne.", "adds to what is no such container", 6)
    yield case("setitems-odd", b"}(Nu.", "adds to what is no such container", 5)
    yield case("append-to-dict", b"}Na.", "adds to what is no such container", 4)
    yield case("setitem-to-list", b"]NNs.", "adds to what is no such container", 5)
    yield case("append-to-none", b"NNa.", "adds to what is no such container", 4)
    yield case("call-none", b"N)R.", "calls what is no global", 4)
    yield case("call-with-list", HOOKS[:-2] + b"]R.", "calls what is no global", 2 + len(HOOKS) - 1)
    yield case("build-of-dict", b"}}b.", "sets the state of what is no object", 4)
    yield case("get-absent", b"h\x00.", "takes what is not in the memo")
    yield case("long-get-absent", b"j\xff\xff\xff\xff.", "takes what is not in the memo")
    yield case("put-far", b"Nr\xff\xff\xff\xff.", "has a memo with gaps", 3)
    yield case("two-values", b"NN.", "leaves no single value", 4)
    yield case("no-value", b".", "leaves no single value")
    yield case("mark-value", b"(.", "leaves no single value", 3)
    yield case("global-one-line", b"ctorch\n.", "has no name of a global")
    yield case("stack-global-int", b"NN\x93.", "has no name of a global", 4)
    for version in (0, 1, 6, 255):
        yield (f"pickle-protocol-{version}", archive(bytes([0x80, version]) + b"}."),
               "pickle '{path}' has a protocol other than 2 to 5 at byte 0")
    for name, code in (("text", b"X\xff\xff\xff\xff"), ("short-text", b"\x8c\xff"), ("text-8", b"\x8d" + b"\xff" * 8), ("bytes-8", b"\x8e" + b"\xff" * 8),
                       ("int", b"J\0"), ("long", b"\x8a\xff"), ("float", b"G\0"), ("frame", b"\x95\0"), ("get", b"h")):
        yield case(f"ends-{name}", code, "ends in the middle of an opcode", advice=again)
    yield case("ends", b"", "ends in the middle of an opcode", advice=again)


def zips():
    """Archives."""
    good = archive()
    end = good.rindex(b"PK\5\6")
    first = good.index(b"PK\1\2")
    whole = "archive at byte 0 of '{path}' "
    damaged = whole + "has a central directory that is damaged"

    def past(begin, size, limit=first):
        return f"member 'm/data.pkl' of '{{path}}' begins at byte {begin} with {size} bytes, past the end of the members ({limit})"

    yield "zip-disks", patched(good, end + 4, b"\1\0"), whole + "is one of several disks"
    yield "zip-count-disk", patched(good, end + 8, b"\1\0"), whole + "is one of several disks"
    yield "zip-count", patched(good, end + 8, b"\2\0\2\0"), "archive in '{path}' has 3 members, but states 2"
    yield "zip-directory-size", patched(good, end + 12, b"\xff\xff\0\0"), whole + "has a central directory beyond its end"
    yield "zip-directory-at", patched(good, end + 16, b"\xff\xff\0\0"), whole + "has a central directory beyond its end"
    yield "zip-directory-early", patched(good, end + 16, b"\1\0\0\0"), damaged
    yield "zip-directory-short", patched(good, end + 12, b"\1\0\0\0"), damaged
    yield "zip-needs-64", patched(good, end + 10, b"\xff\xff"), whole + "is one of several disks"
    yield "zip-needs-64-at", patched(good, end + 16, b"\xff" * 4), whole + "has no zip64 locator, but numbers that need one"
    yield "zip-entry", patched(good, first, b"PK\0\0"), damaged
    yield "zip-name-long", patched(good, first + 28, b"\xff\xff"), damaged
    yield "zip-comment-long", patched(good, first + 32, b"\xff\xff"), damaged
    yield "zip-name-nul", patched(good, first + 46, b"\0"), damaged
    yield "zip-encrypted", patched(good, first + 8, b"\1\0"), whole + "is encrypted"
    yield "zip-sizes-differ", patched(good, first + 24, b"\1\0\0\0"), \
        f"member 'm/data.pkl' of '{{path}}' is stored with {len(GOOD)} bytes, but has 1"
    yield "zip-entry-needs-64", patched(good, first + 24, b"\xff" * 4), whole + "has no zip64 field, but numbers that need one"
    yield "zip-header-needs-64", patched(good, first + 42, b"\xff" * 4), whole + "has no zip64 field, but numbers that need one"
    yield "zip-header-far", patched(good, first + 42, b"\xff\xff\xff\x7f"), past(2 ** 31 - 1, len(GOOD))
    yield "zip-header-at-end", patched(good, first + 42, struct.pack("<I", first - 8)), past(first - 8, len(GOOD))
    yield "zip-member-far", patched(good, first + 20, b"\xff\xff\xff\x7f\xff\xff\xff\x7f"), past(0, 2 ** 31 - 1)
    data = good.index(b"m/data/0")
    contradicts = "member 'm/data/0' of '{path}' has a header at byte %d that contradicts the central directory" % (data - 30)
    yield "zip-local-magic", patched(good, data - 30, b"PK\0\0"), contradicts
    yield "zip-local-name", patched(good, data, b"n"), contradicts
    yield "zip-local-name-size", patched(good, data - 4, b"\7\0"), contradicts
    yield "zip-local-method", patched(good, data - 22, b"\10\0"), contradicts
    yield "zip-local-size", patched(good, data - 8, b"\1\0\0\0"), contradicts
    yield "zip-local-extra", patched(good, data - 2, b"\xff\xff"), "*"
    large = zip64(good)
    locator, end64, entry = large.rindex(b"PK\6\7"), large.rindex(b"PK\6\6"), large.index(b"PK\1\2")
    beyond, field = whole + "has a central directory beyond its end", entry + 46 + len("m/data.pkl") + 8
    yield "zip64-no-locator", patched(large, locator, b"PK\0\0"), whole + "has no zip64 locator, but numbers that need one"
    yield "zip64-locator-far", patched(large, locator + 8, b"\xff" * 8), whole + "has its zip64 end record beyond its end"
    yield "zip64-locator-late", patched(large, locator + 8, struct.pack("<Q", locator - 55)), whole + "has its zip64 end record beyond its end"
    yield "zip64-locator-off", patched(large, locator + 8, struct.pack("<Q", end64 - 1)), whole + "has no zip64 end record where the locator says"
    yield "zip64-directory-size", patched(large, end64 + 40, b"\xff" * 8), beyond
    yield "zip64-directory-longer", patched(large, end64 + 40, struct.pack("<Q", end64 - entry + 1)), beyond
    yield "zip64-directory-at", patched(large, end64 + 48, b"\xff" * 8), beyond
    yield "zip64-count", patched(large, end64 + 32, b"\2"), "archive in '{path}' has 3 members, but states 2"
    yield "zip64-field-short", patched(large, field + 2, struct.pack("<H", 20)), whole + "has a zip64 field that is too short"
    yield "zip64-field-other", patched(large, field, b"\2\0"), whole + "has no zip64 field, but numbers that need one"
    yield "zip64-size-far", patched(large, field + 4, b"\xff" * 16), past(0, 2 ** 64 - 1, entry)
    yield "zip64-header-far", patched(large, field + 20, b"\xff" * 8), past(2 ** 64 - 1, len(GOOD), entry)
    for n in range(len(large) - 100, len(large), 25):
        yield f"zip64-truncated-{n}", large[:n], "*"
    again = io.BytesIO(good)
    with zipfile.ZipFile(again, "a") as z:
        z.writestr(zipfile.ZipInfo("m/data/1"), bytes(24))
    yield "zip-twice", again.getvalue().replace(b"m/data/1", b"m/data/0"), "duplicate member 'm/data/0' in '{path}'"
    yield "zip-no-pickle", archive(prefix="m_"), "'{path}' has no member data.pkl, as files of torch.save() have"
    yield "zip-pickle-compressed", archive(compress=("data.pkl",)), "member 'm/data.pkl' of '{path}' is compressed (method 8), but " \
        "torch.save() stores: load the file with torch and save it again"
    yield "zip-tail", good + b"\0", whole + "has no end record, so it is truncated or no zip archive: copy or download it again"
    yield "zip-alone", good[:4], whole + "has no end record, so it is truncated or no zip archive: copy or download it again"
    yield "file-empty", b"", "'{path}' has 0 bytes, too few for a file of torch.save(): copy or download it again"
    yield "file-legacy", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", \
        "'{path}' is not a zip archive, as torch.save() writes since 1.6: load it with torch and save it again"
    for n in range(4, len(good), 29):
        yield f"truncated-{n}", good[:n], "*"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for make in (tensors, dicts, globals_and_opcodes, machine, zips):
        for name, content, message in make():
            path = out / f"{name}.bin"
            if path.exists():
                sys.exit(f"two cases are called {name}")
            path.write_bytes(content)
            (out / f"{name}.expected").write_text(message.replace("{path}", str(path)) + "\n")


if __name__ == "__main__":
    main()
