#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A standard output that ends early: the first write is short, as with a limit or a file system that is nearly full, and only the
# next one has the reason.  Whatever was printed, the status is 4, or 0 and all of it.
. "$CLI/lib.sh"
need "$SAMPLES/tiny-llama"
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --quiet
cat >cut.py <<'PYTHON'
import os, resource, subprocess, sys

program, model = os.environ["FP8CONV"], os.environ["SAMPLES"] + "/tiny-llama"


def limited(n):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))


for words in ("--help", "help quantize", "quantize --help", "recipes", "recipes --json", "formats", "families", "inspect out", "inspect out --json",
              "verify out --source MODEL", "verify out --source MODEL --json", "quantize MODEL -o none --dry-run", "completion bash",
              "version", "--version"):
    args = [program, *words.replace("MODEL", model).split()]
    whole = subprocess.run(args, capture_output=True)
    size = len(whole.stdout)
    for limit in sorted({n for n in (1, 100, 1024, 4096, 5000, size - 1, size) if 0 <= n <= size}):
        with open("cut", "wb") as cut:
            result = subprocess.run(args, stdout=cut, stderr=subprocess.PIPE, preexec_fn=limited(limit))
        said = result.stderr.decode()
        if limit == size:
            good = result.returncode == whole.returncode and not said.count("standard output") and os.path.getsize("cut") == size
        else:
            good = result.returncode == 4 and said.endswith("cannot write standard output: File too large\n")
        if not good:
            print(f"{words}: {limit} of {size} bytes: status {result.returncode}, {said}")
PYTHON
python3 cut.py
