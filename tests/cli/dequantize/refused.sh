#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
# What is refused, with which words; nothing is made.
need "$SAMPLES/tiny-llama"
fails 2 " dequantize: nothing to dequantize: '$SAMPLES/tiny-llama' has neither FP8 nor low-bit weights" \
	dequantize "$SAMPLES/tiny-llama" -o out
fails 2 " dequantize: MODEL is missing (fp8conv dequantize MODEL -o OUT)" dequantize
fails 2 " dequantize: option '--output' is missing*" dequantize x
fails 2 " dequantize: option '--dtype': 'fp17' is not one of bf16, f16, f32" dequantize x -o y --dtype fp17
fails 2 " dequantize: unknown option '--recipe' *" dequantize x -o y --recipe mxfp8
fails 2 " dequantize: unexpected argument 'b' (did you mean '-o b'?)" dequantize a b
fails 3 " dequantize: *none*" dequantize none -o out

# bytes FILE JSON COUNT: a file of that header and so many zero bytes.
bytes() {
	python3 - "$1" "$2" "$3" <<-'END'
		import sys
		file, header, n = sys.argv[1:]
		text = header.replace("'", '"').encode()
		open(file, "wb").write(len(text).to_bytes(8, "little") + text + bytes(int(n)))
	END
}
w="'a.weight': {'dtype': 'F8_E4M3', 'shape': [2, 2], 'data_offsets': [0, 4]}"
bytes a.safetensors "{$w}" 4
fails 3 " dequantize: FP8 tensor 'a.weight' has no scale" dequantize a.safetensors -o b.safetensors
bytes a.safetensors "{$w, 'a.weight_scale': {'dtype': 'F32', 'shape': [3], 'data_offsets': [4, 16]}}" 16
fails 3 " dequantize: scale 'a.weight_scale' is F32 \[3], which does not fit any tiling of \[2, 2] of 'a.weight'" \
	dequantize a.safetensors -o b.safetensors
bytes a.safetensors "{'a.weight': {'dtype': 'F8_E4M3', 'shape': [4], 'data_offsets': [0, 4]}, 'b.weight': {'dtype': 'F8_E4M3',
	'shape': [2, 2], 'data_offsets': [4, 8]}, 'b.weight_scale': {'dtype': 'F32', 'shape': [], 'data_offsets': [8, 12]}}" 12
fails 3 " dequantize: FP8 tensor 'a.weight' has 1 dimensions, not 2 or 3" \
	dequantize a.safetensors -o b.safetensors
bytes a.safetensors "{'a.weight': {'dtype': 'F8_E4M3FNUZ', 'shape': [2, 2], 'data_offsets': [0, 4]}, 'b.weight': {'dtype': 'F8_E4M3',
	'shape': [2, 2], 'data_offsets': [4, 8]}, 'b.weight_scale': {'dtype': 'F32', 'shape': [], 'data_offsets': [8, 12]}}" 12
fails 3 " dequantize: tensor 'a.weight' has the unsupported type F8_E4M3FNUZ" dequantize a.safetensors -o b.safetensors
[ "$(ls)" = a.safetensors ] || ls

# Packed weights of another scheme need the configuration that would go.
python3 "$CLI/fp8.py" make hf-block in
python3 - <<'END'
import checkpoint
checkpoint.write("in/model.safetensors", checkpoint.read("in") | {"n.weight_packed": ("I8", [5, 4], bytes(20))})
END
fails 3 " dequantize: tensor 'n.weight_packed' is I8 in a source that is already quantized (quant_method 'fp8'): *" \
	dequantize in -o out
rm -r in
python3 "$CLI/fp8.py" make hf-block in
python3 - <<'END'
import checkpoint
checkpoint.write("in/model.safetensors", checkpoint.read("in") | {"n.weight": ("U32", [5, 4], bytes(80)), "n.scales": ("BF16", [5, 1], bytes(10))})
END
said="tensor 'n.weight' is U32, as MLX packs weights, "
fails 3 " dequantize: ${said}which fp8conv does not read: *" dequantize in -o out
fails 3 " repack: ${said}which fp8conv does not read: *" repack in -o out --format hf
fails 3 " quantize: ${said}which fp8conv does not read: *" quantize in -o out --requantize
"$FP8CONV" verify in | grep -qF "tensor-name: ${said}but config.json does not say so" || echo "verify names no weight of MLX"
[ ! -e out ] || echo "out was made"
rm -rf in a.safetensors

mkdir "$top/unfinished"
cd "$top/unfinished"
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
