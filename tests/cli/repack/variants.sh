#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Each variant goes into the formats that can say it, with the same values to the bit, and into no other.
formats_of() {
	case $1 in
	hf-block | hf-block-tall | hf-tensor | ct-block-f16 | deepseek-v4 | gptqmodel | experts) echo hf compressed-tensors ;;
	hf-static | modelopt-4d | mxfp8 | mxfp8-e8m0 | comfyui) echo hf compressed-tensors modelopt ;;
	ct-tensor | ct-channel | ct-channel-bf16 | modelopt-tensor | modelopt-channel | gptqmodel-channel | experts-channel)
		echo compressed-tensors modelopt ;;
	esac
}
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" make "$variant" in
	for format in hf compressed-tensors modelopt; do
		case " $(formats_of "$variant") " in
		*" $format "*) ;;
		*)
			fails 2 " repack: *" repack in -o out --format $format
			[ ! -e out ] || echo "$variant to $format: out was made"
			continue
			;;
		esac
		"$FP8CONV" repack in -o out --format $format 2>said
		sed -i '/^fp8conv repack: note: .* --target [a-z]*\( for it\)\?$/d' said
		case $variant in
		gptqmodel*) sed -i '/^fp8conv repack: note: the scales are divisors: they are inverted/d' said ;;
		esac
		[ -e in/config.json ] || sed -i '/^fp8conv repack: note: the source has no config.json/d' said
		cat said
		"$FP8CONV" inspect out --json >j
		# Without a configuration, names and shapes of scales may fit several formats.
		json j "j['format'] == '$format' or not $(find in -name config.json | wc -l)" \
			'all(t["dtype"] in ("F32", "U8") for t in j["tensors"] if "_scale" in t["name"])' \
			'all(t["scale_inv"] for t in j["tensors"] if t["dtype"].startswith("F8"))' || echo "$variant to $format"
		"$FP8CONV" dequantize out -o values --dtype f32
		python3 "$CLI/fp8.py" check "$variant" values f32
		# There and back again: the same bytes.
		for other in $(formats_of "$variant"); do
			"$FP8CONV" repack out -o there --format "$other" --quiet
			"$FP8CONV" repack there -o back --format $format --quiet
			same out back
			rm -rf there back
		done
		# In small pieces, with one thread and several.
		for way in "--threads 1 --max-memory 24832K" "--threads 2" "--threads 3 --max-memory 25344K"; do
			# shellcheck disable=SC2086
			"$FP8CONV" repack in -o again --format $format --quiet $way
			same out again
			rm -rf again
		done
		rm -rf out values
	done
	rm -rf in
done

mkdir next
cd next
# Names that tools wrote before: act_scale for input_scale, and of caches all that vLLM renames.
python3 "$CLI/fp8.py" make ct-tensor in

# old DIR NAME=VALUE...: the model with input_scale under its old name, and these scales of a cache.
cat >old.py <<'END'
import sys
import checkpoint
folder, *specs = sys.argv[1:]
tensors = {n.replace("input_scale", "act_scale"): t for n, t in checkpoint.read("in").items() if not n.endswith(("k_scale", "v_scale"))}
for name, value in (spec.split("=") for spec in specs):
    tensors[name] = "F32", [1], checkpoint.pack("F32", [float(value)])
checkpoint.write(folder + "/model.safetensors", tensors)
END
old() {
	rm -rf "$1"
	cp -r in "$1"
	python3 old.py "$@"
}

# scales DIR: its scales that are no weight's, with the values of the caches' scales.
cat >scales.py <<'END'
import sys
import checkpoint
for name, (dtype, shape, data) in sorted(checkpoint.read(sys.argv[1]).items()):
    if name != "scale" and not name.endswith((".weight", ".weight_scale", ".bias")):
        print(name, dtype, shape, *checkpoint.unpack(dtype, data) if "attn" in name else ())
END
scales() {
	python3 scales.py "$1"
}

