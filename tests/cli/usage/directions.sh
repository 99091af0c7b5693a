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

mkdir then
cd then
# What can be refused before the model is looked at: it does not exist.
q=' quantize: '
fails 2 "${q}option '--recipe': unknown recipe 'blokwise' (did you mean 'blockwise'?)" quantize in -o out --recipe blokwise
fails 2 "${q}option '--recipe': 'int4' is not FP8, which is all that fp8conv writes: use llm-compressor" quantize in -o out --recipe int4
fails 2 "${q}option '--tensor': unknown recipe 'mxfp' (did you mean 'mxfp8'?)" quantize in -o out --tensor 'a=b=mxfp'
fails 2 "${q}unknown format 'compresed-tensors' (did you mean 'compressed-tensors'?)" quantize in -o out --format compresed-tensors
fails 2 "${q}option '--format': 'gguf' is not FP8, *" quantize in -o out --format gguf
fails 2 "${q}unknown backend 'avx1024' (see 'fp8conv version')" quantize in -o out --backend avx1024
for option in --recipe=delayed '--tensor=x=delayed'; do
	fails 2 "${q}recipe 'delayed' needs an amax history: run 'fp8conv calibrate MODEL --data FILE -o stats.amax' and give \
it with --calibration stats.amax" quantize in -o out $option
done
fails 2 "${q}option '--kv-cache' needs an amax history: run 'fp8conv calibrate MODEL *" quantize in -o out --kv-cache
fails 2 "${q}option '--amax-algo' requires '--calibration'" quantize in -o out --amax-algo max
fails 2 "${q}option '--uncovered' requires '--calibration'" quantize in -o out --uncovered error
fails 2 "${q}option '--min-tokens' requires '--calibration'" quantize in -o out --min-tokens 3
for bad in '' min percentile percentile= percentile=0 percentile=0.0000001 percentile=100.000001 percentile=1000 percentile=.5 \
	percentile=5. percentile=1.1.1 percentile=-1 percentile=1e1 percentile=99.9x percentile=99.1234567; do
	fails 2 "${q}option '--amax-algo': '$bad' is not max, most-recent, mse or percentile=P *" quantize in -o out "--amax-algo=$bad"
done
fails 2 "${q}option '--uncovered': 'ignore' is not one of error, group-max, dynamic, skip*" quantize in -o out --uncovered ignore
for bad in 0 -1 x 9223372036854775808; do
	fails 2 "${q}option '--min-tokens': '$bad' is not a number from 1 to 9223372036854775807" quantize in -o out "--min-tokens=$bad"
done
fails 2 "${q}options '--output -' and '--json' cannot be combined: both write to standard output" quantize in -o - --json
fails 2 "${q}*--mx-scale*'blockwise'*" quantize in -o out --mx-scale floor
fails 2 "${q}*--scale-fmt*'mxfp8'*" quantize in -o out --recipe mxfp8 --scale-fmt float
fails 2 "${q}*--scale-arith*" quantize in -o out --scale-arith deepseek
for bad in -1 1.5 x '' 1000; do
	fails 2 "${q}*--margin*'$bad'*" quantize in -o out "--margin=$bad"
done
for bad in -1 nan inf x '' 1e99 1x; do
	fails 2 "${q}*--amax-epsilon*'$bad'*" quantize in -o out "--amax-epsilon=$bad"
done
[ -z "$(ls)" ] || ls

mkdir next
cd next
# No command, an unknown one, and --version.
fails 2 ": no command given (see 'fp8conv --help')"
fails 2 ": unknown command 'quantise' (did you mean 'quantize'?)" quantise
fails 2 ": unknown command 'inspct' (did you mean 'inspect'?)" inspct MODEL
fails 2 ": unknown command 'frobnicate' (see 'fp8conv --help')" frobnicate
fails 2 ": unknown command 'quantise' (did you mean 'quantize'?)" help quantise
fails 2 ": unknown option '--recipe' (see 'fp8conv --help')" --recipe
fails 2 ": unknown command '' (see 'fp8conv --help')" ''
fails 2 ": unexpected argument 'inspect'" help quantize inspect
fails 2 ": unknown command 'a?b' (see 'fp8conv --help')" 'a
b'
"$FP8CONV" --version | grep -Eqx 'fp8conv [0-9]+\.[0-9]+\.[0-9]+' || "$FP8CONV" --version
