#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Mistakes of the first day are answered with what to do.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
mkdir lfs gguf cache cache/snapshots
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12\n' 0 >lfs/model.safetensors
printf 'GGUF\003\000\000\000and more bytes' >gguf/model.safetensors
fails 3 " quantize: 'lfs/model.safetensors' is a Git LFS pointer, not the file: run 'git lfs pull'" quantize lfs -o out
fails 3 " quantize: 'gguf/model.safetensors' is a GGUF file: fp8conv reads safetensors" quantize gguf -o out
fails 3 " quantize: 'cache' is a directory of the Hub's cache: give its snapshots/REVISION" quantize cache -o out
fails 3 " quantize: no file or directory 'org/model' (for a model on the Hub, run 'hf download org/model*" quantize org/model -o out
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
