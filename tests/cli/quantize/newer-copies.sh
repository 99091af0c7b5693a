#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A finished job is finished again where config.json or a file that is copied became newer than it: make compares times.
need "$SAMPLES/tiny-llama"
cp -r "$SAMPLES/tiny-llama" in
"$FP8CONV" quantize in -o out
inode=$(stat -c %i out/model.safetensors)

# again WHAT: the output is that of a new job, with the weights that were there; a second run changes nothing.
again() {
	"$FP8CONV" quantize in -o out || echo "$1: failed"
	"$FP8CONV" quantize in -o new
	same new out
	[ "$inode" = "$(stat -c %i out/model.safetensors)" ] || echo "$1: the weights were written again"
	snapshot out >../before
	"$FP8CONV" quantize in -o out
	snapshot out | diff ../before - || echo "$1: the second run changed something"
	rm -r new
}
# Only config.json, which decides what is quantized, makes the run compare the weights with the source: they differ
# here, but for size and times.
cp -r in other
"$FP8CONV" quantize other -o out2
touch -r other/model.safetensors time
size=$(stat -c %s other/model.safetensors)
printf '\177\177\177\177' | dd of=other/model.safetensors bs=1 seek=$((size - 5000)) conv=notrunc status=none
touch -r time other/model.safetensors
touch other/tokenizer_config.json
"$FP8CONV" quantize other -o out2
touch other/config.json
fails 2 " quantize: 'out2' holds the output of another job: the contents of the input differ*" quantize other -o out2
rm -r other out2 time

echo '{"chat_template": "second"}' >in/tokenizer_config.json
again "another chat template"
grep -q second out/tokenizer_config.json || echo "the first chat template stayed"
echo terms >in/LICENSE
again "a new file"
sed -i 's/"rope_theta": [0-9.]*/"rope_theta": 12345.0/' in/config.json
again "another config.json"
grep -q 12345 out/config.json || echo "the first config.json stayed"
touch in/config.json
again "the same config.json"
[ out/config.json -nt in/config.json ] || echo "make would run the command again"

# Parts, which compare no contents, leave it as it is.
touch in/config.json
snapshot out >../before
"$FP8CONV" quantize in -o out --part 1/1
snapshot out | grep -v '^\.fp8conv' | diff ../before -
rm ../before
