#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"

# differs ARG...: diff must find differences and say no error; its object is j.
differs() {
	"$FP8CONV" diff --json "$@" >j 2>err
	[ $? -eq 1 ] && [ ! -s err ] || echo "diff $*: $(cat err)"
}

# equal ARG...
equal() {
	"$FP8CONV" diff "$@" >text || echo "diff $*: exit status $?"
	[ ! -s text ] || head -n 5 text
}

# The source and its FP8 model: what it costs, worst first; no row but for what differs.
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
"$FP8CONV" quantize model -o out --recipe channelwise --target vllm
"$FP8CONV" diff model out >text
[ $? -eq 1 ] || echo "no difference"
head -n 6 text
sed -n '/more: --all/,$p' text | head -n 5
"$FP8CONV" diff model out --all | grep -c dB
differs model out
json j 'not j["equal"] and j["totals"] == {"only-a": 0, "only-b": 0, "shape": 0, "type": 0, "values": 28, "stored": 0, "equal": 10}' \
	'[t["sqnr_db"] for t in j["tensors"]] == sorted(t["sqnr_db"] for t in j["tensors"]) and len(j["tensors"]) == 28' \
	'all(30 < t["sqnr_db"] < 33 and t["codes_differ"] is t["scales"] is None for t in j["tensors"])' \
	'j["a"]["recipe"] is None and (j["b"]["recipe"], j["b"]["format"]) == ("channelwise", "compressed-tensors")' \
	'all(e["name"].startswith("quantization_config") and e["a"] is None for e in j["config"]) and j["files"] == []'

# Nothing differs: a copy, a link, an index, one file; any number of threads and bytes of memory.
cp -r out copy
ln -s out link
equal out copy
equal out out
equal link copy/
equal out/model.safetensors copy/model.safetensors --quiet
equal "$SAMPLES/tiny-moe/per-expert" "$SAMPLES/tiny-moe/per-expert/model.safetensors.index.json"
differs model out --include o_proj --include 'norm\.weight' --exclude 'layers\.[12]'
json j 'sorted(t["name"] for t in j["tensors"]) == ["model.layers.%d.self_attn.o_proj.weight" % i for i in (0, 3)]' 'j["totals"]["equal"] == 5'
"$FP8CONV" diff model out --json --threads 1 >j
"$FP8CONV" diff model out --json --threads 5 | cmp j -
"$FP8CONV" diff model out --json --threads 5 --max-memory 1M | cmp j -
"$FP8CONV" diff copy out/model.safetensors 2>&1
"$FP8CONV" diff out copy --verbose 2>&1
"$FP8CONV" diff model out --verbose 2>&1 >/dev/null | sed 's/SQNR 31.[0-9]*/SQNR X/'

mkdir next
cd next
need "$SAMPLES/tiny-llama"
# One bit of a code, of a scale, of a number in high precision.
"$FP8CONV" quantize ../model -o a --recipe blockwise
cp -r a b
name=model.layers.2.mlp.up_proj
python3 "$CLI/checkpoint.py" flip b/model.safetensors $name.weight 1000
differs a b
json j 'len(j["tensors"]) == 1 and j["tensors"][0]["name"] == "'$name'.weight"' \
	'(lambda t: (t["codes_differ"], t["max_ulp"], t["values_differ"], t["scales_differ"]))(j["tensors"][0]) == (1, 1, 1, 0)'
python3 "$CLI/checkpoint.py" flip b/model.safetensors ${name}_scale_inv 0 2>/dev/null ||
	python3 "$CLI/checkpoint.py" flip b/model.safetensors $name.weight_scale_inv 2
differs a b
json j '(lambda t: (t["codes_differ"], t["scales_differ"]))(j["tensors"][0]) == (1, 1)' 'j["tensors"][0]["values_differ"] > 10000'
cp -r a c
python3 "$CLI/checkpoint.py" flip c/model.safetensors model.norm.weight -2
differs a c
json j '[(t["name"], t["codes_differ"], t["max_ulp"]) for t in j["tensors"]] == [("model.norm.weight", 1, 1)]'
differs b c --include norm
json j 'len(j["tensors"]) == 1'

