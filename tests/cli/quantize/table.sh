#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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

#1> model-00001-of-00002.safetensors: code-mismatch: 1 codes of 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.weight' differ from the source, the first at [0, 0]
#1> status 1
#1> model-00002-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_0.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00001-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_1.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00001-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00002-of-00002.safetensors: dtype-mismatch: weight 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_3.weight' is F8_E4M3, but no engine quantizes its module, or the configuration excludes it: vLLM reads the bytes as the type in the configuration
#1> model-00002-of-00002.safetensors: scale-stray: scale 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.weight_scale' belongs to 'model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_0.weight' (F8_E4M3 [300, 32]), whose module engines do not quantize: loading stops at a tensor that no layer has
#1> status 1
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
