#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Some files of a model are no model: refused as a source, told by inspect and verify.  The manifest says that a job did not
# end; without one, names of files of N or an index do.
need "$SAMPLES/tiny-moe"
one=model-00001-of-00002.safetensors
two=model-00002-of-00002.safetensors

rerun="run the command that began it again"
download="download or copy the missing ones"

# refused DIR N ADVICE: no command takes DIR, which has N of 2 files, for a source.
refused() {
	set -- "$1" "'$1' is unfinished ($2 of 2 files): $3"
	fails 3 " dequantize: $2" dequantize "$1" -o d
	fails 3 " repack: $2" repack "$1" -o r --format compressed-tensors
	fails 3 " quantize: $2" quantize "$1" -o q --requantize
	fails 3 " quantize: $2" quantize "$1" -o q --dry-run
	fails 3 " calibrate: $2" calibrate "$1" --data data.jsonl -o s.amax
	fails 3 " verify: $2" verify whole --source "$1"
	[ ! -e d ] && [ ! -e r ] && [ ! -e q ] && [ ! -e s.amax ] || echo "an unfinished source left an output"
}

# told DIR N ADVICE: inspect and verify show what DIR has, and say it.
told() {
	"$FP8CONV" inspect "$1" >tensors 2>note
	[ $? -eq 0 ] && [ "$(cat note)" = "fp8conv inspect: note: unfinished: $2 of 2 files; $3" ] ||
		echo "inspect $1: $(cat note)"
	"$FP8CONV" inspect "$1" --quiet | diff tensors -
	"$FP8CONV" inspect "$1" --json --quiet >j
	json j "j['unfinished'] == {'files': $2, 'expected': 2}" "len(j['files']) == $2"
	"$FP8CONV" verify "$1" >problems
	[ $? -eq 1 ] && head -n 1 problems | grep -qx "unfinished: $2 of 2 files; $3" ||
		cat problems
}

echo '{"text": "some text"}' >data.jsonl
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o whole
"$FP8CONV" inspect whole --json >j
json j 'j["unfinished"] is None'

# The second half alone, then the first: one problem of each.
for part in 2 1; do
	"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o part --part $part/2 --quiet
	refused part 1 "$rerun"
	told part 1 "$rerun"
	[ "$(wc -l <problems)" -eq 1 ] || cat problems
	"$FP8CONV" verify part --json >j
	json j 'not j["ok"]' '[p["kind"] for p in j["problems"]] == ["unfinished"]'
	cp -r part nameless
	rm nameless/fp8conv-manifest.json
	refused nameless 1 "$download, the first is 'model-0000$((3 - part))-of-00002.safetensors'"
	told nameless 1 "$download"
	[ "$(wc -l <problems)" -eq 1 ] || cat problems
	rm -r part nameless
done

# All weights, but a job that did not end; and none.
cp -r whole part
rm part/config.json part/model.safetensors.index.json
sed -i 's/"finished": true/"finished": false/' part/fp8conv-manifest.json
refused part 2 "$rerun"
told part 2 "$rerun"
rm part/$one part/$two
refused part 0 "$rerun"
fails 3 " inspect: 'part' is unfinished (0 of 2 files): run the command that began it again" inspect part
fails 3 " verify: 'part' is unfinished (0 of 2 files): run the command that began it again" verify part
rm -r part

# An index that names an absent file; its tensors are told as well.
cp -r whole part
rm part/fp8conv-manifest.json part/$two
refused part 1 "$download, the first is '$two'"
told part 1 "$download"
sed 1d problems | grep -q "^$two: index-missing: missing file 'part/$two': " || cat problems
rm -r part

# A file that is given by itself is the user's choice.
cp whole/$one $one
"$FP8CONV" dequantize $one -o half.safetensors
"$FP8CONV" inspect $one >tensors
