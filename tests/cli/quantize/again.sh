#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
# --manifest: the SHA-256 of every file, as sha256sum has it.
need "$SAMPLES/tiny-moe"
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --manifest
for file in "$SAMPLES"/tiny-moe/per-expert/*.safetensors out/*.safetensors out/config.json; do
	grep -q "$(sha256sum "$file" | cut -d ' ' -f 1)" out/fp8conv-manifest.json || echo "not the hash of $file"
done
snapshot out >before
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out --manifest
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o out
snapshot out | diff before -
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o plain
same plain out
fails 2 " quantize: *--manifest*" quantize "$SAMPLES/tiny-moe/fused" -o x.safetensors --manifest

mkdir next
cd next
# A finished job does nothing when it is run again.  What it did not measure it does not claim: figures of rounding are
# null unless one run wrote all files.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out --json >first
snapshot out >before
"$FP8CONV" quantize "$model" -o out --json >second
"$FP8CONV" quantize "$model" -o out --threads 1 --backend reference --max-memory 64M
snapshot out | diff before -
json first '28 < j["worst"]["sqnr_db"] < 35'
json second 'j["tensors"] == {"quantized": 26, "kept": 12}'
json first 'j["saturated"] == 0 and j["nonfinite"] == 0'
unknown='j["saturated"] is None and j["nonfinite"] is None and j["worst"] == {"tensor": None, "sqnr_db": None}'
json second "$unknown"
# Nor does a job that makes one of its files again, or a part.
rm out/model-00001-of-00002.safetensors
"$FP8CONV" quantize "$model" -o out --json >again
json again "$unknown"
"$FP8CONV" quantize "$model" -o parts --part 1/2 --json >part
json part "$unknown"
"$FP8CONV" quantize "$model" -o out --verbose 2>&1 | grep -E 'saturated|SQNR' || :

mkdir then
cd then
# What is missing is made again, what is there is left alone.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
shard=model-00002-of-00002.safetensors
"$FP8CONV" quantize "$model" -o wanted
cp -a wanted out
rm out/config.json out/$shard
before=$(stat -c '%i %Y' out/model-00001-of-00002.safetensors)
"$FP8CONV" quantize "$model" -o out
same wanted out
[ "$before" = "$(stat -c '%i %Y' out/model-00001-of-00002.safetensors)" ] || echo "a finished file was written again"
# A file that was cut short since is not taken for finished.
truncate -s -1 out/$shard
rm out/config.json
"$FP8CONV" quantize "$model" -o out
same wanted out
# Without its record it is somebody else's.
rm out/fp8conv-manifest.json
snapshot out >before
fails 2 " quantize: *'out'*--restart*" quantize "$model" -o out
snapshot out | diff before -
"$FP8CONV" quantize "$model" -o out --restart
same wanted out

mkdir next
cd next
# Another job in the same place is refused until --restart, and what is there stays as it was.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out
"$FP8CONV" quantize "$model" -o wanted --recipe mxfp8
snapshot out >before
for options in '--recipe mxfp8' '--scale-fmt float' '--tensor layers.0=skip' '--exclude k_proj' '--format compressed-tensors' \
	'--fp8-format e5m2' '--margin 1' '--on-nonfinite saturate'; do
	case $options in *margin*) options="$options --scale-fmt float" ;; esac
	# shellcheck disable=SC2086
	fails 2 " quantize: *'out*" quantize "$model" -o out $options
done
fails 2 " quantize: *'out*" quantize "$SAMPLES/tiny-moe/fused" -o out
snapshot out | diff before -
"$FP8CONV" quantize "$model" -o out --recipe mxfp8 --restart
same wanted out
# With it too, weights of another job that this one would not replace are refused: engines would load them.
snapshot out >before
fails 2 " quantize: 'out' contains 'model-00001-of-00002.safetensors' from another job: remove it, or choose another output" \
	quantize "$SAMPLES/tiny-moe/fused" -o out --restart
snapshot out | diff before -

mkdir "$top/silent"
cd "$top/silent"
# Success is silent but for what is left out, and the checkpoint is whole: config, index, every auxiliary file, nothing else.
need "$SAMPLES/odd-shapes"
"$FP8CONV" quantize "$SAMPLES/odd-shapes" -o out --recipe channelwise
"$FP8CONV" quantize "$SAMPLES/odd-shapes" -o out --recipe channelwise
(cd out && find . -type f ! -name '.*' | sort)
for file in LICENSE chat_template.jinja configuration_odd.py generation_config.json tokenizer_config.json \
	1_Pooling/config.json original/params.json; do
	cmp "$SAMPLES/odd-shapes/$file" "out/$file"
done
python3 - "$SAMPLES/odd-shapes/config.json" out/config.json <<'END'
import json, sys
old, new = (json.load(open(p, encoding="utf-8"), object_pairs_hook=lambda x: x) for p in sys.argv[1:])
names = [k for k, _ in old]
if [k for k, _ in new] != names or any(a != b for a, b in zip(old, new) if a[0] != "quantization_config"):
    print("other keys were changed")
if dict(dict(new)["quantization_config"]).get("quant_method") != "compressed-tensors":
    print("no quantization_config")
END
python3 - out <<'END'
import json, sys
index = json.load(open(sys.argv[1] + "/model.safetensors.index.json", encoding="utf-8"))
print(index["metadata"]["total_size"], file=open("total", "w"))
print(*sorted(index["weight_map"]), sep="\n", file=open("names", "w", encoding="utf-8"))
END
python3 "$CLI/checkpoint.py" total out | diff - total
python3 "$CLI/checkpoint.py" list out | cut -f 1 | diff - names

mkdir then
cd then
need "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/per-expert
# A job of a moment: one object, the last.
"$FP8CONV" quantize "$in" -o a --progress json 2>j
json j 'list(j) == ["schema", "done", "total", "seconds", "bytes_per_second", "seconds_left", "shard", "phase"]' \
	'j["done"] == j["total"] == 920576' 'j["shard"] == "model-00002-of-00002.safetensors"'
# A second and a half of waiting for a stream: one more.
(
	sleep 1.5
	cat "$SAMPLES/tiny-moe/fused/model.safetensors"
) | "$FP8CONV" quantize - -o a.safetensors --progress json 2>lines
[ "$(wc -l <lines)" -eq 2 ] || cat lines
"$FP8CONV" quantize "$in" -o b --progress json --quiet 2>j
json j 'j["done"] == 920576'
"$FP8CONV" quantize "$in" -o c --progress none
"$FP8CONV" quantize "$in" -o d --progress auto
# The bar is cleared before anything else is written.
(
	sleep 0.5
	cat "$SAMPLES/tiny-moe/fused/model.safetensors"
) | "$FP8CONV" quantize - -o e.safetensors --progress bar 2>bar
[ "$(tail -c 4 bar | od -An -c | tr -d ' \n')" = '\r033[K' ] || od -c bar

mkdir next
cd next
# The summary: asked for, or on a terminal; never with --quiet.
need "$SAMPLES/tiny-moe"
in=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$in" -o a --verbose 2>err
sed 's/^time .*/time/; s/-\?[0-9.]* dB, model.*/N dB, TENSOR/; s,--source .*/per-expert$,--source MODEL,' err
python3 "$CLI/terminal.py" "$FP8CONV" quantize "$in" -o b --progress none >t
cut -c 1-10 t | sed 's/ *$//; /^$/d'
python3 "$CLI/terminal.py" "$FP8CONV" quantize "$in" -o c --quiet
"$FP8CONV" quantize "$in" -o d --quiet --verbose

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#1> ./1_Pooling/config.json
#1> ./LICENSE
#1> ./chat_template.jinja
#1> ./config.json
#1> ./configuration_odd.py
#1> ./fp8conv-manifest.json
#1> ./generation_config.json
#1> ./model-00001-of-00002.safetensors
#1> ./model-00002-of-00002.safetensors
#1> ./model.safetensors.index.json
#1> ./original/params.json
#1> ./tokenizer_config.json
#1> tensors    26 blockwise, 12 kept
#1> size       921 kB in, 495 kB out (54 %)
#1> time
#1> worst SQNR N dB, TENSOR
#1> saturated  0 values
#1> output     a
#1> next       fp8conv verify a --source MODEL
#1> tensors
#1> size
#1> time
#1> worst SQNR
#1> saturated
#1> output
#1> next
#2> fp8conv quantize: note: 3 files of the source are not in the output: 'consolidated.safetensors', 'original/consolidated.00.pth', 'pytorch_model.bin'; copy what the model needs
#2> fp8conv quantize: note: 3 files of the source are not in the output: 'consolidated.safetensors', 'original/consolidated.00.pth', 'pytorch_model.bin'; copy what the model needs
