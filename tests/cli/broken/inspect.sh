#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
# Every broken sample is refused with its message, but for one that only lacks a file (dequantize/refused).
need "python3()"
python3 "$SAMPLES/broken.py" broken
for expected in broken/*.expected; do
	path=${expected%.expected}
	[ "$path" != broken/shard-missing ] || continue
	[ -e "$path" ] || path=$path.safetensors
	"$FP8CONV" inspect "$path" >out 2>err
	status=$?
	[ $status -eq 3 ] || echo "$path: exit status $status"
	[ -s out ] && echo "$path: wrote to stdout"
	printf 'fp8conv inspect: %s\n' "$(cat "$expected")" | diff - err
done

mkdir next
cd next
# Names that are not UTF-8, or that a terminal would obey: of folders and copied files they do not matter, of shards they
# are refused; none is printed as it is.
need "python3()"
python3 "$CLI/checkpoint.py" make m.safetensors up_proj.weight=F32:128x128
folder=$(printf 'm\377')
shard=$(printf 'a\377\033[31m.safetensors')
mkdir "$folder" bad
cp m.safetensors "$folder/model.safetensors"
mv m.safetensors "bad/$shard"
echo x >"$folder/$(printf 'note\376\n\033[31m.txt')"
"$FP8CONV" quantize "$folder" --quiet -o "$(printf 'out\377')"
cmp "$folder/$(printf 'note\376\n\033[31m.txt')" "$(printf 'out\377/note\376\n\033[31m.txt')"
"$FP8CONV" quantize "$folder" --dry-run --json --quiet >j
json j 'j["source"].startswith("m")'
"$FP8CONV" inspect bad --json >j
json j 'j["files"][0]["name"].endswith("[31m.safetensors")'
fails 3 " quantize: the name of input file 'a*?\[31m.safetensors' is not UTF-8: fp8conv-manifest.json cannot record it" \
	quantize bad -o out
fails 3 " quantize: the name of 'note*??\[31m.txt' in 'hashed' is not UTF-8: fp8conv-manifest.json cannot record it" \
	quantize "$folder" --manifest -o hashed
"$FP8CONV" quantize "$folder" --quiet -o hashed

mkdir "$top/hostile"
cd "$top/hostile"
# Inputs that are deep, long or no files: refused in one line by every command that reads, in bounded memory and time,
# and nothing is left behind.
need "python3()"
python3 "$CLI/hostile.py"
# Sanitizers take their address space at once.
grep -aq '__[at]san_init' "$FP8CONV" || ulimit -v 1500000 # KiB

# refused CASE MESSAGE
refused() {
	fails 3 " inspect: $2" inspect "$1"
	refused_plan "$1" "$2"
}
refused_plan() {
	fails 3 " quantize: $2" quantize -q "$1" -o out --recipe channelwise
	fails 3 " quantize: $2" quantize -q "$1" --dry-run --recipe channelwise --json
	[ ! -e out ] || echo "$1: left something behind"
}
deep='nested deeper than 127 levels' again=': copy or download it again'
refused deep-header "header of 'deep-header/model.safetensors': bad JSON at byte 139: $deep$again"
refused deep-header-open "header of 'deep-header-open/model.safetensors': bad JSON at byte 518: $deep$again"
refused deep-field "header of 'deep-field/model.safetensors': bad JSON at byte 213: $deep$again"
refused deep-index "index 'deep-index/model.safetensors.index.json': bad JSON at byte 140: $deep"
refused deep-config "'deep-config': config.json: bad JSON at byte 149: $deep"
refused long-header "header of 'long-header/model.safetensors': bad JSON at byte 9: expected a key in quotes$again"
refused long-field "field 'x' of tensor 'up_proj.weight' in 'long-field/model.safetensors' is 2000003 bytes long, more than the limit (1048576) (byte 88)"
refused long-name "tensor 'xxx*xxx...xxx*xxx' in 'long-name/model.safetensors' has the unknown type 'F33' (byte 1000021)"
refused_plan experts "experts 'a.5.experts.gate_up_proj' and the experts before them are 1179648 matrices, more than 1048576: use --exclude to keep them"
refused config-loop "cannot open 'config-loop/config.json': Too many levels of symbolic links"
for place in shard.safetensors config.json model.safetensors.index.json; do
	case $place in
	shard*) as=shard ;;
	config*) as=config ;;
	*) as=index ;;
	esac
	for kind in fifo socket device; do
		refused $kind-as-$as "'$kind-as-$as/$place' is not a regular file"
	done
	refused directory-as-$as "'directory-as-$as/$place' is a directory, not a file"
done
fails 3 " inspect: 'fifo-as-config/config.json' is not a regular file" inspect fifo-as-config/config.json
fails 3 " quantize: '/dev/zero' is not a regular file" quantize /dev/zero -o out

mkdir next
cd next
# Every broken sample is refused by quantize too, planned, as a file and as a stream, and leaves nothing behind.
need "python3()"
python3 "$SAMPLES/broken.py" broken
scratch=$PWD/scratch
mkdir "$scratch"
mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp
export TMPDIR
check() {
	status=$?
	[ $status -eq 3 ] || echo "$path$1: exit status $status"
	grep -v '^{"schema": 1, "error": ".*", "status": 3}$' "$scratch/stdout" && echo "$path$1: wrote to stdout"
	[ "$(wc -l <"$scratch/stderr")" -eq 1 ] || echo "$path$1: $(wc -l <"$scratch/stderr") lines on stderr"
	rm "$scratch/stdout" "$scratch/stderr"
	[ "$(cd "$scratch" && find . | sort | tr '\n' ' ')" = '. ./tmp ' ] ||
		{
			echo "$path$1 left:"
			find "$scratch"
			rm -rf "${scratch:?}"/*
			mkdir "$scratch/tmp"
		}
}
for expected in broken/*.expected; do
	path=${expected%.expected}
	[ -e "$path" ] || path=$path.safetensors
	"$FP8CONV" quantize "$path" -o "$scratch/out" >"$scratch/stdout" 2>"$scratch/stderr"
	check ''
	"$FP8CONV" quantize "$path" --dry-run --json >"$scratch/stdout" 2>"$scratch/stderr"
	check ' (dry run)'
	[ -f "$path" ] || continue
	"$FP8CONV" quantize - -o "$scratch/out.safetensors" <"$path" >"$scratch/stdout" 2>"$scratch/stderr"
	check ' (stream)'
done
