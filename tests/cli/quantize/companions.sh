#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The files beside a model: weights of its other parts go along, what is left out is named, and what cannot be copied stops
# the job.
need "python3()"
python3 "$CLI/checkpoint.py" make m.safetensors model.layers.0.mlp.up_proj.weight=F32:128x128 model.norm.weight=F32:128
mkdir -p m/2_Dense m/checkpoint-5 m/original
mv m.safetensors m/model.safetensors
python3 "$CLI/checkpoint.py" make m/2_Dense/model.safetensors linear.weight=F32:64x128
echo '{"in_features": 128, "out_features": 64}' >m/2_Dense/config.json
cp m/model.safetensors m/checkpoint-5/model.safetensors
cp m/model.safetensors m/original/model.safetensors
echo '{"model_type": "llama"}' >m/config.json
echo '{"peft_type": "LORA"}' >m/adapter_config.json
for name in colbert_linear.pt sparse_linear.pt adapter_model.safetensors; do
	echo x >m/$name
done

# noted ARGUMENT...: prints what the conversion says.
noted() {
	"$FP8CONV" quantize m -o out --restart "$@" 2>&1 | sed -n 's/^fp8conv quantize: note: //p'
}
noted --recipe channelwise
noted --recipe channelwise --dry-run --json
noted --recipe channelwise --verbose
(cd out && find . -type f ! -name '.*' | sort)
cmp m/2_Dense/model.safetensors out/2_Dense/model.safetensors
# A later run has nothing to do; where a part changed, another one begins.
"$FP8CONV" quantize m -o out --recipe channelwise --quiet
python3 "$CLI/checkpoint.py" make m/2_Dense/model.safetensors linear.weight=F32:32x128
"$FP8CONV" quantize m -o out --restart --recipe channelwise --quiet
cmp m/2_Dense/model.safetensors out/2_Dense/model.safetensors

rm -r out m/adapter* m/*.pt m/checkpoint-5 m/original
ln -s ../blobs/gone m/tokenizer.json
fails 3 " quantize: 'm/tokenizer.json' is a link to a file that does not exist: copy or download the model again" quantize m -o out
ln -sf tokenizer.json m/tokenizer.json
fails 3 " quantize: 'm/tokenizer.json' is a link in a loop of links: copy or download the model again" quantize m -o out
rm m/tokenizer.json
mkfifo m/tokenizer.json
fails 3 " quantize: 'm/tokenizer.json' is not a file, so that no copy can be made: remove or replace it" quantize m -o out
rm m/tokenizer.json
mkdir m/tokenizer.json
fails 3 " quantize: 'm/tokenizer.json' is a directory, but has the name of a file: remove or replace it" quantize m -o out
rmdir m/tokenizer.json
: >m/tokenizer.json
fails 3 " quantize: 'm/tokenizer.json' is empty: copy or download it again" quantize m -o out
rm m/tokenizer.json
: >m/config.json
fails 3 " quantize: 'm/config.json' is empty: copy or download it again" quantize m -o out
[ ! -e out ] || ls -a out

# An index of another build beside the whole model.
rm -r m
mkdir m
echo '{}' >m/config.json
python3 "$CLI/checkpoint.py" make m/model-00001-of-00002.safetensors h.0.mlp.up_proj.weight=F32:128x128
python3 "$CLI/checkpoint.py" make m/model-00002-of-00002.safetensors h.0.mlp.down_proj.weight=F32:128x128
echo '{"metadata": {}, "weight_map": {"h.0.mlp.up_proj.weight": "model-00001-of-00005.safetensors"}}' >m/model.safetensors.index.json
noted --recipe channelwise
"$FP8CONV" inspect m 2>&1 >tensors | cat
wc -l <tensors
"$FP8CONV" verify out --source m
mv m/model-00002-of-00002.safetensors .
fails 3 " quantize: index 'm/model.safetensors.index.json' names 1 files, none of which is there (the first is 'model-00001-of-00005.safetensors'), but 'model-00001-of-00002.safetensors' is: remove the index if it is of another build, or download its files" \
	quantize m -o out

#1> 6 files of the source are not in the output: 'adapter_config.json', 'adapter_model.safetensors', 'checkpoint-5/model.safetensors' and 3 more (all with --verbose); copy what the model needs
#1> 6 files of the source are not in the output: 'adapter_config.json', 'adapter_model.safetensors', 'checkpoint-5/model.safetensors', 'colbert_linear.pt', 'original/model.safetensors', 'sparse_linear.pt'; copy what the model needs
#1> 6 files of the source are not in the output: 'adapter_config.json', 'adapter_model.safetensors', 'checkpoint-5/model.safetensors', 'colbert_linear.pt', 'original/model.safetensors', 'sparse_linear.pt'; copy what the model needs
#1> ./2_Dense/config.json
#1> ./2_Dense/model.safetensors
#1> ./config.json
#1> ./fp8conv-manifest.json
#1> ./model.safetensors
#1> model.safetensors.index.json of the source names files of another build, none of which is there: 'model-00001-of-00002.safetensors' and its set are converted
#1> fp8conv inspect: note: model.safetensors.index.json names files of another build, none of which is there: 'model-00001-of-00002.safetensors' and its set are read in their place; remove the index
#1> 2