# The same codes in another format: no value differs, but scales have other names.
"$FP8CONV" repack a -o packed --format compressed-tensors
differs a packed
json j 'j["totals"]["values"] == 0 and j["totals"]["stored"] == 28' \
	'all((t["codes_differ"], t["scales_differ"], t["values_differ"]) == (0, 0, 0) for t in j["tensors"])'
"$FP8CONV" diff a packed | sed -n 4,6p

# Each kind once, NaN, integers, another case of a name, keys and files.
python3 - <<'END'
import json, os, struct
import checkpoint
bf16 = lambda *values: checkpoint.pack("BF16", values)
a = {"same": ("BF16", [2], bf16(1, 2)), "gone": ("BF16", [2, 1], bf16(1, 2)), "Case": ("F32", [1], struct.pack("<f", 1)),
     "shape": ("BF16", [2, 2], bf16(1, 2, 3, 4)), "type": ("I8", [4], b"\1\2\3\4"), "ids": ("I64", [2], struct.pack("<2q", 1, -2)),
     "nan": ("F32", [3], struct.pack("<3f", 1, float("nan"), 2)), "wide": ("F32", [2], struct.pack("<2f", 1, -2)),
     "zero": ("F16", [2], checkpoint.pack("F16", [0.0, 1])), "nothing": ("BF16", [0, 4], b""), "bare.weight": ("F8_E4M3", [2, 2], b"\x38\x39\x3a\x7f")}
b = a | {"case": a["Case"], "shape": ("BF16", [4], bf16(1, 2, 3, 4)), "type": ("F16", [4], checkpoint.pack("F16", [1, 2, 3, 4])),
         "ids": ("I64", [2], struct.pack("<2q", 1, -3)), "nan": ("F32", [3], struct.pack("<3f", float("inf"), float("nan"), 3)),
         "wide": ("BF16", [2], bf16(1, -2)), "zero": ("F16", [2], checkpoint.pack("F16", [-0.0, 1])), "bare.weight": ("F8_E4M3", [2, 2], b"\x38\x3b\x3a\x7f")}
del b["gone"], b["Case"]
configs = {"model_type": "llama", "n": 1, "old": None, "rope": {"theta": 1.5, "x": [1, 2]}}, \
    {"model_type": "llama", "n": 1.0, "rope": {"theta": 2, "x": [1, 2]}, "new": "a\u001b[31m" + "b" * 40}
for name, tensors, config in zip("xy", (a, b), configs):
    os.mkdir(name)
    checkpoint.write(name + "/model.safetensors", tensors)
    open(name + "/config.json", "w").write(json.dumps(config))
    open(name + "/tokenizer.json", "w").write("{" + "1" * (name == "y"))
    open(name + "/hf_quant_config.json", "w").write("{}" if name == "x" else '{"a": 1}')
open("y/vocab.txt", "w").write("x")
END
"$FP8CONV" diff x y
[ $? -eq 1 ] || echo "exit status"

# Of a packed weight everything is compared: codes, scales, and what describes it; in high precision nothing is missing.
for packing in ct-int4 ct-nvfp4; do
	python3 "$CLI/low_bit.py" finite $packing $packing
	"$FP8CONV" dequantize $packing -o $packing-f32 --dtype f32
	differs $packing $packing-f32
	json j 'j["totals"]["stored"] == len(j["tensors"]) == 6'
	for part in weight_packed weight_scale $([ $packing = ct-int4 ] || echo weight_global_scale input_global_scale); do
		rm -rf changed
		cp -r $packing changed
		python3 "$CLI/checkpoint.py" flip changed/model.safetensors model.layers.0.mlp.experts.1.up_proj.$part
		differs $packing changed
		json j 'len(j["tensors"]) == (2 if "'$part'" == "weight_global_scale" else 1)'
	done
done

