#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Files of the source that are not weights are known by their contents: the same ones make a finished output newer than the
# source, for make; others make another job, which --restart starts.
need "$SAMPLES/tiny-llama"
cp -r "$SAMPLES/tiny-llama" in
mkdir in/more && echo deep >in/more/notes.txt
"$FP8CONV" quantize in -o out
inode=$(stat -c %i out/model.safetensors)

# refused WHAT: and nothing in the output changes.
refused() {
	snapshot out >../before
	fails 2 " quantize: 'out' holds the output of another job: $1 (use --restart to start over)" quantize in -o out
	fails 2 " quantize: 'out' holds the output of another job: $1 (use --restart to start over)" quantize in -o out --part 1/1
	snapshot out | grep -v '^\.fp8conv' | diff ../before -
}
cp -p in/tokenizer_config.json in/config.json .
touch -r in/tokenizer_config.json time
sed -i 's/{/{"chat_template": "other",/; s/, /,/' in/tokenizer_config.json
touch -r time in/tokenizer_config.json
refused "the content of input 'tokenizer_config.json' differs"
cp -p tokenizer_config.json in
echo terms >in/LICENSE
refused "input 'LICENSE' is new"
rm in/LICENSE
mv in/more .
refused "input 'more/notes.txt' is gone"
mv more in
sed -i 's/"rope_theta": [0-9.]*/"rope_theta": 12345.0/' in/config.json
refused "the content of input 'config.json' differs"
cp -p config.json in
rm time tokenizer_config.json config.json

for name in config.json tokenizer.json; do
	sleep 0.1
	touch in/$name
	"$FP8CONV" quantize in -o out || echo "$name, touched: failed"
	[ out/config.json -nt in/$name ] || echo "$name, touched: make would run the command again"
	[ "$inode" = "$(stat -c %i out/model.safetensors)" ] || echo "$name, touched: the weights were written again"
done

# Copies that were edited stay in a finished output, also where a file of weights is made again.
echo mine >out/generation_config.json
"$FP8CONV" quantize in -o out
grep -qx mine out/generation_config.json || echo "an edited copy was replaced"
rm out/model.safetensors
"$FP8CONV" quantize in -o out
grep -qx mine out/generation_config.json || echo "an edited copy was replaced with the weights"
echo terms >in/LICENSE
"$FP8CONV" quantize in -o out --restart
"$FP8CONV" quantize in -o new
same new out
rm -r in/LICENSE new
"$FP8CONV" quantize in -o out --restart
[ -e out/LICENSE ] && echo "a license that is gone stayed"

# Names and sizes of the finished weights are all that is looked at.
cp out/model.safetensors good
printf '\001' | dd of=out/model.safetensors bs=1 seek=20000 conv=notrunc status=none
cmp -s good out/model.safetensors && echo "no byte was changed"
snapshot out >../before
"$FP8CONV" quantize in -o out
snapshot out | diff ../before -
cp good out/model.safetensors
rm good

# The manifest is published: it has nothing of this machine's file system.
python3 - <<'END'
import json, os
inputs = json.load(open("out/fp8conv-manifest.json"))["inputs"]
text = json.dumps(inputs)
st = os.stat("in/model.safetensors")
for secret in ("inode", "ctime", str(st.st_ino), str(st.st_ctime_ns)[-9:]):
    if secret in text and str(st.st_mtime_ns)[-9:] != secret:
        print("the manifest holds", secret)
if [set(i) for i in inputs[:1]] != [{"name", "size", "mtime", "header_crc32", "state"}]:
    print("weights are recorded by", list(inputs[0]))
if sorted(i["name"] for i in inputs[1:]) != ["config.json", "generation_config.json", "more/notes.txt", "tokenizer.json",
                                             "tokenizer_config.json", "train.py"]:
    print("recorded files:", [i["name"] for i in inputs[1:]])
END
rm ../before
