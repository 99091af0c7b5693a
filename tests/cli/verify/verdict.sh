#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Nothing is wrong with what quantize wrote, by itself and against the model; the arithmetic has its name.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
python3 "$CLI/amax.py" make "$model" s.amax
"$FP8CONV" formats | while read -r format recipe engines; do
	calibration=
	[ "$recipe" = delayed ] && calibration="--calibration s.amax"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize "$model" -o out --recipe "$recipe" --format "$format" $calibration || continue
	"$FP8CONV" verify out
	"$FP8CONV" verify out --source "$model" --json >j
	json j "j['ok'] and not j['problems'] and j['recipe'] == '$recipe' and j['format'] == '$format'" \
		"j['arithmetic'] == {'blockwise': 'power of two', 'mxfp8': 'mx round up'}.get('$recipe', 'te')" \
		'len(j["weights"]) == 26 and all(30 < w["sqnr_db"] < 33 for w in j["weights"])'
	rm -rf out
done

mkdir next
cd next
# One line for each problem, exit status 1; against another model, codes, scales and copies differ.
need "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-moe/per-expert
"$FP8CONV" quantize "$model" -o out || exit 1
sed -i 's/"activation_scheme": "dynamic"/"activation_scheme": "maybe"/' out/config.json
sed -i 's/"total_size": /"total_size": 1/' out/model.safetensors.index.json
"$FP8CONV" verify out >lines
echo "status $?, $(wc -l <lines) lines"
cut -d: -f1,2 lines
"$FP8CONV" verify out --json >j
json j 'not j["ok"]' '{p["kind"] for p in j["problems"]} == {"config-key", "index-total-size"}' 'j["weights"] == []'
cp -r "$model" other
printf 'x' | dd of=other/model-00001-of-00002.safetensors bs=1 seek=200000 conv=notrunc 2>/dev/null
"$FP8CONV" verify out --source other --json >j
echo "status $?"
json j '{p["kind"] for p in j["problems"]} - {"config-key", "index-total-size"} <= {"code-mismatch", "scale-mismatch", "tensor-changed"}' \
	'len(j["problems"]) >= 3'
# A terminal shows five problems of a kind, and counts the others; a pipe has all.
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o many
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("many/model.safetensors")
checkpoint.write("many/model.safetensors", {name: tensor for name, tensor in tensors.items() if "scale_inv" not in name})
END
"$FP8CONV" verify many >lines
python3 "$CLI/terminal.py" "$FP8CONV" verify many >screen
[ "$(grep -c 'scale-missing: ' lines) $(grep -c 'scale-missing: ' screen)" = "28 6" ] || head lines screen
tr -d '\r' <screen | grep -qx "scale-missing: 23 more of this kind (a pipe and --json have them)" || cat screen

mkdir releases
cd releases
# What is right in other people's releases is no problem, for each engine that reads them; one damage to each is named.
python3 "$CLI/releases.py" check

mkdir next
cd next
# Each way to damage a checkpoint is found but those that pass by right, which ruin.py lists with the reason.
python3 "$CLI/ruin.py" models llama 2>ways || exit 1
grep -q "^llama mxfp8/hf: [0-9]* ways" ways && grep -q "^llama channelwise/compressed-tensors: [0-9]* ways" ways &&
	grep -q "^llama channelwise/modelopt: [0-9]* ways" ways || cat ways

#1> status 1, 2 lines
#1> model.safetensors.index.json: index-total-size
#1> config.json: config-key
#1> status 1
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: transformers looks for these scales under other names: use --target transformers for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
