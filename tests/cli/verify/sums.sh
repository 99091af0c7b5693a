#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
