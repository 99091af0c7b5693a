#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every broken sample is refused with its message, but for one that only lacks a file (dequantize/unfinished).
need "python3()"
python3 "$SAMPLES/broken.py" broken
for expected in broken/*.expected; do
	path=${expected%.expected}
	[ "$path" != broken/shard-missing ] || continue
	[ -e "$path" ] || path=$path.safetensors
	"$FP8CONV" inspect "$path" >out 2>err
	status=$?
	[ $status -eq 3 ] || echo "$path: exit status $status"
	[ -s out ] && echo "$path: wrote to stdout"
	printf 'fp8conv inspect: %s\n' "$(cat "$expected")" | diff - err
done

mkdir next
cd next
# Names that are not UTF-8, or that a terminal would obey: of folders and copied files they do not matter, of shards they
# are refused; none is printed as it is.
need "python3()"
python3 "$CLI/checkpoint.py" make m.safetensors up_proj.weight=F32:128x128
folder=$(printf 'm\377')
shard=$(printf 'a\377\033[31m.safetensors')
mkdir "$folder" bad
cp m.safetensors "$folder/model.safetensors"
mv m.safetensors "bad/$shard"
echo x >"$folder/$(printf 'note\376\n\033[31m.txt')"
"$FP8CONV" quantize "$folder" --quiet -o "$(printf 'out\377')"
cmp "$folder/$(printf 'note\376\n\033[31m.txt')" "$(printf 'out\377/note\376\n\033[31m.txt')"
"$FP8CONV" quantize "$folder" --dry-run --json --quiet >j
json j 'j["source"].startswith("m")'
"$FP8CONV" inspect bad --json >j
json j 'j["files"][0]["name"].endswith("[31m.safetensors")'
fails 3 " quantize: the name of input file 'a*?\[31m.safetensors' is not UTF-8: fp8conv-manifest.json cannot record it" \
	quantize bad -o out
fails 3 " quantize: the name of 'note*??\[31m.txt' in 'hashed' is not UTF-8: fp8conv-manifest.json cannot record it" \
	quantize "$folder" --manifest -o hashed
"$FP8CONV" quantize "$folder" --quiet -o hashed