mkdir next
cd next
# What is no pair of checkpoints.
cp -r ../a a
mkdir empty cut lies
head -c 100000 ../a/model.safetensors >cut/model.safetensors
cp -r "$SAMPLES/tiny-moe/per-expert"/. lies && chmod -R u+w lies
sed -i 's/00001-of-00002/00002-of-00002/' lies/model.safetensors.index.json
cp -r a broken
echo '{"a": ' >broken/config.json
cp -r a list
echo '[]' >list/config.json
fails 2 " diff: 2 models are compared, but 1 given: give A and B" diff a
fails 2 " diff: 2 models are compared, but 3 given: give A and B" diff a a a
fails 3 "*'nowhere'*" diff a nowhere
fails 3 "*'empty'*" diff empty a
fails 3 "*'cut/model.safetensors'*" diff a cut
fails 3 "*" diff lies a
fails 3 "*'broken*" diff broken a
fails 3 "*'list*" diff a list
fails 2 " diff: --include '(': missing closing parenthesis at character 2" diff a a --include '('
fails 2 " diff: options '--include' and '--exclude' leave no tensor to compare: 'fp8conv inspect' lists the names" diff a a --include lm_heed
fails 2 " diff: unknown option '--source'*" diff a a --source a
"$FP8CONV" diff a ../b >/dev/full 2>err
[ $? -eq 4 ] || echo "a full standard output"
# No configuration is as good as any other: its keys differ.
cp -r a bare
rm bare/config.json
differs a bare
json j 'j["tensors"] == [] and all(e["b"] is None for e in j["config"])'
exit 0
#1> A  model: 38 tensors, 1.84 MB
#1> B  out: 66 tensors, 1.07 MB, channelwise compressed-tensors
#1>
#1> 28 tensors with other values, worst first
#1> values: how many differ
#1> tensor                                  type                 SQNR  values
#1> ... and 18 more: --all
#1>
#1> 1 key of config.json differs
#1> name                 A        B
#1> quantization_config  missing  {"quant_method": "compre...
#1> 28
#1> fp8conv diff: note: a single file has no config.json: tensors alone are compared
#1> nothing differs: 38 tensors, config.json, other files
#1> 28 of 38 tensors differ, SQNR X dB over them all; 1 key, 0 files
#1> next       fp8conv verify out --source model
#1> 28 tensors with the same values, stored otherwise
#1> model.layers.0.mlp.down_proj.weight     weight_scale_inv -> weight_scale
#1> model.layers.0.mlp.gate_proj.weight     weight_scale_inv -> weight_scale
#1> A  x: 11 tensors, 68 B, FP8
#1> B  y: 10 tensors, 64 B, FP8
#1>
#1> 2 tensors in A alone
#1> Case  F32 [1]
#1> gone  BF16 [2, 1]
#1>
#1> 1 tensor in B alone
#1> case  F32 [1]
#1>
#1> 1 tensor with another shape
#1> shape  BF16 [2, 2] -> BF16 [4]
#1>
#1> 1 tensor with types that cannot be compared
#1> type  I8 -> F16
#1>
#1> 4 tensors with other values, worst first
#1> values, codes, scales: how many differ; ULP: most steps between two codes
#1> tensor       type        SQNR  values  codes         ULP  NaN, inf
#1> bare.weight  F8_E4M3                       1           2
#1> ids          I64                           1
#1> nan          F32      6.02 dB       2      2  1073741824    1 -> 2
#1> zero         F16       inf dB       1      1
#1>
#1> 1 tensor with the same values, stored otherwise
#1> wide  F32 -> BF16
#1>
#1> 3 keys of config.json differ
#1> name        A        B
#1> new         missing  "a\u001B[31mbbbbbbbbbbbb...
#1> old         null     missing
#1> rope.theta  1.5      2
#1>
#1> 3 other files differ
#1> name                  A        B
#1> tokenizer.json        1 byte   2 bytes
#1> vocab.txt             missing  1 byte
#1> hf_quant_config.json  2 bytes  8 bytes
