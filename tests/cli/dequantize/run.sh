#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
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
fails 2 " dequantize: option '--max-memory': 25343K is too small for 3 threads: give at least 25344K, or reduce --threads" \
	dequantize "$SAMPLES/tiny-llama" --dry-run --threads 3 --max-memory 25343K

mkdir "$top/values"
cd "$top/values"
# Scales and codes by which a weight has no value are refused by each command that reads them, with the place; nothing is made.

# change TENSOR INDEX BYTES: puts the bytes, as hexadecimal digits, into an element of in/model.safetensors.
change() {
	python3 - "$@" <<-'END'
		import sys
		import checkpoint
		name, index, data = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
		tensors = checkpoint.read("in")
		dtype, shape, old = tensors[name]
		tensors[name] = dtype, shape, old[:index * len(data)] + data + old[(index + 1) * len(data):]
		checkpoint.write("in/model.safetensors", tensors)
	END
}
# refused MESSAGE COMMAND...: it ends with 3, and makes nothing.
refused() {
	message=$1
	shift
	fails 3 " $1: $message" "$@"
	[ ! -e out ] || ls out
	rm -rf out
}
scale="scale 'a.weight_scale_inv' in 'in/model.safetensors' is"
for row in "0000c07f nan" "0000807f inf" "000000bf -0.5" "00000000 0" "00000080 -0"; do
	python3 "$CLI/fp8.py" finite hf-block in
	change a.weight_scale_inv 1 "${row% *}"
	refused "$scale ${row#* } at 1, but no code has a value unless its scale is finite and above 0: *" dequantize in -o out
	refused "$scale ${row#* } at 1, but *" repack in -o out --format compressed-tensors
	refused "$scale ${row#* } at 1, but *" quantize in -o out --requantize --recipe channelwise --include a.weight
	rm -rf in
done
python3 "$CLI/fp8.py" finite mxfp8 in
change a.weight_scale_inv 1 ff
refused "$scale nan at 1, but *" dequantize in -o out
refused "$scale nan at 1, but *" repack in -o out --format modelopt
rm -rf in
python3 "$CLI/fp8.py" finite hf-block in
change a.weight 5 7f
refused "tensor 'a.weight' in 'in/model.safetensors' has no finite BF16 value at \[0, 5]: its code is NaN or infinite, or *" dequantize in -o out
rm -rf in
# Wherever the code is in a matrix of 25 rows of 129 values.
python3 - <<'END'
import struct
import checkpoint
for at in (0, 1, 511, 512, 1023, 1024, 2047, 2048, 3071, 3072, 3223, 3224):
    codes = bytearray([0x38]) * (25 * 129)
    codes[at] = 0xFF
    checkpoint.write(f"at-{at}.safetensors", {"model.layers.0.mlp.up_proj.weight": ("F8_E4M3", [25, 129], bytes(codes)),
        "model.layers.0.mlp.up_proj.weight_scale": ("F32", [], struct.pack("<f", 0.5))})
END
for file in at-*.safetensors; do
	at=${file#at-}
	at=${at%.safetensors}
	for dtype in BF16 F16 F32; do
		refused "tensor '*' in '$file' has no finite $dtype value at \[$((at / 129)), $((at % 129))]: *" dequantize "$file" -o out \
			--dtype "$(echo $dtype | tr A-Z a-z)"
	done
	rm "$file"
done
# Scales that divide, where no configuration says so.
python3 - <<'END'
import struct
import checkpoint
tensors = {}
for i in range(3):
    tensors[f"model.layers.{i}.mlp.up_proj.weight"] = "F8_E4M3", [128, 128], bytes([0x7E]) * 128 * 128
    tensors[f"model.layers.{i}.mlp.up_proj.weight_scale_inv"] = "F32", [1, 1], struct.pack("<f", 2240.0)
checkpoint.write("in.safetensors", tensors)
END
divide="scale '*.weight_scale_inv' in 'in.safetensors' is 2240, and the scales of 3 of 3 weights are as large: they look like divisors, *"
refused "$divide" dequantize in.safetensors -o out
refused "$divide" repack in.safetensors -o out --format hf
refused "$divide" quantize in.safetensors -o out --requantize
rm in.safetensors
ls

mkdir next
cd next
# decoded PROGRAM LIST: every checkpoint of that list comes back as code * scale, to the bit, in every type that has these
# values; f16 ends at 65504.
decoded() {
	for variant in $(python3 "$CLI/$1.py" "$2"); do
		python3 "$CLI/$1.py" make "$variant" in
		for dtype in bf16 f16 f32; do
			if "$FP8CONV" dequantize in -o out --dtype $dtype 2>said; then
				python3 "$CLI/$1.py" check "$variant" out $dtype
			else
				grep -q " has no finite F16 value at .*: use --dtype bf16 or f32" said || cat said
				python3 "$CLI/$1.py" beyond "$variant" $dtype
				[ ! -e out ] || echo "$variant $dtype: out was made"
			fi
			rm -rf out
		done
		rm -rf in said
	done
}
# Nothing that spoke of FP8 is left.
decoded fp8 variants
# Low-bit weights have the name and the layout that the family has in BF16; scales and configuration are left out.
decoded low_bit packings

# The smallest number of f16 is 2^-24, and half of it rounds to even, to 0: of 0, 2^-26, 2^-25 and 1.5 * 2^-25 two vanish.
python3 - <<'END'
import checkpoint
checkpoint.write("small.safetensors", {"a.weight": ("F8_E4M3", [1, 4], bytes(range(4))), "a.weight_scale": ("F32", [1], checkpoint.pack("F32", [2**-17]))})
END
"$FP8CONV" dequantize small.safetensors -o f16.safetensors --dtype f16
"$FP8CONV" dequantize small.safetensors -o bf16.safetensors

mkdir next
cd next
# Weights without elements, of whatever sides, stay without.
python3 - <<'END'
import checkpoint
tensors = {}
for name, shape in (("a", [5, 0]), ("b", [0, 5]), ("c", [1 << 30, 1 << 30, 0]), ("d", [0, 1 << 40, 1 << 40]), ("e", [2, 1])):
    tensors[f"{name}.weight"] = "F8_E4M3", shape, bytes(2 if name == "e" else 0)
    tensors[f"{name}.weight_scale"] = "F32", [1], bytes([0, 0, 128, 63])
checkpoint.write("in.safetensors", tensors)
END
"$FP8CONV" dequantize in.safetensors -o out.safetensors
python3 "$CLI/checkpoint.py" list out.safetensors | cut -f 1-3 >found
printf '%s\tBF16\t%s\n' a.weight 5x0 b.weight 0x5 c.weight 1073741824x1073741824x0 \
	d.weight 0x1099511627776x1099511627776 e.weight 2x1 | diff - found

#2> fp8conv dequantize: note: 2 values are too small for F16 and become 0, first in 'a.weight': use --dtype bf16 or f32
