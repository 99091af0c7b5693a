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
#2> fp8conv quantize: note: 3 files of the source are not in the output: 'consolidated.safetensors', 'original/consolidated.00.pth', 'pytorch_model.bin'; copy what the model needs
#2> fp8conv quantize: note: 3 files of the source are not in the output: 'consolidated.safetensors', 'original/consolidated.00.pth', 'pytorch_model.bin'; copy what the model needs
