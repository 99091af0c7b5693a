#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Directory, file and stream; parts, a second run, another job; the plan and the facts.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o fp8 --recipe channelwise
snapshot fp8 >before
"$FP8CONV" dequantize fp8 -o wanted --manifest
snapshot fp8 | diff before -
diff "$SAMPLES/tiny-moe/per-expert/config.json" wanted/config.json
[ "$(ls -A wanted)" = "$( (ls -A "$SAMPLES/tiny-moe/per-expert"; echo fp8conv-manifest.json) | grep -v '^\.' | sort)" ] ||
	diff -r "$SAMPLES/tiny-moe/per-expert" wanted | grep '^Only'
grep -q '"dtype": "bf16"' wanted/fp8conv-manifest.json || echo "the manifest does not say the type"
"$FP8CONV" dequantize fp8 -o parts --part 2/2
[ ! -e parts/config.json ] || echo "a part wrote the end"
"$FP8CONV" dequantize fp8 -o parts --part 1/2
same wanted parts
before=$(stat -c '%i %Y' parts/*.safetensors)
rm parts/config.json parts/model-00002-of-00002.safetensors
"$FP8CONV" dequantize fp8 -o parts
same wanted parts
[ "${before%%
*}" = "$(stat -c '%i %Y' parts/model-00001-of-00002.safetensors)" ] || echo "a finished file was written again"
fails 2 " dequantize: *--restart*" dequantize fp8 -o parts --dtype f32
fails 2 " quantize: *--restart*" quantize fp8 -o parts --requantize
"$FP8CONV" dequantize fp8 -o parts --dtype f32 --restart
grep -q '"float32"' parts/config.json || echo "config.json does not say float32"
diff parts/config.json wanted/config.json | grep -c '^[<>]' | grep -qx 2 || diff parts/config.json wanted/config.json
fails 2 " dequantize: *same directory*" dequantize fp8 -o fp8

"$FP8CONV" quantize "$SAMPLES/tiny-llama/model.safetensors" -o one.safetensors
"$FP8CONV" dequantize one.safetensors -o two.safetensors
"$FP8CONV" dequantize - -o - <one.safetensors | cmp - two.safetensors
cat one.safetensors | "$FP8CONV" dequantize - -o three.safetensors
cmp two.safetensors three.safetensors
"$FP8CONV" dequantize one.safetensors -o folder
cmp folder/*.safetensors two.safetensors
before=$(snapshot folder)
"$FP8CONV" dequantize one.safetensors -o folder
[ "$before" = "$(snapshot folder)" ] || echo "a second run changed something"

"$FP8CONV" dequantize fp8 --dry-run --json >j
json j 'list(j) == ["schema", "dtype", "source", "output", "tensors", "totals", "notes"]' 'j["dtype"] == "bf16"' \
	'{t["action"] for t in j["tensors"]} == {"dequantize", "keep"}' \
	'all((t["dtype"] == "F8_E4M3") == (t["action"] == "dequantize") for t in j["tensors"])' \
	'all(o["dtype"] == "BF16" and o["shape"] == t["shape"] for t in j["tensors"] for o in t["outputs"])' \
	'j["totals"]["dequantized"] + j["totals"]["kept"] == j["totals"]["tensors"] == len(j["tensors"])' \
	'j["totals"]["output_bytes"] == sum(o["bytes"] for t in j["tensors"] for o in t["outputs"])'
"$FP8CONV" dequantize fp8 -o facts --json >j
json j 'j["tensors"]["dequantized"] > 0 and "worst" not in j and "saturated" not in j' \
	'j["output_bytes"] > j["input_bytes"] and j["dtype"] == "bf16"'
"$FP8CONV" dequantize fp8 -o watched --progress json 2>&1 | tail -n 1 >j
json j 'j["done"] == j["total"] > 0'
"$FP8CONV" dequantize fp8 -o verbose -v 2>said
grep -q '^tensors    [0-9]* bf16, [0-9]* kept$' said || cat said
"$FP8CONV" dequantize fp8 --dry-run | grep -q '^tp' && echo "tensor-parallel sizes of what is not FP8"
true

mkdir next
cd next
# The same bytes with any number of threads, any backend, and the least memory, which cuts rows into pieces.
backends=$("$FP8CONV" version | sed -n 's/^backend	\([a-z0-9]*\): usable.*/\1/p')
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" make "$variant" in
	"$FP8CONV" dequantize in -o wanted --backend reference --threads 1 --dtype f32
	for way in "--threads 2" "--threads 3" "--threads 1 --max-memory 24832K" "--threads 2 --max-memory 25088K" \
		"--threads 3 --max-memory 25344K" $(printf -- "--backend=%s " $backends); do
		# shellcheck disable=SC2086
		"$FP8CONV" dequantize in -o out $way --dtype f32
		same wanted out
		rm -rf out
	done
	rm -rf in wanted
done
fails 2 " dequantize: option '--max-memory': 25951232 bytes are too few for 3 threads: give at least 25344K, or reduce --threads" \
	dequantize "$SAMPLES/tiny-llama" --dry-run --threads 3 --max-memory 25343K
