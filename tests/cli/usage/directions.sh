#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Characters that change the direction or the line of what a terminal shows reach none, as control characters do not: in names of
# tensors and files, in values of configuration, in messages and in tables.  JSON has them as escapes.
need "$SAMPLES/tiny-llama"
cat >directions.py <<'PYTHON'
import json, os, shutil, subprocess
import checkpoint

program = os.environ["FP8CONV"]
EVIL = "\u202eab\u2066c\u200f\u2028d\u202ce\u2069\u200e\u2029f\u202a"
BAD = {chr(c) for c in [*range(0x202a, 0x202f), *range(0x2066, 0x206a), 0x200e, 0x200f, 0x2028, 0x2029, 0x1b, 0x9b]}
os.mkdir("m")
name = f"model.layers.0.mlp.{EVIL}.weight"
tensors = {name: ("BF16", [128, 128], b"\x80\x3f" * 16384), EVIL: ("BF16", [4], b"\x80\x3f" * 4)}
checkpoint.write("m/model.safetensors", tensors)
json.dump({"model_type": EVIL, "architectures": [EVIL]}, open("m/config.json", "w"))
open(f"m/{EVIL}.txt", "w").write("x")
commands = [["quantize", "m", "-o", "o", "-v"], ["quantize", "m", "-o", "n", "--dry-run"], ["inspect", "m"], ["inspect", "m", "--json"],
            ["inspect", "o", "--stats"], ["verify", "o", "--source", "m", "-v"], ["verify", "o", "--manifest"], ["verify", "o", "--json", "--source", "m"],
            ["calibrate", "m", "--data", "m/config.json", "-o", "s.amax"], ["report", "o", "-o", "card"], ["inspect", EVIL], ["families", "m"],
            ["verify", "bad"], ["verify", "bad", "--json"], ["quantize", "bad", "-o", "p"], [EVIL]]


def run(args):
    result = subprocess.run([program, *args], capture_output=True, text=True)
    found = BAD & set(result.stdout + result.stderr)
    if found:
        print(f"{args}: {sorted(map(hex, map(ord, found)))}: {result.stdout!r} {result.stderr!r}")
    if args[-1] == "--json":
        json.loads(result.stdout)
    return result


if run(commands[0]).returncode:
    print("the model is not converted")
shutil.copytree("o", "bad")
config = json.load(open("bad/config.json"))
config["quantization_config"].update(fmt=EVIL, scale_fmt=EVIL, quant_method=EVIL)
json.dump(config, open("bad/config.json", "w"))
open(f"o/\x1b[31m{EVIL}.json", "w").write("{}")
subprocess.run([program, "quantize", "m", "-o", "hashed", "--manifest", "-q"], check=True)
open(f"hashed/\x1b[31m{EVIL}.json", "w").write("{}")
for args in commands + [["verify", "hashed", "--manifest"]]:
    run(args)
PYTHON
python3 directions.py

mkdir next
cd next
fails 3 " quantize: *'nowhere'*: No such file or directory" quantize nowhere -o out
fails 3 " quantize: *'nowhere'*: No such file or directory" quantize nowhere --dry-run
fails 3 " inspect: *'nowhere'*: No such file or directory" inspect nowhere
fails 3 " inspect: *'nowhere?'*: No such file or directory" inspect 'nowhere
'
fails 3 " inspect: *''*: No such file or directory" inspect ''
mkdir empty
: >file
fails 3 " inspect: *'empty*" inspect empty
fails 3 " quantize: *'empty*" quantize empty -o out
fails 3 " inspect: *'file'*" inspect file
fails 3 " inspect: *'file/x'*: Not a directory" inspect file/x
mkfifo fifo
fails 3 " inspect: *'fifo'*" inspect fifo
fails 3 " inspect: *'/dev/null'*" inspect /dev/null
[ ! -e out ] || echo "out was made"
# What must be a file cannot be standard output, and "-" is no file's name.
for command in 'calibrate m --data d.txt' 'sensitivity m --data d.txt' 'merge a.amax b.amax' 'report m'; do
	# shellcheck disable=SC2086
	fails 2 " ${command%% *}: option '--output': '-' (standard output) is not supported here: name a file or directory" \
		$command -o -
done
[ ! -e ./- ] || echo "a file '-' was made"
