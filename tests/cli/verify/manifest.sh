#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every file against the SHA-256 that quantize recorded: what differs, lacks, or was added; of the source too, where it is given.
need "$SAMPLES/tiny-llama" "sha256sum()"
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
"$FP8CONV" quantize model -o out --manifest
"$FP8CONV" verify out --manifest --source model
# The hashes come from another program.
(cd out && find . -type f ! -name 'fp8conv*' ! -name '.*' -printf '%P\n' | sort | xargs sha256sum) | sed 's/  / /' >wanted
python3 -c '
import json
for f in json.load(open("out/fp8conv-manifest.json"))["files"]: print(f["sha256"], f["name"])' | diff wanted -

# One byte, and no length: only a hash shows it.
printf '\377' | dd of=out/tokenizer.json bs=1 seek=7 conv=notrunc 2>/dev/null
printf ' ' >>out/config.json
rm out/generation_config.json
mkdir out/more && echo hello >out/more/README.md
"$FP8CONV" verify out --manifest | sed 's/[0-9]* bytes, but [0-9]*/N bytes, but N/; s/SHA-256 [0-9a-f]*/SHA-256 H/; s/but [0-9a-f]*\.\.\./but H.../'
"$FP8CONV" verify out
"$FP8CONV" verify out --manifest --json >j
json j '[(p["kind"], p["file"], p["tensor"]) for p in j["problems"]] == [("file-changed", "config.json", None),
	("file-missing", "generation_config.json", None), ("file-changed", "tokenizer.json", None), ("file-unlisted", "more/README.md", None)]'
rm -rf out

# The source, which is looked at only where it is given.
"$FP8CONV" quantize model -o out --manifest
"$FP8CONV" verify out --manifest --source "$SAMPLES/tiny-llama"
size=$(stat -c %s model/model.safetensors)
printf '\001' | dd of=model/model.safetensors bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
"$FP8CONV" verify out --manifest
"$FP8CONV" verify out --manifest --source model | grep -o 'model.safetensors: file-changed: .* has SHA-256'

# Its other files too: one that differs, one that is gone, and a new one.
cp "$SAMPLES/tiny-llama/model.safetensors" model/model.safetensors
"$FP8CONV" verify out --manifest --source model
echo '{"chat_template": "second"}' >model/tokenizer_config.json
printf ' ' >>model/config.json
rm model/generation_config.json
echo terms >model/LICENSE
"$FP8CONV" verify out --manifest
"$FP8CONV" verify out --manifest --source model --json >j
json j '[(p["kind"], p["file"]) for p in j["problems"]] == [("file-changed", "config.json"),
	("file-missing", "generation_config.json"), ("file-changed", "tokenizer_config.json"), ("file-unlisted", "LICENSE")]' \
	'all("the source" in p["message"] for p in j["problems"])'
"$FP8CONV" quantize model -o out --manifest --restart
"$FP8CONV" verify out --manifest --source model | cat

# No manifest with hashes, and one that names files elsewhere.
sed -i 's,"name": "config.json",".name": "../model/config.json",; s,"\.name,"name,' out/fp8conv-manifest.json
fails 3 " verify: 'out/fp8conv-manifest.json' has an invalid record of '../model/config.json': it needs a SHA-256 and a path inside the directory" \
	verify out --manifest
"$FP8CONV" quantize model -o plain
cat >values.py <<'PYTHON'
# Values that quantize refuses as options, and values of other types: each is named; null, and what is unknown, is nothing.
import json, os, subprocess

program, source = os.environ["FP8CONV"], "model"
path = "plain/fp8conv-manifest.json"
whole = json.load(open(path))


def at(manifest, names):
    for name in names:
        manifest = manifest[int(name) if name.isdigit() else name]
    return manifest


def run(member, value):
    manifest = json.loads(json.dumps(whole))
    *names, last = member.split(".")
    at(manifest, names)[last] = value
    json.dump(manifest, open(path, "w"))
    return [(args[0], subprocess.run([program, *args], capture_output=True, text=True))
            for args in (["verify", "plain", "--source", source], ["verify", "plain"], ["report", "plain", "-o", "card", "--restart"])]


