#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
# value OPTION VALUE MESSAGE: the value must be refused so, before anything is read.
value() {
	fails 2 " quantize: option '$1': '$2' is $3" quantize in -o out "$1=$2"
	fails 2 " quantize: option '$1': '$2' is $3" quantize "$1" "$2" in -o out
}
threads='not a number from 1 to 1024'
for bad in 0 1025 -1 +1 1.0 1e5 1e 0x10 ' 1' '1 ' 1x '' one 99999999999999999999 18446744073709551617; do
	value --threads "$bad" "$threads"
	value --tp "$bad" "$threads"
done
size='not a size (bytes, or a number with K, M, G or T: 512M, 1.5G)'
for bad in 0 0K 0KB -1 16384T 1TBB 1B 1iB 1Ki 1KBB 1kib2 1.5 1,5G 0x10 0x1p4 inf nan .5G M '' ' 1M' '1 M' 1MM 17179869184G 18446744073709551616 99999999999999999999999; do
	value --max-memory "$bad" "$size"
	value --max-shard-size "$bad" "$size"
done
value --target vlm "not one of vllm, sglang, trtllm, transformers (did you mean 'vllm'?)"
value --target llama.cpp 'not one of vllm, sglang, trtllm, transformers'
value --target '' 'not one of vllm, sglang, trtllm, transformers'
value --target 'vllm|sglang' 'not one of vllm, sglang, trtllm, transformers'
value --fp8-format e3m4 "not one of e4m3, e5m2"
value --scale-fmt ue8m1 "not one of ue8m0, float (did you mean 'ue8m0'?)"
value --scale-arith deepseak "not one of te, deepseek, deepgemm (did you mean 'deepseek'?)"
value --mx-scale floot "not one of up, floor, even (did you mean 'floor'?)"
value --on-nonfinite explode 'not one of error, saturate, skip'
value --on-nonfinite sturate "not one of error, saturate, skip (did you mean 'saturate'?)"
value --progress fast 'not one of auto, bar, json, none'
value --progress jsn "not one of auto, bar, json, none (did you mean 'json'?)"
for bad in abc =mxfp8 =skip abc= =; do
	value --tensor "$bad" 'not RE=RECIPE or RE=skip'
done
for bad in 0/2 3/2 1/0 1 1/ /2 1/2/3 -1/2 1/2x 1/1000001 end '' 'finish '; do
	value --part "$bad" "not I/N with I from 1 to N, 'auto' or 'finish'"
done
[ -z "$(ls)" ] || ls
# Sizes are binary, however they are written.
need "$SAMPLES/tiny-llama"
plan() {
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" --dry-run --json --threads 1 --max-memory "$1"
}
fails 2 " quantize: option '--output': '~/x' would be in a directory named '~', *: give '--output ~/x', or \$HOME" \
	quantize "$SAMPLES/tiny-llama" "--output=~/x"
plan 29360128 >bytes
plan 28672K | cmp - bytes
for size in 28M 28m 28MB 28mb 28MiB 28mib 0.02734375G 2.8e1M; do plan $size | cmp - bytes; done
! plan 28000000 | cmp -s - bytes || echo "--max-memory 28000000 has the plan of 28M"

mkdir "$top/objects"
cd "$top/objects"
# --progress=json and --progress-fd write lines of JSON and nothing else: progress, notes, errors.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
cat >lines.py <<'END'
import json, sys
objects = [json.loads(line) for line in open(sys.argv[1])]
kinds = ["note" if "note" in o else "error" if "error" in o else "progress" for o in objects]
print(sys.argv[1], *sorted(set(kinds)), kinds[-1], *{o["schema"] for o in objects}, *[o["status"] for o in objects if "status" in o])
END
lines() {
	python3 lines.py "$1"
}
model=$SAMPLES/tiny-llama
"$FP8CONV" quantize "$model" -o noted --recipe mxfp8 --progress=json 2>noted.json
lines noted.json
"$FP8CONV" quantize "$model" -o quiet --recipe mxfp8 -q --progress json 2>quiet.json
lines quiet.json
"$FP8CONV" quantize "$model" -o verbose -v --progress=json 2>verbose.json
lines verbose.json
"$FP8CONV" quantize nowhere -o x --progress=json 2>missing.json
lines missing.json
# An error of the command line, also one before the option.
"$FP8CONV" quantize --bogus --progress=json 2>bogus.json
lines bogus.json
"$FP8CONV" bogus --progress=json 2>command.json
lines command.json
# Standard error keeps its text beside a descriptor.
"$FP8CONV" quantize "$model" -o apart --recipe mxfp8 --progress-fd 3 3>apart.json 2>apart.txt
lines apart.json
grep -v '^fp8conv quantize: note: ' apart.txt
"$FP8CONV" quantize nowhere -o x --progress-fd=3 3>absent.json 2>absent.txt
lines absent.json
cat absent.txt
fails 2 " quantize: option '--progress-fd': cannot write to descriptor 77: Bad file descriptor" quantize in -o x --progress-fd 77
# --json has an object in the place of the result.
"$FP8CONV" verify nowhere --json >error.json 2>error.txt
json error.json "j['status'] == 3" "j['error'] + '\n' == open('error.txt').read().removeprefix('fp8conv verify: ')"

#1> noted.json note progress note 1
#1> quiet.json progress progress 1
#1> verbose.json note progress note 1
#1> missing.json error progress error 1 3
#1> bogus.json error error 1 2
#1> command.json error error 1 2
#1> apart.json note progress note 1
#1> absent.json error progress error 1 3
#1> fp8conv quantize: cannot open 'nowhere': No such file or directory