# wanted SHAPE K V VALUE VALUE: the same of an output, by the names of k and v.
wanted() {
	printf '%s\n' "a.input_scale F32 $1" "$2 F32 $1 $4" "$3 F32 $1 $5" >wanted
}

a=model.layers.0.self_attn
for names in $a.k_proj.k_scale:$a.v_proj.v_scale $a.qkv_proj.k_scale:$a.qkv_proj.v_scale $a.attn.k_scale:$a.attn.v_scale \
	$a.k_proj.output_scale:$a.v_proj.output_scale $a.k_cache.scale:$a.v_cache.scale $a.k_scale:$a.v_scale; do
	old src "${names%:*}=0.25" "${names#*:}=0.5"
	"$FP8CONV" repack src -o ct --format compressed-tensors --restart
	wanted "[1]" $a.k_scale $a.v_scale 0.25 0.5
	scales ct | diff wanted - || echo "$names"
	"$FP8CONV" repack src -o mo --format modelopt --restart
	wanted "[]" $a.k_proj.k_scale $a.v_proj.v_scale 0.25 0.5
	scales mo | diff wanted - || echo "$names"
	"$FP8CONV" dequantize src -o high --restart
	scales high
done

# One scale for both, and what no format has.
old src $a.attn.kv_scale=0.75 a.weight_zero_point=0 a.input_zero_point=0 $a.k_zero_point=0 a.input_scale_ub=8
"$FP8CONV" repack src -o ct --format compressed-tensors --restart
wanted "[1]" $a.k_scale $a.v_scale 0.75 0.75
scales ct | diff wanted -
"$FP8CONV" verify ct --source src || echo "verify does not know the two scales"
"$FP8CONV" dequantize src -o high --restart
scales high
"$FP8CONV" verify src | grep -o "scale-stray: scale '[a-z._]*'"

# Scales of a weight or a cache under names that no engine reads are left out, and a note says so.
old src $a.kv_cache_scaling_factor=0.5 $a.key_scale=0.5 $a.k_bmm_quantizer._amax=2 a.smooth_scale=2
"$FP8CONV" repack src -o ct --format compressed-tensors --restart
"$FP8CONV" dequantize src -o high --restart
"$FP8CONV" quantize --requantize src -o again --recipe channelwise
for out in ct high again; do
	scales $out | grep "factor\|key\|amax\|smooth"
done
"$FP8CONV" verify src | grep -o "scale-stray: .*$a[a-z_.]*'"

# No FP8: parameters of such names are kept.
python3 "$CLI/checkpoint.py" make high.safetensors $a.q_proj.weight=BF16:256x256 $a.kv_scale=F32:1 a.act_scale=F32:1 a.input_zero_point=F32:1
"$FP8CONV" quantize high.safetensors -o low.safetensors
python3 "$CLI/checkpoint.py" list low.safetensors | cut -f 1

#1> scale-stray: scale 'a.input_zero_point'
#1> scale-stray: scale 'a.weight_zero_point'
#1> scale-stray: 'model.layers.0.self_attn.k_bmm_quantizer._amax'
#1> scale-stray: 'model.layers.0.self_attn.key_scale'
#1> scale-stray: 'model.layers.0.self_attn.kv_cache_scaling_factor'
#1> a.act_scale
#1> a.input_zero_point
#1> model.layers.0.self_attn.kv_scale
#1> model.layers.0.self_attn.q_proj.weight
#1> model.layers.0.self_attn.q_proj.weight_scale_inv
#2> fp8conv repack: note: 4 tensors have no equivalent in format 'compressed-tensors' and are left out, first 'a.input_scale_ub'
#2> fp8conv repack: note: 4 tensors have the name of a scale that no engine reads, and are left out, first 'a.smooth_scale': rename or apply them first if they count
#2> fp8conv dequantize: note: 4 tensors have the name of a scale that no engine reads, and are left out, first 'a.smooth_scale': rename or apply them first if they count
#2> fp8conv quantize: note: 4 tensors have the name of a scale that no engine reads, and are left out, first 'a.smooth_scale': rename or apply them first if they count