BAD = {"options.scales.amax_epsilon": (-1, 1e39, "1", True, []), "options.scales.margin": (-1, 33, 1000, 2 ** 62, 1.5, "1", {}),
       "options.scales.scale_arith": ("other", 1), "options.scales.mx_scale": ("down", []), "options.scales.pow2": (1, "true"),
       "options.scales.fp8_format": ("e3m4",), "options.scales": ([], 1, "x"), "options": ([], "x"), "options.recipe": (1, []),
       "options.include": ("x", {}), "options.tensor": (1,), "options.rounding": ("nearest", 1), "options.tensors": ([], 1), "rounding": ("compensated", [1]),
       "inputs": ({}, "x"), "inputs.0.size": (-1, "1", 1.5), "inputs.0.name": (1,), "shards": ({}, 1), "shards.0.crc32": (1,), "shards.0.name": ([],),
       "finished": (1, "true"), "command": (1,), "tool": ({},), "version": (1,), "files": ({},)}
for member, values in BAD.items():
    for value in values:
        for command, result in run(member, value):
            name = member.split(".")[-1]
            if result.returncode != 3 or f"{name}' is " not in result.stderr or result.stderr.count("\n") != 1:
                print(f"{command}: {member} {value!r}: status {result.returncode}, {result.stderr}")
GOOD = {"options.scales.amax_epsilon": (0, 0.0, None), "options.scales.margin": (0, None), "rounding": (None,), "files": (None,), "later": ({}, 1),
        "options.later": ([],), "options.scales.later": ("x",)}
for member, values in GOOD.items():
    for value in values:
        for command, result in run(member, value):
            if result.returncode:
                print(f"{command}: {member} {value!r}: status {result.returncode}, {result.stderr}")
for text in ("", "{", "[]", "nonsense", "[" * 1000000):
    open(path, "w").write(text)
    result = subprocess.run([program, "verify", "plain"], capture_output=True, text=True)
    if result.returncode != 3 or "'plain/fp8conv-manifest.json': " not in result.stderr:
        print(f"{text[:20]}: status {result.returncode}, {result.stderr}")
os.remove(path)
PYTHON
python3 values.py
fails 3 " verify: 'plain' has no fp8conv-manifest.json with the SHA-256 of its files: 'fp8conv quantize --manifest' writes it" \
	verify plain --manifest
fails 3 " verify: 'plain/model.safetensors' has no fp8conv-manifest.json*" verify plain/model.safetensors --manifest

mkdir next
cd next
# A file of weights has the CRC-32 that the manifest beside it records: one bit anywhere is found, in the header too.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --quiet
"$FP8CONV" verify out
file=out/model-00001-of-00002.safetensors
python3 - $file <<'END' || echo "a bit is not found"
import json, os, subprocess, sys, zlib

path = sys.argv[1]
data = bytearray(open(path, "rb").read())
start = 8 + int.from_bytes(data[:8], "little")
tensors = {n: t for n, t in json.loads(data[8:start]).items() if n != "__metadata__"}
ends = [t["data_offsets"] for _, t in sorted(tensors.items())]
places = [data.index(b'"format"', 8) + 11]              # of "pt": no name, type or shape
places += [start + at for begin, end in ends for at in (begin, end - 1)]
for at in places[:: max(1, len(places) // 40)] + [len(data) - 1]:
    data[at] ^= 1
    open(path, "wb").write(data)
    done = subprocess.run([os.environ["FP8CONV"], "verify", "out"], capture_output=True, text=True)
    if f"has CRC-32 {zlib.crc32(data):08x}, which is not that in the manifest" not in done.stdout or done.returncode != 1:
        print(at, done)
    data[at] ^= 1
open(path, "wb").write(data)
END
"$FP8CONV" verify out
# One that the manifest does not record is not summed.
rm out/fp8conv-manifest.json
printf '\000' | dd of=$file bs=1 seek=$(($(wc -c <$file) - 1)) conv=notrunc 2>/dev/null
"$FP8CONV" verify out

#1> config.json: file-changed: 'out/config.json' has N bytes, but N in the manifest
#1> generation_config.json: file-missing: 'out/generation_config.json' is in the manifest, but is not a file
#1> tokenizer.json: file-changed: 'out/tokenizer.json' has SHA-256 H..., but H... in the manifest
#1> more/README.md: file-unlisted: the manifest does not list 'out/more/README.md'
#1> model.safetensors: file-changed: the source's 'model/model.safetensors' has SHA-256
