#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
