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
