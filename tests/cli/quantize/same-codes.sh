#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# --requantize keeps codes and scales of FP8 weights that have their recipe already, and quantizes all others again.
need "python3()"

# keeps HOW KIND ARG...: HOW is kept or again.
keeps() {
	how=$1 kind=$2
	shift 2
	python3 "$CLI/same_codes.py" make "$kind" in
	"$FP8CONV" quantize in -o out --requantize --quiet --json "$@" >made
	python3 "$CLI/same_codes.py" check "$kind" out "$how"
	"$FP8CONV" verify out --source in --quiet || echo "$kind $*: verify finds problems"
	[ "$how" = again ] || json made 'j["worst"]["sqnr_db"] is None'
	if [ "$how" = kept ]; then
		"$FP8CONV" dequantize in -o a --dtype f32
		"$FP8CONV" dequantize out -o b --dtype f32
		cmp a/model.safetensors b/model.safetensors
	fi
	cp out/config.json .
	rm -rf in out made a b
}

# claims WORD: the output's scale_fmt, or None.
claims() {
	python3 - "$1" <<-'END'
		import json, sys
		found = json.load(open("config.json"))["quantization_config"].get("scale_fmt")
		if str(found) != sys.argv[1]:
		    print(f"scale_fmt is {found}, not {sys.argv[1]}")
	END
}

keeps kept deepseek-v4
claims ue8m0
keeps kept blocks
claims ue8m0
keeps kept blocks --format compressed-tensors
keeps kept blocks --scale-fmt ue8m0
keeps kept blocks-float
claims None
keeps kept blocks-float --scale-fmt float
keeps again blocks-float --scale-fmt ue8m0
claims ue8m0
keeps again blocks --margin 2
keeps again blocks-64
keeps again blocks-e5m2
keeps kept blocks-e5m2 --fp8-format e5m2
keeps again blocks --recipe channelwise
keeps kept channel --recipe channelwise
keeps kept mxfp8 --recipe mxfp8
keeps kept tensor-one --recipe current
keeps again tensor-several --recipe current
rm config.json

# Beside experts of 4 bits, as in DeepSeek-V4: these are converted, and the rest is kept.
python3 "$CLI/low_bit.py" finite deepseek-v4 in
python3 "$CLI/same_codes.py" make deepseek-v4 fp8
python3 - <<'END'
import checkpoint
checkpoint.write("in/model.safetensors", checkpoint.read("in") | checkpoint.read("fp8"))
END
"$FP8CONV" quantize in --requantize --dry-run --json >plan
json plan '[t for t in j["tensors"] if "q_proj" in t["name"]][0].items() >= {"action": "quantize", "recipe": "blockwise", "reason": None,
	"rule": "general"}.items()'
"$FP8CONV" quantize in -o out --requantize --recipe blockwise --quiet --json >made
json made 'j["low_bit"] == {"kind": "mxfp4", "tensors": 6, "exact": 6, "values": 196608, "changed": 0, "first": None}' \
	'"o_proj" in j["worst"]["tensor"]'
python3 - <<'END'
import checkpoint
import same_codes
found = checkpoint.read("out")
for stem in same_codes.SHAPES:
    if found[stem + ".weight"][2] != same_codes.codes("deepseek-v4", stem):
        print(f"{stem} has other codes")
    if found[stem + ".weight_scale_inv"][0] != "F32":
        print(f"the scale of {stem} is {found[stem + '.weight_scale_inv'][0]}")
END
"$FP8CONV" verify out --source in --json >j || echo "verify finds problems beside experts of 4 bits"
json j 'j["arithmetic"] is not None'
"$FP8CONV" verify out --source in --recipe blockwise --quiet || echo "verify takes codes that are kept for wrong ones"

# One bit of a code, and of the exponent of a scale.
rm out/fp8conv-manifest.json
cp -r out bad
python3 "$CLI/checkpoint.py" flip bad/model.safetensors model.layers.0.self_attn.q_proj.weight 777
"$FP8CONV" verify bad --source in --json >j && echo "a changed code is not found"
json j '[(p["kind"], p["tensor"]) for p in j["problems"]] == [("code-mismatch", "model.layers.0.self_attn.q_proj.weight")]'
rm -rf bad
cp -r out bad
python3 "$CLI/checkpoint.py" flip bad/model.safetensors model.layers.0.self_attn.k_proj.weight_scale_inv 3
"$FP8CONV" verify bad --source in --json >j && echo "a changed scale is not found"
json j '{p["tensor"].split(".")[-2] for p in j["problems"]} == {"k_proj"}'
rm -rf bad in out fp8 j plan made

# Codes and scales that are NaN.
python3 "$CLI/same_codes.py" make nan in
fails 3 " quantize: tensor 'model.layers.0.self_attn.q_proj.weight' in 'in/model.safetensors' is nan at \[5, 7]: use --on-nonfinite *" \
	quantize in -o out --requantize
fails 2 " quantize: tensor 'model.layers.0.self_attn.q_proj.weight' is F8_E4M3 and would be kept (non-finite values)*" \
	quantize in -o out --requantize --on-nonfinite skip
"$FP8CONV" quantize in -o out --requantize --on-nonfinite saturate --quiet
python3 "$CLI/same_codes.py" check nan out kept
rm -rf in out
python3 "$CLI/same_codes.py" make nan-scale in
fails 3 " quantize: scale 'model.layers.0.self_attn.q_proj.weight_scale_inv' in 'in/model.safetensors' is nan at 2, but *" \
	quantize in -o out --requantize

mkdir next
cd next
# The same bytes with any number of threads, any backend, any memory.
need "$SAMPLES/odd-shapes" "$SAMPLES/tiny-moe"
backends=$("$FP8CONV" version | sed -n 's/^backend	\([a-z0-9]*\): usable.*/\1/p')
for model in odd-shapes tiny-moe/fused-transposed; do
	for recipe in blockwise channelwise current mxfp8; do
		"$FP8CONV" quantize "$SAMPLES/$model" -o wanted --recipe $recipe --quiet --backend reference --threads 1
		for threads in 1 2 3 16; do
			"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --threads $threads
			same wanted out
			rm -rf out
		done
		for backend in $backends auto cpu; do
			"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --backend "$backend"
			same wanted out
			rm -rf out
		done
		"$FP8CONV" quantize "$SAMPLES/$model" -o out --recipe $recipe --quiet --max-memory 64M
		same wanted out
		"$FP8CONV" quantize "$SAMPLES/$model" -o out2 --recipe $recipe --quiet --max-memory 4G
		same wanted out2
		rm -rf wanted out out2
	done
done
