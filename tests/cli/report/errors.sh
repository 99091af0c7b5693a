#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What report refuses; it leaves no directory behind then.
need "$SAMPLES/tiny-llama" "$SAMPLES/amax/tiny-llama-1.amax"
c=" report: "
model=$SAMPLES/tiny-llama
"$FP8CONV" quantize "$model" -o out
fails 2 "${c}option '--output' is missing: give a directory for README.md and report.html (-o DIR), or --dry-run" report out
fails 2 "${c}a stream has no configuration to report on: give a directory or a file" report - -o r
fails 3 "${c}cannot open 'none'*" report none -o r
fails 3 "${c}'$model' has no FP8 weights: give a checkpoint that 'fp8conv quantize' or another tool has quantized" \
	report "$model" -o r
fails 3 "${c}*none*" report out --source none -o r
fails 3 "${c}cannot open 'none': No such file or directory" report out --eval none -o r
fails 3 "${c}cannot open 'none': No such file or directory" report out --calibration none -o r
fails 3 "${c}header of '$model/config.json' is *" report out --calibration "$model/config.json" -o r
echo '{"perplexity": {"value": 1, "se": 1' >cut.json
fails 3 "${c}'cut.json' is not a result of 'fp8conv eval --json': *" report out --eval cut.json -o r
echo '[]' >list.json
fails 3 "${c}'list.json' is not a result of 'fp8conv eval --json': it is not an object" report out --eval list.json -o r
"$FP8CONV" inspect out --json >inspect.json
fails 3 "${c}'inspect.json' is not a result of 'fp8conv eval --json': 'perplexity' is missing" \
	report out --eval inspect.json -o r
: >empty.json
fails 3 "${c}'empty.json' is not a result of 'fp8conv eval --json': *" report out --eval empty.json -o r
truncate -s 65M large.json
fails 3 "${c}'large.json' is 68157440 bytes long, more than the limit (67108864)" report out --eval large.json -o r
mkfifo fifo
fails 3 "${c}'fifo' is not a regular file" report out --eval fifo -o r

# An amax file that is damaged, or of another model.
head -c 200 "$SAMPLES/amax/tiny-llama-1.amax" >cut.amax
fails 3 "${c}header of 'cut.amax' is 6464 bytes long, past the end of the file (200)" report out --calibration cut.amax -o r
cp -r "$model" other
chmod -R u+w other
python3 "$CLI/checkpoint.py" flip other/model.safetensors model.norm.weight
fails 3 "${c}'$SAMPLES/amax/tiny-llama-1.amax' belongs to another model: its fingerprint is '*', but that of 'other' is '*'" \
	report out --source other --calibration "$SAMPLES/amax/tiny-llama-1.amax" -o r

# A checkpoint that changed under its header, and one that is not whole.
cp -r out part
head -c 100000 out/model.safetensors >part/model.safetensors
fails 3 "${c}*part/model.safetensors*" report part -o r
[ -e r ] && echo "r was left"

# The output.
: >file
fails 3 "${c}*'file'*" report out -o file
mkdir mine
echo mine >mine/README.md
fails 2 "${c}'mine' contains 'README.md', which is not as fp8conv wrote it: choose another output, or --restart to overwrite" \
	report out -o mine
mkdir page
echo mine >page/report.html
fails 2 "${c}'page' contains 'report.html', which is not as fp8conv wrote it: choose another output, or --restart to overwrite" \
	report out -o page
mkdir -p folder/README.md
fails 2 "${c}'folder' contains 'README.md', which is not as fp8conv wrote it: *" report out -o folder
fails 4 "${c}*'folder/README.md'*" report out -o folder --restart --quiet
"$FP8CONV" report out -o mine --restart --quiet
python3 "$CLI/page.py" whole mine
