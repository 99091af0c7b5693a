#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Codes for activations in high precision: compressed-tensors can say so, as vLLM's CompressedTensorsW8A16Fp8 reads it.
python3 "$CLI/fp8.py" make ct-channel in
python3 - <<'END'
import json
config = json.load(open("in/config.json"))
for group in config["quantization_config"]["config_groups"].values():
    group["input_activations"] = None
json.dump(config, open("in/config.json", "w"))
END
"$FP8CONV" repack in -o ct --format compressed-tensors
tr -d '\n' <ct/config.json >j
echo >>j
json j '[g["input_activations"] for g in j["quantization_config"]["config_groups"].values()] == [None]'
"$FP8CONV" repack ct -o mo --format modelopt

#2> fp8conv repack: note: the source keeps activations in high precision, but in format 'modelopt' engines quantize them too: compare the quality of both
