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

mkdir next
cd next
unset TMPDIR
# A stream that cannot be written is an error; a closed one that is not needed is none.
need /dev/full "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/fused/model.safetensors
"$FP8CONV" quantize "$in" -o - >/dev/full 2>err
[ $? -eq 4 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: .*: No space left on device$' err || cat err
"$FP8CONV" quantize "$in" -o - 2>err >&-
[ $? -eq 4 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: .*: Bad file descriptor$' err || cat err
(
	"$FP8CONV" quantize "$in" -o - 2>err
	echo $? >status
) | head -c 1 >/dev/null
[ "$(cat status)" -eq 4 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^fp8conv quantize: .*: Broken pipe$' err || cat status err
"$FP8CONV" quantize "$in" --dry-run >/dev/full 2>err
[ $? -eq 4 ] && [ "$(cat err)" = 'fp8conv quantize: cannot write standard output: No space left on device' ] || cat err
# Descriptors that the caller closed are not given to files.
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o wanted
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o closed <&- >&- 2>&- || echo "with everything closed: $?"
same wanted closed

# A message about a full standard output says why, also where the first of two writes is the one that fails: the second then
# has nothing left to say.

length() {
	"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o "$1" --dry-run | wc -c
}
name=o
length=$(length "$name")
block=4096 # bytes that are written at once; 8 more make two writes
while [ $(((length - 8) % block)) -ne 0 ]; do
	missing=$((block - (length - 8) % block))
	[ $missing -lt 200 ] || missing=200
	name=$name/$(head -c "$missing" /dev/zero | tr '\0' o | cut -c2-)
	longer=$(length "$name")
	[ "$longer" -eq $((length + missing)) ] || break
	length=$longer
done
[ $(((length - 8) % block)) -eq 0 ] || echo "the plan has $length bytes, and not 8 more than blocks"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o "$name" --dry-run >/dev/full 2>err
[ $? -eq 4 ] || echo "exit status"
grep -q 'cannot write standard output: No space left on device' err || cat err

#1> tmp
