#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Files of torch.save() in the forms that zip and pickle allow: the bytes that the same weights give from safetensors.
need "$SAMPLES"
python3 - "$CLI/../../sample_checkpoints" <<'END'
import io, pathlib, pickle, random, struct, sys, zipfile
import checkpoint
sys.path.append(sys.argv[1])
import broken_torch as b

NAME, N = "model.layers.0.mlp.down_proj.weight", 256 * 256
values = b"".join(struct.pack("<f", random.Random(5).uniform(-1, 1) * (1 + i % 7)) for i in range(N))
body = {"data/0": values}
store = b.storage(n=N)
weight = b.tensor(store, shape=(256, 256), strides=(256, 1))
good = b.archive(b.state(b.named(NAME, weight)), body)
text = NAME.encode()

def comment(data, words):
    return data[:-2] + struct.pack("<H", len(words)) + words

def without_crc(data):
    """As torch writes where set_crc32_options() says that it computes none."""
    at = struct.unpack("<I", data[-6:-2])[0]
    while (at := data.find(b"PK\1\2", at)) >= 0:
        data = b.patched(data, at + 16, bytes(4))
        at += 46
    return data

def protocol(number, memo):
    """The dict by other opcodes for texts, tuples and the memo; framed where there are frames."""
    name = b"\x8c" + bytes([len(text)]) + text if number >= 4 else b.text(NAME)
    key = name + (b"" if not memo else b"\x94" if number >= 4 else b"q\x00")
    glob = (b"\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93" if number >= 4 else b.REBUILD)
    tensor = glob + b.tup(store, b"K\x00", b"M\x00\x01M\x00\x01\x86", b"\x8a\x02\x00\x01K\x01\x86", b"\x89", b.HOOKS) + b"R"
    code = b"}" + key + tensor + b"s."
    frame = b"\x95" + struct.pack("<Q", len(code)) if number >= 4 else b""
    return b.archive(b"\x80" + bytes([number]) + frame + code, body)

untyped = b.storage("UntypedStorage", n=4 * N, module="torch.storage")
typed = b.tensor(untyped, shape=(256, 256), strides=(256, 1), call=b.V3, more=b.glob("torch", "float32"))
later = b.tensor(b.storage(n=N + 5), offset=5, shape=(256, 256), strides=(256, 1))
turned = struct.pack(f"<{N}f", *(struct.unpack_from("<f", values, 4 * (256 * c + r))[0] for r in range(256) for c in range(256)))
files = {
    "plain": good,
    "comment": comment(good, b"a comment"),
    "comment-with-end": comment(good, b"PK\5\6" + bytes(18) + b"tail"),
    "zip64": b.zip64(good),
    "no-crc": without_crc(good),
    "protocol-2-memo": protocol(2, True),
    "protocol-3": protocol(3, False),
    "protocol-4": protocol(4, True),
    "protocol-5": protocol(5, False),
    "untyped": b.archive(b.state(b.named(NAME, typed)), body),
    "parameter": b.archive(b.state(b.named(NAME, b.glob("torch._utils", "_rebuild_parameter") + b.tup(weight, b"\x88", b.HOOKS) + b"R")), body),
    "ordered": b.archive(b"\x80\x02" + b.HOOKS + b"(" + b.named(NAME, weight) + b"u}(" + b.named("_metadata", b"}") + b"ub.", body),
    "inner": b.archive(b.state(b.named("step", b"G" + struct.pack(">d", 0.5)), b.named("big", b"\x8a\x09" + bytes(8) + b"\x7f"),
                               b.named("state_dict", b"}(" + b.named(NAME, weight) + b"u")), body),
    "size": b.archive(b.state(b.named(NAME, b.REBUILD + b.tup(store, b.num(0), b.glob("torch", "Size") + b.tup(b.tup(b.num(256), b.num(256))) + b"R",
                                                             b.tup(b.num(256), b.num(1)), b"\x89", b.HOOKS) + b"R")), body),
    "later": b.archive(b.state(b.named(NAME, later)), {"data/0": bytes(20) + values}),
    "turned": b.archive(b.state(b.named(NAME, b.tensor(store, shape=(256, 256), strides=(1, 256)))), {"data/0": turned}),
    "no-byteorder": b.archive(b.state(b.named(NAME, weight)), body, order=""),
    "list": b.archive(b.state(b.named("history", b"](K\x01K\x02eK\x03a"), b.named(NAME, weight)), body),
    "other-state": b.archive(b.state(b.named("x", b.glob("_io", "BytesIO") + b")\x81"), b.named(NAME, weight)), body),
}
for name, data in files.items():
    pathlib.Path(name).mkdir()
    pathlib.Path(name, "pytorch_model.bin").write_bytes(data)
