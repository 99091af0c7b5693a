#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A source with the recorded sizes and times is the same source, whatever its inodes: finished files stay as they are, an
# unfinished job is continued.  Any other source is another job, and what is there stays as it was.
need "$SAMPLES/tiny-moe"
cp -r "$SAMPLES/tiny-moe/per-expert" in
first=model-00001-of-00002.safetensors
second=model-00002-of-00002.safetensors
other="quantize: 'out' holds the output of another job:"
"$FP8CONV" quantize in -o wanted

# change NAME: what befalls the first file.
change() {
	case $1 in
	chmod) chmod 600 in/$first ;;
	link) ln in/$first link && rm link ;;
	touch) touch -d 2001-01-01 in/$first ;;
	copy) cp in/$first copy && mv copy in/$first ;;
	rsync) cp -p in/$first copy && mv copy in/$first ;;
	archive) cp in/$first copy && touch -d 2001-01-01 copy && mv copy in/$first ;;
	flip) printf '\001' | dd of=in/$first bs=1 seek=20000 conv=notrunc status=none ;;
	esac
}

# The same times: the same source, where a time has a fraction of a second.
for name in chmod link rsync; do
	"$FP8CONV" quantize in -o out
	snapshot out >before
	change $name
	"$FP8CONV" quantize in -o out
	snapshot out | diff before - || echo "$name: a finished output changed"
	rm out/$second out/config.json
	inode=$(stat -c %i out/$first)
	"$FP8CONV" quantize in -o out
	same wanted out
	[ "$inode" = "$(stat -c %i out/$first)" ] || echo "$name: a finished file was written again"
	rm -r out
done

# Another time, or the time of an archive with another inode: perhaps another source.
touch -d 2001-01-01 in/$first
"$FP8CONV" quantize in -o out
cp -p in/$first first
for name in archive touch copy flip; do
	change $name
	snapshot out >before
	fails 2 " $other the * time of input '$first' differs (use --restart to start over)" quantize in -o out
	snapshot out | diff before - || echo "$name: a refused job changed something"
	cp -p first in/$first
done
"$FP8CONV" quantize in -o out --restart
same wanted out

# A copy of the source elsewhere, with its times, and another name of the directory.
cp -rp in copy
touch copy/$first
rm -r out
"$FP8CONV" quantize copy -o out
mv copy moved
"$FP8CONV" quantize moved -o out
same wanted out
rm -r moved

# What differs is named: a size, a name, how many there are.
cp "$SAMPLES/tiny-llama/model.safetensors" one.safetensors
"$FP8CONV" quantize one.safetensors -o one --quiet
cp "$SAMPLES/tiny-moe/fused/model.safetensors" one.safetensors
fails 2 " quantize: 'one' holds the output of another job: input 'one.safetensors' had * bytes, now * (use --restart *" \
	quantize one.safetensors -o one
mv one.safetensors two.safetensors
fails 2 " quantize: 'one' holds the output of another job: input 'two.safetensors' was 'one.safetensors' (*" \
	quantize two.safetensors -o one
fails 2 " quantize: 'one' holds the output of another job: it had 1 input files, this one has 2 (*" quantize in -o one
