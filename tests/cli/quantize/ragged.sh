#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/odd-shapes"
# Without it, weights of partial blocks are kept, in either dimension; most of these are, which a note says.
"$FP8CONV" quantize "$SAMPLES/odd-shapes" --dry-run --json >a 2>note
grep -qx "fp8conv quantize: note: blockwise keeps [0-9]* % of the weight bytes in high precision, as .*: 16 rows are not a multiple of 128; --recipe channelwise takes 100 %" note || cat note
"$FP8CONV" quantize "$SAMPLES/odd-shapes" --dry-run --json --ragged >b 2>note
json a '[t["reason"] for t in j["tensors"] if t["name"] == "model.layers.0.self_attn.q_proj.weight"] ==
	["300 columns are not a multiple of 128"]' \
	'[t["reason"] for t in j["tensors"] if t["name"] == "model.layers.3.mlp.down_proj.weight"] ==
	["993 rows are not a multiple of 128"]'
json b '[t["outputs"][1]["shape"] for t in j["tensors"] if t["name"] == "model.layers.0.self_attn.q_proj.weight"] == [[3, 3]]'
"$FP8CONV" quantize "$SAMPLES/odd-shapes" -o out --ragged 2>note2
python3 "$CLI/checkpoint.py" list out | grep -c F8_E4M3 | while read -r n; do
	json b "j['totals']['quantized'] == $n"
done

# gate and up are merged, so the last block of gate must be whole: SGLang refuses it, and vLLM reads hf with other scales,
# silently, which quantize notes, verify finds and the card says.  transformers reads partial blocks wrong.
echo "fp8conv quantize: note: 'model.layers.0.mlp.gate_proj.weight' does not load in vllm: 305 rows do not divide into whole blocks of 128, as merged weights and experts must; nor in sglang; see --target vllm
fp8conv quantize: note: 19 weights end in a partial block, as 'model.layers.2.mlp.faint_proj.weight' [16, 128]: transformers reads such weights wrong where it dequantizes; --target transformers without --ragged keeps them
fp8conv quantize: note: 3 files of the source are not in the output: 'consolidated.safetensors', 'original/consolidated.00.pth', 'pytorch_model.bin'; copy what the model needs" >wanted
diff wanted note && diff wanted note2
json b '[(n["kind"], n["tensor"]) for n in j["notes"]] == [("not-loaded", "model.layers.0.mlp.gate_proj.weight"),
	("partial-blocks", "model.layers.2.mlp.faint_proj.weight"), ("files-left-out", None)]' 'j["tp"] == []'
for engine in vllm sglang; do
	fails 2 " quantize: 'model.layers.0.mlp.gate_proj.weight' does not load in $engine: 305 rows do not divide into whole blocks of 128, as merged weights and experts must; use --recipe channelwise, which accepts any shape, or omit --ragged" \
		quantize "$SAMPLES/odd-shapes" -o out2 --ragged --target $engine
	"$FP8CONV" verify out --target $engine >told && echo "verify --target $engine accepts blocks that are not whole"
	case $engine in
	vllm) said="partial-blocks: weight 'model.layers.0.mlp.gate_proj.weight' has 305 rows, of which a part ends in a partial block of 128 x 128: vLLM merges it" ;;
	*) said="tp-split: 305 rows of 'model.layers.0.mlp.gate_proj.weight' do not split over 1 device in multiples of 128" ;;
	esac
	grep -q "$said" told || cat told
done
"$FP8CONV" quantize "$SAMPLES/odd-shapes" -o out3 --recipe channelwise --target vllm --quiet
"$FP8CONV" verify out3 --target vllm
mkdir seam
python3 "$CLI/checkpoint.py" make seam/model.safetensors model.layers.0.self_attn.q_proj.weight=BF16:192x128 \
	model.layers.0.self_attn.k_proj.weight=BF16:64x128 model.layers.0.self_attn.v_proj.weight=BF16:64x128
echo '{"model_type": "llama"}' >seam/config.json
"$FP8CONV" quantize seam -o merged --ragged -q
"$FP8CONV" report merged -o card -q
grep -c "does not load this layout: .*proj.weight.* [0-9]* rows do not divide into whole blocks of 128, as merged weights and experts must\.$" card/README.md | grep -qx 2 || cat card/README.md
grep "vllm serve\|launch_server" card/README.md && echo "the card serves what no engine loads"

# transformers finds the height of a block by a division, and so reads partial blocks wrong: neither written for it nor
# accepted for it, also not those that other engines load as vendors release them (DeepSeek's kv_a_proj_with_mqa).
fails 2 " quantize: 'model.layers.*' \[*\] ends in a partial block of 128 x 128, which transformers reads wrong or not at all: use --recipe channelwise, which accepts any shape, or omit --ragged" quantize "$SAMPLES/odd-shapes" \
	-o out2 --ragged --target transformers
