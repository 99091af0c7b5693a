#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A source whose contents are the same is the same source, whatever its times and inodes: finished files stay as they are, an
# unfinished job is continued.  Other contents of the same size are another job, and what is there stays as it was.
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
	esac
}

# flip OFFSET: one bit of the byte at OFFSET from the end of the first file, whose times stay.
flip() {
	touch -r in/$first times
	python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(-int(sys.argv[2]), 2); b = f.read(1)[0]
f.seek(-1, 1); f.write(bytes([b ^ 64]))' in/$first "$1"
	[ "$2" != keep ] || touch -r times in/$first
	rm times
}

for name in chmod link touch copy rsync archive; do
	"$FP8CONV" quantize in -o out
	snapshot out | grep "\.safetensors\$" >before
	change $name
	"$FP8CONV" quantize in -o out
	snapshot out | grep "\.safetensors\$" | diff before - || echo "$name: a finished file was written again"
	same wanted out
	# The second time nothing has to be compared.
	snapshot out >before
	"$FP8CONV" quantize in -o out
	snapshot out | diff before - || echo "$name: the third run changed something"
	rm -r out
	"$FP8CONV" quantize in -o out
	change $name
	rm out/$second out/config.json
	inode=$(stat -c %i out/$first)
	"$FP8CONV" quantize in -o out
	same wanted out
	[ "$inode" = "$(stat -c %i out/$first)" ] || echo "$name: a finished file was written again"
	rm -r out
done

# Another model with the same weights: what is not weights is its own.
"$FP8CONV" quantize in -o out --manifest
cp -r in copy
echo '{{ messages }}' >copy/chat_template.jinja
sed -i 's/"rope_theta": [0-9.]*/"rope_theta": 12345.0/' copy/config.json
cmp -s in/config.json copy/config.json && echo "config.json has no rope_theta"
"$FP8CONV" quantize copy -o wanted2
"$FP8CONV" quantize copy -o out --manifest
same wanted2 out
"$FP8CONV" verify out --source copy --manifest >verify.out || cat verify.out
rm -r copy wanted2

# A bit that rounding drops makes another source of the same output: its record is of the other source too.
"$FP8CONV" quantize in -o out --restart --manifest
cp -r in copy
python3 "$CLI/checkpoint.py" flip copy/$first model.layers.0.self_attn.q_proj.weight
"$FP8CONV" quantize copy -o out --manifest
"$FP8CONV" verify out --source copy --manifest >verify.out || cat verify.out
rm -r copy out

# A finished file that is away while another source takes its place: back again, it is none of the job's.
"$FP8CONV" quantize in -o out
cp -r in copy
python3 -c 'f = open("copy/'$second'", "r+b"); f.seek(-3, 2); b = f.read(1)[0]; f.seek(-1, 1); f.write(bytes([b ^ 64]))'
"$FP8CONV" quantize copy -o wanted2
mv out/$second away
(
	ulimit -f 8
	fails 4 " quantize: cannot reserve *" quantize copy -o out
)
mv away out/$second
"$FP8CONV" quantize copy -o out
same wanted2 out
rm -r copy out wanted2

# A copy of the source elsewhere.
"$FP8CONV" quantize in -o out
cp -r in copy
"$FP8CONV" quantize copy -o out
same wanted out
rm -r copy

# Other contents: in the file's time, in the time of an archive, and of an unfinished job.
for time in now keep; do
	touch -d 2001-01-01 in/$first
	rm -rf out
	"$FP8CONV" quantize in -o out
	flip 3 $time
	snapshot out >before
	fails 2 " $other the contents of the input differ, so '$first' would differ (use --restart to start over)" \
		quantize in -o out
	snapshot out | diff before -
	rm out/$second out/config.json
	snapshot out >before
	fails 2 " $other the contents of the input differ*" quantize in -o out
	snapshot out | diff before -
	flip 3 now
done

# What differs is named: a size, a name, how many there are, and with --part, which compares nothing, a time.
rm -rf out
"$FP8CONV" quantize in -o out --part 1/2
touch in/$first
fails 2 " $other the modification time of input '$first' differs (run it without --part, *" quantize in -o out --part 2/2
"$FP8CONV" quantize in -o out
same wanted out
cp "$SAMPLES/tiny-llama/model.safetensors" one.safetensors
"$FP8CONV" quantize one.safetensors -o one --quiet
cp "$SAMPLES/tiny-moe/fused/model.safetensors" one.safetensors
fails 2 " quantize: 'one' holds the output of another job: input 'one.safetensors' had * bytes, now * (use --restart *" \
	quantize one.safetensors -o one
mv one.safetensors two.safetensors
fails 2 " quantize: 'one' holds the output of another job: input 'two.safetensors' was 'one.safetensors' (*" \
	quantize two.safetensors -o one
fails 2 " quantize: 'one' holds the output of another job: it had 1 input files, this one has 2 (*" quantize in -o one
