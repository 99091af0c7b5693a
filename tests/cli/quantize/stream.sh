#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# File to file, stream to stream and the two mixed give the same file; what is spooled leaves no trace.
need "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/fused/model.safetensors
mkdir tmp
TMPDIR=$PWD/tmp
export TMPDIR
for recipe in blockwise current; do
	"$FP8CONV" quantize "$in" -o a.safetensors --recipe $recipe
	"$FP8CONV" quantize - -o - --recipe $recipe <"$in" >b.safetensors
	cmp a.safetensors b.safetensors
	cat "$in" | "$FP8CONV" quantize - -o - --recipe $recipe | cat >c.safetensors
	cmp a.safetensors c.safetensors
	"$FP8CONV" quantize - -o d.safetensors --recipe $recipe <"$in"
	cmp a.safetensors d.safetensors
	"$FP8CONV" quantize "$in" -o - --recipe $recipe >e.safetensors
	cmp a.safetensors e.safetensors
	mkdir f
	"$FP8CONV" quantize "$in" -o f/x.safetensors --recipe $recipe
	cmp a.safetensors f/x.safetensors
	rm -rf f ./*.safetensors
done
find tmp -mindepth 1
ls
# A stream has no configuration beside it; a plan may be made of it.
"$FP8CONV" quantize - --dry-run --json <"$in" >j
json j 'j["source"] == "-" and j["totals"]["quantized"] == 26 and j["tensors"][0]["file"] is not None'
head -c 100000 "$in" | fails 3 " quantize: *" quantize - -o out.safetensors
head -c 100000 "$in" | fails 3 " quantize: *" quantize - -o -
fails 3 " quantize: *" quantize - -o - </dev/null
[ ! -e out.safetensors ] || echo "out.safetensors was made"
TMPDIR=$PWD/none
fails 3 " quantize: *'$TMPDIR'*: No such file or directory" quantize - -o - <"$in"

#1> tmp
