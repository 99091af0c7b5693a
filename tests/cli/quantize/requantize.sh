#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# An FP8 source is refused, or read through its scales.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o fp8
fails 2 " quantize: *--requantize*" quantize fp8 -o out
fails 2 " quantize: *--requantize*" quantize fp8 --dry-run
[ ! -e out ] || echo "out was made"
"$FP8CONV" quantize fp8 -o out --recipe mxfp8 --requantize
"$FP8CONV" inspect out --json >j
json j 'j["recipe"] == "mxfp8"' 'sum(t["dtype"] == "F8_E4M3" for t in j["tensors"]) == 26' \
	'sum(t["name"].endswith("_scale_inv") for t in j["tensors"]) == 26' \
	'all(t["dtype"] == "U8" for t in j["tensors"] if t["name"].endswith("_scale_inv"))'

# Older ModelOpt keeps its configuration in hf_quant_config.json alone: --requantize reads it, and refuses what is packed.
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o in --recipe mxfp8 --format modelopt
cp -r in old
rm old/fp8conv-manifest.json
python3 -c '
import json
config = json.load(open("old/config.json"))
del config["quantization_config"]
json.dump(config, open("old/config.json", "w"))'
"$FP8CONV" quantize in -o a --requantize --recipe channelwise
"$FP8CONV" quantize old -o b --requantize --recipe channelwise
cmp a/model.safetensors b/model.safetensors
"$FP8CONV" verify b
[ ! -e b/hf_quant_config.json ] || echo "the old configuration is still there"

python3 - <<'END'
import checkpoint
packed = {"model.layers.0.mlp.packed_proj.weight": ("U8", [2, 4], bytes(8))}
checkpoint.write("old/model.safetensors", checkpoint.read("old") | packed)
END
fails 3 " quantize: tensor 'model.layers.0.mlp.packed_proj.weight' is U8 in a source that is already quantized (quant_method 'modelopt'): only FP8 sources can be requantized" \
	quantize old -o c --requantize

mkdir then
cd then
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
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
