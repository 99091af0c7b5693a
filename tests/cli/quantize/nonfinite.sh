#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# NaN and infinity: refused with tensor, index and value; saturated and counted; or the tensor is kept.
make() {
	python3 "$CLI/checkpoint.py" make in.safetensors \
		"model.layers.0.self_attn.o_proj.weight=F32:128x256:$1" "model.layers.0.mlp.down_proj.weight=BF16:128x128"
}
for value in nan inf -inf; do
	make $value
	fails 3 " quantize: *'model.layers.0.self_attn.o_proj.weight'*$value*" quantize in.safetensors -o out.safetensors
	[ ! -e out.safetensors ] || echo "out.safetensors was made"
	"$FP8CONV" quantize in.safetensors -o out.safetensors --on-nonfinite saturate --json >j
	json j 'j["nonfinite"] == 128 * 256'
	"$FP8CONV" quantize in.safetensors -o kept.safetensors --on-nonfinite skip
	python3 "$CLI/checkpoint.py" list in.safetensors | grep o_proj >wanted
	python3 "$CLI/checkpoint.py" list kept.safetensors | grep o_proj | diff wanted -
	python3 "$CLI/checkpoint.py" list kept.safetensors | grep 'down_proj.weight	F8_E4M3' >found || echo "down_proj was kept too"
	"$FP8CONV" quantize in.safetensors --dry-run --json --on-nonfinite skip >j
	json j '[(t["name"].split(".")[-2], t["reason"]) for t in j["tensors"] if t["action"] == "keep"] ==
		[("o_proj", "non-finite values")]'
	rm ./*.safetensors
done

mkdir next
cd next
# Mistakes of the first day are answered with what to do.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
mkdir lfs gguf cache cache/snapshots
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12\n' 0 >lfs/model.safetensors
printf 'GGUF\003\000\000\000and more bytes' >gguf/model.safetensors
fails 3 " quantize: 'lfs/model.safetensors' is a Git LFS pointer, not the file: run 'git lfs pull'" quantize lfs -o out
# Pointers in the place of small files: those that are read are refused, those that are copied cause a note.
cp -r "$model" pointers
cp lfs/model.safetensors pointers/tokenizer.json
cp lfs/model.safetensors pointers/merges.txt
"$FP8CONV" quantize pointers -o pointers-fp8 --dry-run --json >notes.json 2>notes.txt
json notes.json '[n["message"] for n in j["notes"] if n["kind"] == "pointer-copied"] == ["2 of the files to copy are Git LFS pointers, for example '"'pointers/merges.txt'"': run '"'git lfs pull'"' in the source first"]'
fails 3 " calibrate: 'pointers/tokenizer.json' is a Git LFS pointer, not the file: run 'git lfs pull'" \
	calibrate pointers --data "$model/config.json" -o s.amax
for name in config.json model.safetensors.index.json; do
	cp lfs/model.safetensors "pointers/$name"
	for command in quantize\ pointers\ -o\ out inspect\ pointers verify\ pointers; do
		# shellcheck disable=SC2086
		fails 3 " ${command%% *}: 'pointers/$name' is a Git LFS pointer, not the file: run 'git lfs pull'" $command
	done
done
rm -r pointers notes.json notes.txt
gguf="so give the model that it was made from"
fails 3 " quantize: 'gguf/model.safetensors' is a GGUF file: fp8conv reads safetensors, $gguf" quantize gguf -o out
: >empty.safetensors
fails 3 " quantize: 'empty.safetensors' is empty: copy or download it again" quantize empty.safetensors -o out
# A zip and an older pickle, of torch.save(); by their own names, and alone in a directory.
pickle="convert it to safetensors first, as save_pretrained() of transformers does"
printf 'PK\003\004\000\000\010\010\000\000\000\000\000\000' >zip.safetensors
printf '\200\002\212\nl\374\234F\371 j\250P\031' >old.bin
cp old.bin old.safetensors
for file in zip.safetensors old.safetensors; do
	for command in "quantize $file -o out" "dequantize $file -o out" "inspect $file" "verify $file" "verify $model --source $file" \
		"calibrate $file --data text.txt -o s.amax"; do
		# shellcheck disable=SC2086
		fails 3 " ${command%% *}: '$file' is a pickle of PyTorch, which can run code: $pickle" $command
	done
done
rm old.safetensors
mkdir pickles ggufs nothing pipeline
echo '{"_class_name": "FluxPipeline"}' >pipeline/model_index.json
cp old.bin pickles/pytorch_model-00001-of-00002.bin
cp gguf/model.safetensors ggufs/m.Q4_K.gguf
fails 3 " inspect: found no .safetensors file in 'pickles', but 'pytorch_model-00001-of-00002.bin', a pickle of PyTorch: give option '--from-torch' to read its tensors" inspect pickles
fails 3 " inspect: 'old.bin' is not a zip archive, as torch.save() writes since 1.6: load it with torch and save it again" inspect old.bin
fails 3 " quantize: found no .safetensors file in 'pipeline', but 'model_index.json', the index of a pipeline of diffusers: give the directory of one component, as its 'transformer'" quantize pipeline -o out
fails 3 " verify: found no .safetensors file in 'ggufs', but 'm.Q4_K.gguf', a GGUF file: give the model that it was made from" verify ggufs
fails 3 " quantize: found no model.safetensors.index.json, model.safetensors or other .safetensors file in 'nothing'" quantize nothing -o out
# A header of 640 bytes begins as a pickle does.
python3 "$CLI/checkpoint.py" make sized.safetensors a.0.o_proj.weight=BF16:128x128
python3 - <<'END'
import checkpoint
checkpoint.write("sized.safetensors", checkpoint.read("sized.safetensors"), align=640)
assert open("sized.safetensors", "rb").read(8) == (640).to_bytes(8, "little")
END
"$FP8CONV" quantize sized.safetensors -o sized-fp8.safetensors
# The Hub's cache: which directory to give.
hub="is a directory of the Hub's cache"
fails 3 " quantize: 'cache' $hub without a snapshot: run 'hf download' again" quantize cache -o out
mkdir cache/snapshots/c0ffee
fails 3 " quantize: 'cache' $hub: give 'cache/snapshots/c0ffee'" quantize cache -o out
fails 3 " inspect: 'cache/snapshots' $hub: give 'cache/snapshots/c0ffee'" inspect cache/snapshots
mkdir cache/snapshots/beef
fails 3 " verify: 'cache' $hub: give one of its 2 snapshots, as 'cache/snapshots/beef'" verify cache
mkdir hub
mv cache hub/models--org--name
fails 3 " quantize: 'hub' is the Hub's cache: give a snapshot of one of its models, as 'hub/models--org--name/snapshots/REVISION'" \
	quantize hub -o out
cp -r "$model"/. hub/models--org--name/snapshots/beef
"$FP8CONV" quantize hub/models--org--name/snapshots/beef -o of-cache
rm -r zip.safetensors old.bin empty.safetensors pickles ggufs nothing pipeline hub of-cache sized.safetensors sized-fp8.safetensors
fails 3 " quantize: no file or directory 'org/model' (for a model on the Hub give hf://org/model)" quantize org/model -o out
fails 3 " families: no file or directory 'org/model' (for a model on the Hub give hf://org/model)" families org/model
fails 3 " verify: 's3://bucket/model' is not an address of a model that is read here: give https://... or hf://ORG/NAME as the model or its source, or download it, as 'hf download ORG/NAME' does, and give the directory" \
	verify s3://bucket/model
fails 3 " quantize: '$model/config.json' is the configuration of a model: give its directory" quantize "$model/config.json" -o out
fails 3 " quantize: cannot open './org/model': No such file or directory" quantize ./org/model -o out
fails 2 " quantize: output 'out.txt' is not a directory: *" quantize "$model" -o out.txt
fails 2 " quantize: output 'out.safetensor' is not a directory: *" quantize "$model" -o out.safetensor
ln -s nowhere link
fails 3 " quantize: 'link' is a symbolic link to a missing directory" quantize "$model" -o link
ls
# The directories that OUT lies in are made.
"$FP8CONV" quantize "$model" -o a/b/out
"$FP8CONV" quantize "$model/model.safetensors" -o c/d/model.safetensors
ls a/b/out/config.json c/d/model.safetensors

#1> gguf
#1> lfs
#1> link
#1> a/b/out/config.json
#1> c/d/model.safetensors
