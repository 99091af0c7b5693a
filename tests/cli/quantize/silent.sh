#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
