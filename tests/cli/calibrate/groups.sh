#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# One thread takes several sequences through the experts of a layer together; twelve threads take one each.  Both give the
# same bytes: of calibrate, and with one model or two of eval.
need "python3()"
python3 "$CLI/tiny.py" ids 40 1 33 7 40 25 2 39 40 40 11 40 >ids.jsonl
data="--data ids.jsonl --seq-len 40 --quiet"

# both OPTION...: the two ways.
both() {
	for threads in 1 12; do
		# shellcheck disable=SC2086
		"$FP8CONV" "$@" $data --threads $threads -o $threads.amax
	done
	cmp 1.amax 12.amax
	rm 1.amax 12.amax
}

# measure OPTION...: eval prints the same but for time and memory.
measure() {
	for threads in 1 12; do
		# shellcheck disable=SC2086
		"$FP8CONV" eval out "$@" $data --threads $threads --json |
			sed 's/"\(seconds\|peak_memory_bytes\)": [0-9.e+-]*//g' >$threads.json
	done
	cmp 1.json 12.json
}

for arch in qwen3_moe gpt_oss deepseek_v3 nemotron_h llama4 granitemoehybrid kimi_linear bailing_hybrid glm5_next; do
	python3 "$CLI/tiny.py" make $arch model
	"$FP8CONV" quantize model -o out --recipe channelwise --quiet
	both calibrate model
	measure
	measure --source model
	case $arch in
	deepseek_v3 | nemotron_h | gpt_oss) both calibrate model --fp8-forward --recipe delayed --batch 6 2>notes ;;
	esac
	rm -rf model out
done

mkdir next
cd next
# Layers that use the keys and values of others: the scales of their caches are the others'.  Matrices that they have
# all the same, as releases do, have a history, with the input of their queries.
need "python3()"
python3 "$CLI/tiny.py" ids 40 7 33 40 >ids.jsonl
python3 "$CLI/tiny.py" make gemma4 model
# Layer 3 has no keys of its own; now layer 2 does not use its own either.
sed 's/"num_kv_shared_layers": 1/"num_kv_shared_layers": 2/' model/config.json >config.json
cmp -s config.json model/config.json && echo "the configuration is the same"
mv config.json model/config.json
"$FP8CONV" calibrate model --data ids.jsonl --seq-len 40 --quiet -o model.amax >/dev/null
"$FP8CONV" quantize model -o out --recipe delayed --calibration model.amax --kv-cache --quiet
"$FP8CONV" verify out --source model
python3 - <<'END'
import json


def read(path):
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header, data = json.loads(file.read(n)), file.read()
    return {name: data[slice(*tensor["data_offsets"])] for name, tensor in header.items() if name != "__metadata__"}


history, out = read("model.amax"), read("out/model.safetensors")
for part in ("k_proj", "v_proj"):
    q, other = (history[f"model.layers.2.self_attn.{name}.amax_history"] for name in ("q_proj", part))
    if [q[i:i + 4] for i in range(0, len(q), 12)] != [other[i:i + 4] for i in range(0, len(other), 12)]:
        print(f"{part} has another input than q_proj")
for layer, source in ((2, 0), (3, 1)):
    for which in ("k_scale", "v_scale"):
        if out[f"model.layers.{layer}.self_attn.{which}"] != out[f"model.layers.{source}.self_attn.{which}"]:
            print(f"{which} of layer {layer} is not that of layer {source}")
if out["model.layers.0.self_attn.k_scale"] == out["model.layers.1.self_attn.k_scale"]:
    print("all layers have one scale")
END
"$FP8CONV" eval out --source model --data ids.jsonl --seq-len 40 --quiet --kv-cache --json >eval.json
json eval.json "0 < j['kld']['mean'] < 0.3"
