#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Files of the source that are not weights are known by their contents: a finished job copies again what changed, without
# touching the weights, and its output is newer than the source then, for make.
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
	[ out/config.json -nt in/config.json ] || echo "$1: make would run the command again"
	grep -q '"finished": true' out/fp8conv-manifest.json || echo "$1: not finished"
	snapshot out >../before
	"$FP8CONV" quantize in -o out
	snapshot out | diff ../before - || echo "$1: the second run changed something"
	rm -r new
}
echo '{"chat_template": "second"}' >in/tokenizer_config.json
again "another chat template"
grep -q second out/tokenizer_config.json || echo "the first chat template stayed"
touch -r out/tokenizer_config.json time
echo '{"chat_template": "thirdd"}' >in/tokenizer_config.json
touch -r time in/tokenizer_config.json
again "another chat template of the same size and time"
grep -q thirdd out/tokenizer_config.json || echo "the second chat template stayed"
echo terms >in/LICENSE
mkdir in/more && echo deep >in/more/notes.txt
again "new files"
rm in/LICENSE
again "a file that is gone"
[ ! -e out/LICENSE ] || echo "a license that is gone stayed"
sed -i 's/"rope_theta": [0-9.]*/"rope_theta": 12345.0/' in/config.json
again "another config.json"
grep -q 12345 out/config.json || echo "the first config.json stayed"
sleep 0.1
touch in/config.json
again "the same config.json"
sleep 0.1
touch in/tokenizer.json
again "the same tokenizer"

# Copies that were edited stay, unless their source changes; also where it is gone.
echo mine >out/generation_config.json
echo terms >in/LICENSE
"$FP8CONV" quantize in -o out
grep -qx mine out/generation_config.json || echo "an edited copy was replaced"
echo mine >out/LICENSE
rm in/LICENSE
"$FP8CONV" quantize in -o out
grep -qx mine out/LICENSE || echo "an edited copy was removed"
echo '{}' >in/generation_config.json
"$FP8CONV" quantize in -o out
cmp in/generation_config.json out/generation_config.json

# Names and sizes of the finished weights are all that is looked at.
cp out/model.safetensors good
printf '\001' | dd of=out/model.safetensors bs=1 seek=20000 conv=notrunc status=none
cmp -s good out/model.safetensors && echo "no byte was changed"
cp out/model.safetensors changed
echo '{"eos_token_id": 2}' >in/generation_config.json
"$FP8CONV" quantize in -o out
cmp changed out/model.safetensors
cp good out/model.safetensors
rm good changed

# Parts leave it to a run without --part.
snapshot out >../before
echo '{"eos_token_id": 1}' >in/generation_config.json
"$FP8CONV" quantize in -o out --part 1/1
snapshot out | grep -v '^\.fp8conv' | diff ../before -
"$FP8CONV" quantize in -o out
cmp in/generation_config.json out/generation_config.json

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
rm -r ../before time

# A config.json that changes what is quantized makes the weights follow; files whose plan it does not change stay.
mkdir fused
python3 "$CLI/checkpoint.py" make fused/model-00001-of-00002.safetensors a.0.qkv_proj.weight=BF16:256x128
python3 "$CLI/checkpoint.py" make fused/model-00002-of-00002.safetensors a.0.up_proj.weight=BF16:256x128
echo '{"weight_map": {"a.0.qkv_proj.weight": "model-00001-of-00002.safetensors",
	"a.0.up_proj.weight": "model-00002-of-00002.safetensors"}}' >fused/model.safetensors.index.json
echo '{"num_attention_heads": 4, "num_key_value_heads": 2}' >fused/config.json
"$FP8CONV" quantize fused -o parts
python3 "$CLI/checkpoint.py" list parts | cut -f 1,2 | head -n 1
inode=$(stat -c %i parts/model-00002-of-00002.safetensors)
echo '{}' >fused/config.json
"$FP8CONV" quantize fused -o parts --json >j
json j 'j["files_written"] == 1 and j["files_found"] == 1'
python3 "$CLI/checkpoint.py" list parts | cut -f 1,2 | head -n 1
[ "$inode" = "$(stat -c %i parts/model-00002-of-00002.safetensors)" ] || echo "a file without a change was written again"
"$FP8CONV" quantize fused -o new
same new parts

# Also where the file keeps its size: one of two weights takes the place of the other.
mkdir swap
python3 "$CLI/checkpoint.py" make swap/model.safetensors blocks.0.self_attentio.qkv_proj.weight=BF16:256x128 \
	model.layers.0.self_attn.o_proj.weight=BF16:256x128
echo '{"model_type": "step3p5"}' >swap/config.json
"$FP8CONV" quantize swap -o swapped
size=$(stat -c %s swapped/model.safetensors)
echo '{"num_attention_heads": 4, "num_key_value_heads": 2}' >swap/config.json
"$FP8CONV" quantize swap -o swapped
[ "$size" = "$(stat -c %s swapped/model.safetensors)" ] || echo "the sizes differ, which says it too"
"$FP8CONV" quantize swap -o swapped-new
same swapped-new swapped

#1> a.0.qkv_proj.weight	BF16
#1> a.0.qkv_proj.weight	F8_E4M3
