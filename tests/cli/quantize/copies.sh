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

# The same in directories: a copy that is gone from the source goes, one that was edited stays.
mkdir -p in/more/deep && echo one >in/more/deep/one.txt && echo two >in/more/two.txt
python3 "$CLI/checkpoint.py" make in/more/deep/model.safetensors x=F32:2
"$FP8CONV" quantize in -o out --restart
rm -r in/more/deep in/more/two.txt
echo mine >out/more/two.txt
: >out/more/deep/.one.txt.partial
"$FP8CONV" quantize in -o out --restart
(cd out/more && find . ! -type d | sort | paste -s -d ' ')
# Nothing outside the output is written or removed, whatever links lie there and whatever its record says.
planted() {
	rm -rf outside victim out/more
	mkdir -p outside/deep && echo two >outside/two.txt && echo two >outside/deep/two.txt && cp outside/two.txt victim
	mkdir -p in/more/deep && echo two >in/more/two.txt && echo two >in/more/deep/two.txt
	"$FP8CONV" quantize in -o out --restart || echo "$1: no output"
	rm -r in/more/two.txt in/more/deep
	eval "$1"
	echo "$1"
	snapshot outside >../before
	cksum victim >>../before
	"$FP8CONV" quantize in -o out --restart --quiet 2>&1
	{ snapshot outside && cksum victim; } | diff ../before - || echo "$1: changed a file outside"
	mkdir -p in/more/deep && echo new >in/more/deep/two.txt
	"$FP8CONV" quantize in -o out --restart --quiet 2>&1
	{ snapshot outside && cksum victim; } | diff ../before - || echo "$1: changed a file outside"
	rm -r in/more/deep
}
planted "rm -r out/more/deep && ln -s ../../outside out/more/deep"
planted "rm -r out/more && ln -s ../outside out/more"
planted "ln -sf ../../victim out/more/two.txt; ln -sf ../../../victim out/more/deep/two.txt"
planted "ln -sf gone out/more/two.txt; ln -sf ../../../outside/new out/more/deep/two.txt"
planted "ln -s ../../victim out/more/.two.txt.partial; ln -s ../../../victim out/more/deep/.two.txt.partial"
planted "sed -i 's|more/two.txt|../victim|; s|more/deep/two.txt|more/../../victim|' out/fp8conv-manifest.json"
rm -r outside victim out/more
mkdir -p in/more/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16
"$FP8CONV" quantize in -o out --restart
mkdir in/more/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17
fails 3 " quantize: directory 'in/more/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17' is 17 levels deep, more than the limit (16): remove it" \
	quantize in -o out
rm -r in/more/2
"$FP8CONV" quantize in -o out --restart

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

#1> ./notes.txt ./two.txt
#1> rm -r out/more/deep && ln -s ../../outside out/more/deep
#1> fp8conv quantize: cannot open or create directory 'more/deep' in 'out': Not a directory
#1> rm -r out/more && ln -s ../outside out/more
#1> fp8conv quantize: cannot open or create directory 'more' in 'out': Not a directory
#1> fp8conv quantize: cannot open or create directory 'more' in 'out': Not a directory
#1> ln -sf ../../victim out/more/two.txt; ln -sf ../../../victim out/more/deep/two.txt
#1> ln -sf gone out/more/two.txt; ln -sf ../../../outside/new out/more/deep/two.txt
#1> ln -s ../../victim out/more/.two.txt.partial; ln -s ../../../victim out/more/deep/.two.txt.partial
#1> sed -i 's|more/two.txt|../victim|; s|more/deep/two.txt|more/../../victim|' out/fp8conv-manifest.json
