#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every file against the SHA-256 that quantize recorded: what differs, lacks, or was added; of the source too, where it is given.
need "$SAMPLES/tiny-llama" "sha256sum()"
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
"$FP8CONV" quantize model -o out --manifest
"$FP8CONV" verify out --manifest --source model
# The hashes are those of other people's program.
(cd out && find . -type f ! -name 'fp8conv*' ! -name '.*' -printf '%P\n' | sort | xargs sha256sum) | sed 's/  / /' >wanted
python3 -c '
import json
for f in json.load(open("out/fp8conv-manifest.json"))["files"]: print(f["sha256"], f["name"])' | diff wanted -

# One byte, and no length: only a hash shows it.
printf '\377' | dd of=out/tokenizer.json bs=1 seek=7 conv=notrunc 2>/dev/null
printf ' ' >>out/config.json
rm out/generation_config.json
mkdir out/more && echo hello >out/more/README.md
"$FP8CONV" verify out --manifest | sed 's/[0-9]* bytes, but [0-9]*/N bytes, but N/; s/SHA-256 [0-9a-f]*/SHA-256 H/; s/but [0-9a-f]*\.\.\./but H.../'
"$FP8CONV" verify out
"$FP8CONV" verify out --manifest --json >j
json j '[(p["kind"], p["file"], p["tensor"]) for p in j["problems"]] == [("file-changed", "config.json", None),
	("file-missing", "generation_config.json", None), ("file-changed", "tokenizer.json", None), ("file-unlisted", "more/README.md", None)]'
rm -rf out

# The source, which is looked at only where it is given.
"$FP8CONV" quantize model -o out --manifest
"$FP8CONV" verify out --manifest --source "$SAMPLES/tiny-llama"
size=$(stat -c %s model/model.safetensors)
printf '\001' | dd of=model/model.safetensors bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
"$FP8CONV" verify out --manifest
"$FP8CONV" verify out --manifest --source model | grep -o 'model.safetensors: file-changed: .* has SHA-256'

# Its other files too: one that differs, one that is gone, and a new one.
cp "$SAMPLES/tiny-llama/model.safetensors" model/model.safetensors
"$FP8CONV" verify out --manifest --source model
echo '{"chat_template": "second"}' >model/tokenizer_config.json
printf ' ' >>model/config.json
rm model/generation_config.json
echo terms >model/LICENSE
"$FP8CONV" verify out --manifest
"$FP8CONV" verify out --manifest --source model --json >j
json j '[(p["kind"], p["file"]) for p in j["problems"]] == [("file-changed", "config.json"),
	("file-missing", "generation_config.json"), ("file-changed", "tokenizer_config.json"), ("file-unlisted", "LICENSE")]' \
	'all("the source" in p["message"] for p in j["problems"])'
"$FP8CONV" quantize model -o out --manifest
"$FP8CONV" verify out --manifest --source model | cat

# No manifest with hashes, and one that names files elsewhere.
sed -i 's,"name": "config.json",".name": "../model/config.json",; s,"\.name,"name,' out/fp8conv-manifest.json
fails 3 " verify: 'out/fp8conv-manifest.json' has an invalid record of '../model/config.json': it needs a SHA-256 and a path inside the directory" \
	verify out --manifest
"$FP8CONV" quantize model -o plain
fails 3 " verify: 'plain' has no fp8conv-manifest.json with the SHA-256 of its files: 'fp8conv quantize --manifest' writes it" \
	verify plain --manifest
fails 3 " verify: 'plain/model.safetensors' has no fp8conv-manifest.json*" verify plain/model.safetensors --manifest