# A changed byte of a weight, and of its name.
for name, place, new in (("weight", good.index(values) + 1003, bytes([good[good.index(values) + 1003] ^ 128])), ("name", good.index(b"layers"), b"m")):
    pathlib.Path(f"{name}.bin").write_bytes(b.patched(good, place, new))
pathlib.Path("weight-no-crc.bin").write_bytes(without_crc(pathlib.Path("weight.bin").read_bytes()))
pathlib.Path("wanted").mkdir()
checkpoint.write("wanted/model.safetensors", {NAME: ("F32", [256, 256], values)}, {"format": "pt"})
END
"$FP8CONV" quantize wanted -o wanted-out 2>/dev/null
for file in */pytorch_model.bin; do
	name=${file%/*}
	"$FP8CONV" quantize "$file" -o "$name-out" --quiet
	same wanted-out "$name-out"
done

# By the CRC-32 of the archive: of the pickle always, of weights where all of the file is read.
fails 3 " quantize: member 'm/data.pkl' of 'name.bin' has the CRC-32 ????????, but states ????????: copy or download it again" quantize name.bin -o none
"$FP8CONV" verify plain-out --source plain/pytorch_model.bin | grep -v "^config.json: "
fails 3 " verify: member 'm/data/0' of 'weight.bin' has the CRC-32 ????????, but states ????????: copy or download it again" \
	verify plain-out --source weight.bin
"$FP8CONV" verify plain-out --source weight-no-crc.bin | grep -v "^config.json: " | cut -d: -f 1-2

# A download that did not begin, and a directory that lost the file with the places of its tensors.
mkdir begun lost && : >begun/pytorch_model.bin && : >lost/__0_0.distcp
fails 3 " inspect: 'begun/pytorch_model.bin' has 0 bytes, too few for a file of torch.save(): copy or download it again" inspect begun --from-torch
fails 3 " inspect: found no file of torch.save() and no .metadata of torch.distributed in 'lost'" inspect lost --from-torch

mkdir next
cd next
# .metadata and .distcp: the bytes that safetensors give; what is damaged is refused by name.
python3 - <<'END'
import pathlib
import checkpoint, distcp
pathlib.Path("wanted").mkdir()
checkpoint.write("wanted/model.safetensors", {distcp.NAME: ("F32", [distcp.ROWS, distcp.COLS], distcp.VALUES)}, {"format": "pt"})
END
"$FP8CONV" quantize wanted -o wanted-out --quiet
for kind in good model step; do
	python3 "$CLI/distcp.py" $kind $kind
	"$FP8CONV" quantize $kind -o $kind-out --from-torch --quiet
	same wanted-out $kind-out
done
"$FP8CONV" quantize good/__1_0.distcp -o by-part --quiet
same wanted-out by-part
python3 "$CLI/distcp.py" kinds >kinds
while read -r kind; do
	message=$(python3 "$CLI/distcp.py" "$kind" "$kind")
	fails 3 " quantize: $message" quantize "$kind/.metadata" -o no
done <kinds
[ ! -e no ] || echo "a refused checkpoint left an output"

#1> model.safetensors: code-mismatch