[ ! -e out2 ] || echo "a refused job made out2"
mkdir even
python3 "$CLI/checkpoint.py" make even/model.safetensors model.layers.0.self_attn.o_proj.weight=BF16:256x128
echo '{"model_type": "llama"}' >even/config.json
"$FP8CONV" quantize even -o even2 --ragged --target transformers
"$FP8CONV" verify out >told && echo "verify accepts what vLLM reads wrong without a word"
grep -v "vLLM merges it with other weights, and silently reads them with the scales of other rows: quantize without --ragged, or by channelwise$" told
"$FP8CONV" quantize "$SAMPLES/odd-shapes" -o out4 --ragged --format compressed-tensors -q
"$FP8CONV" verify out4 || echo "problems without a target, of what engines refuse"
"$FP8CONV" verify out --target transformers >told
[ $? -eq 1 ] || echo "verify --target transformers accepts partial blocks"
grep -vx "model-0000[12]-of-00002.safetensors: partial-blocks: weight '.*' \[[0-9]*, [0-9]*\] ends in a partial block of 128 x 128: transformers divides the shape of a weight by that of its scales .*" told
sed "s/.*partial-blocks: weight '\(.*\)' \[.*/\1/" told | sort >names
python3 "$CLI/checkpoint.py" list out | awk -F '\t' '$2 == "F8_E4M3" && split($3, n, "x") && (n[1] % 128 || n[2] % 128) { print $1 }' |
	sort | diff - names
[ "$(wc -l <names)" -gt 10 ] || echo "too few partial blocks to tell"

mkdir in
python3 "$CLI/checkpoint.py" make in/model.safetensors model.layers.0.self_attn.kv_a_proj_with_mqa.weight=BF16:576x128 \
	model.layers.0.self_attn.o_proj.weight=BF16:640x128
echo '{"model_type": "deepseek_v3"}' >in/config.json
"$FP8CONV" quantize in -o any 2>note
grep -qx "fp8conv quantize: note: 1 weight ends in a partial block, as 'model.layers.0.self_attn.kv_a_proj_with_mqa.weight' \[576, 128\]: .*" note || cat note
"$FP8CONV" verify any --target vllm || echo "vllm loads DeepSeek's own partial blocks"
"$FP8CONV" verify any --target transformers >told && echo "verify --target transformers accepts 576 rows"
grep -q "^model.safetensors: partial-blocks: weight 'model.layers.0.self_attn.kv_a_proj_with_mqa.weight' \[576, 128\] " told || cat told
[ "$(wc -l <told)" -eq 1 ] || cat told
"$FP8CONV" quantize in -o whole --target transformers
python3 "$CLI/checkpoint.py" list whole | cut -f 1,2 | grep -qx "model.layers.0.self_attn.kv_a_proj_with_mqa.weight	BF16" ||
	echo "kv_a is written for transformers"
"$FP8CONV" verify whole --target transformers

mkdir then
cd then
# The n-gram table of Qwen3.8-Flash-Next becomes FP8 in hf, all its parts with one scale, and stays as it is in other formats;
# every command reads it back.
table=model.language_model.layers.1.ple.ple_embedding.ngram_embedding

table() {
	python3 "$CLI/table.py" "$@"
}

table make in
for recipe in blockwise mxfp8 current; do
	rm -rf out
	"$FP8CONV" quantize in -o out --recipe $recipe --format hf --quiet
	table check out
	"$FP8CONV" verify out --source in
	for dtype in bf16 f32; do
		rm -rf plain
		"$FP8CONV" dequantize out -o plain --dtype $dtype --quiet
		table plain plain $dtype
	done
done
"$FP8CONV" quantize in --recipe current --format hf --dry-run --json >plan
json plan '[(t["action"], t["recipe"], t["rule"], len(t["outputs"])) for t in j["tensors"] if "ngram" in t["name"]] ==
	[("quantize", "current", "engine", 2)] + 3 * [("quantize", "current", "engine", 1)]' 'not [s for s in j["skip_list"] if "ngram" in s]'

# In any order, and taken up again.
"$FP8CONV" quantize in -o whole --quiet
for part in 2 1; do
	"$FP8CONV" quantize in -o parts --part $part/2 --quiet
done
same whole parts
rm parts/model-00002-of-00002.safetensors
"$FP8CONV" quantize in -o parts --quiet
same whole parts

# The same codes under another description, and from FP8.
"$FP8CONV" repack whole -o other --target sglang --quiet
table check other
"$FP8CONV" repack whole -o mx --format hf --recipe mxfp8 --quiet
table check mx
fails 2 " repack: tensor '$table.shard_1.weight' is a part of an embedding in FP8, which format 'compressed-tensors' cannot hold: use --format hf, or 'fp8conv dequantize', then 'fp8conv quantize'" \
	repack whole -o refused --format compressed-tensors
"$FP8CONV" quantize whole -o again --requantize --recipe mxfp8 --quiet
table check again

# Kept: by the format, and all parts by a pattern for one.
"$FP8CONV" quantize in -o kept-ct --format compressed-tensors --quiet
table kept kept-ct
"$FP8CONV" quantize in -o kept --exclude 'shard_2[.]weight' --quiet
table kept kept
"$FP8CONV" verify kept --source in

# A code that differs, a table that the configuration does not name, a scale that is missing.
rm whole/fp8conv-manifest.json
python3 "$CLI/checkpoint.py" flip whole/model-00001-of-00002.safetensors $table.shard_2.weight
"$FP8CONV" verify whole --source in
echo "status $?"
sed -i 's/"ngram_embedding"/"another"/' other/config.json
"$FP8CONV" verify other
echo "status $?"
#1> model-00001-of-00002.safetensors: code-mismatch: 1 code of 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.weight' differs from the source, the first at [0, 0]
#1> status 1
#1> model-00002-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_0.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00001-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_1.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00001-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00002-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_3.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00002-of-00002.safetensors: scale-stray: scale 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.weight_scale' belongs to 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_0.weight' (F8_E4M3 [300, 32]), whose module engines do not quantize: loading stops at a tensor that no layer has
#1> status 1
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
