#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The cache of latent attention (MLA) the whole way: its amax, its one scale under the name that engines load, in every command.
need "python3()"
python3 "$CLI/tiny.py" make deepseek_v3 model
python3 "$CLI/tiny.py" ids 40 25 33 12 >ids.jsonl
data="--seq-len 40 --quiet"
# shellcheck disable=SC2086
"$FP8CONV" calibrate model --data ids.jsonl $data -o s.amax
# Each layer has a history of what it caches: no q; all values; the latent ones of them.
python3 - <<'END'
import amax
tensors = amax.read("s.amax")[1]
sites = [name for name in tensors if name.endswith(".latent_cache.amax_history_qkv")]
heads = [name for name in tensors if name.endswith(".self_attn.amax_history_qkv")]
if len(sites) != len(heads) or not sites:
    print(len(sites), "caches of", len(heads), "attentions")
for name in sites:
    values = amax.unpack(tensors[name])
    for q, k, v in zip(values[0::3], values[1::3], values[2::3]):
        if q != 0 or not 0 < v <= k:
            print(name, q, k, v)
    if tensors[name.replace("amax_history_qkv", "tokens")] != tensors[name.replace("latent_cache.amax_history_qkv", "tokens")]:
        print("tokens of", name)
END
"$FP8CONV" inspect s.amax | grep -q "latent_cache" || echo "inspect does not show the cache"

# Ranks merge to the larger amax, passes follow each other.
for i in 1 2; do
	sed -n "${i}p" ids.jsonl >rank$i.jsonl
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate model --data rank$i.jsonl $data -o rank$i.amax
done
"$FP8CONV" merge --ranks rank1.amax rank2.amax -o ranks.amax --quiet
python3 "$CLI/amax.py" merge ranks wanted.amax rank1.amax rank2.amax
python3 "$CLI/amax.py" same ranks.amax wanted.amax
"$FP8CONV" merge rank1.amax rank2.amax -o both.amax --quiet
python3 "$CLI/amax.py" merge append wanted.amax rank1.amax rank2.amax
python3 "$CLI/amax.py" same both.amax wanted.amax

scales() {
	python3 "$CLI/checkpoint.py" list "$1" | grep '[kv]_scale'
}
for format in compressed-tensors modelopt; do
	"$FP8CONV" quantize model -o $format --recipe delayed --format $format --calibration s.amax --kv-cache \
		--uncovered group-max --quiet
	python3 "$CLI/amax.py" scales model s.amax $format uncovered=group-max
	grep -q '"kv_cache_scheme": {' $format/config.json || echo "$format: no kv_cache_scheme"
	# The scale of the values is that of the vector which has them.
	python3 - $format <<'END'
import sys
import amax
tensors = amax.read(sys.argv[1])[1]
names = [name for name in tensors if name.endswith(".self_attn.k_proj.k_scale")]
for name in names:
    if tensors[name] != tensors[name.replace("k_proj.k_", "v_proj.v_")]:
        print(name, "is not the scale of values")
others = [name for name in tensors if name.endswith((".k_scale", ".v_scale")) and "_proj." not in name]
if not names or others:
    print(len(names), "scales, and", others)
END
	"$FP8CONV" verify $format --quiet
	"$FP8CONV" verify $format --source model --quiet
	# shellcheck disable=SC2086
	"$FP8CONV" eval $format --source model --data ids.jsonl $data --kv-cache --json >cached.json
	# shellcheck disable=SC2086
	"$FP8CONV" eval $format --source model --data ids.jsonl $data --json >plain.json
	json cached.json "0 < j['kld']['mean'] < 0.2"
	cmp -s cached.json plain.json && echo "$format: --kv-cache changes nothing"
done

# Each format holds the other's scales under the same names, and a dequantized model has none.
for pair in compressed-tensors=modelopt modelopt=compressed-tensors; do
	"$FP8CONV" repack "${pair%=*}" -o again --format "${pair#*=}" --quiet
	scales again >found
	scales "${pair#*=}" | diff - found
	"$FP8CONV" verify again --source model --quiet
	"$FP8CONV" dequantize again -o values --quiet
	[ -z "$(scales values)" ] || echo "a dequantized model has cache scales"
	rm -rf again values
done

# vLLM does not load the scale: a note, but not where another engine is the target.
for target in vllm sglang; do
	"$FP8CONV" quantize model -o $target --recipe channelwise --format compressed-tensors --target $target \
		--calibration s.amax --kv-cache 2>$target.note
	"$FP8CONV" verify $target --target $target --quiet
done
grep -qx "fp8conv quantize: note: from 0.23 on, vLLM does not load the scale of a latent cache: it uses 1.0, first for '.*layers.0.self_attn' \[auto-round #2370\]" \
	vllm.note || cat vllm.note
cat sglang.note

# An MTP layer, which no calibration runs, gets no scale of its cache, and needs none.
cp -r model mtp
chmod -R u+w mtp
python3 - <<'END'
import json
import re
import amax
import checkpoint
config = json.load(open("mtp/config.json"))
last = config["text_config"]["num_hidden_layers"]
config["text_config"]["num_nextn_predict_layers"] = 1
json.dump(config, open("mtp/config.json", "w"))
tensors = checkpoint.read("mtp")
for name in [name for name in tensors if ".layers.0." in name]:
    tensors[name.replace(".layers.0.", f".layers.{last}.")] = tensors[name]
checkpoint.write("mtp/model.safetensors", tensors)
metadata, history = amax.read("s.amax")
amax.write("mtp.amax", metadata | {"model": amax.fingerprint("mtp")}, history)
END
"$FP8CONV" quantize mtp -o out --recipe channelwise --calibration mtp.amax --kv-cache --quiet
"$FP8CONV" verify out --source mtp --quiet
scales out >with
scales sglang | cut -f 1,2 >without
cut -f 1,2 with | diff without -
exit 0
