#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What TransformerEngine's modules save beside their weights: no output has it, and its amax history makes static scales.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
for kind in good one-step operation stateless; do
	python3 "$CLI/states.py" "$model" $kind $kind
done
left="note: 28 states of TransformerEngine are left out ('model.layers.0.mlp.down_proj._extra_state'): no engine reads them"
"$FP8CONV" quantize "$model" -o wanted --target vllm
"$FP8CONV" quantize good -o out --target vllm 2>err.txt
grep -qF "$left" err.txt || cat err.txt
same wanted out
"$FP8CONV" verify out --source good
"$FP8CONV" diff good "$model" >/dev/null || echo "diff: $?"
"$FP8CONV" inspect good --json >good.json 2>err.txt
json good.json "j['states'] == 28" "j['state_histories'] == 28" "not any('_extra_state' in t['name'] for t in j['tensors'])"
grep -q '28 of modules with an amax history (3 passes at most)' err.txt || cat err.txt

# scales KIND X W: the static scales are those of TransformerEngine for these amaxes, 1 / (448 / amax) in fp32.
scales() {
	"$FP8CONV" quantize "$model" -o "$1-scaled" --recipe delayed --calibration "$1" --target vllm
	python3 - "$@" <<-'END'
	import struct, sys
	import checkpoint
	kind, *amaxes = sys.argv[1:]
	f32 = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
	tensors = checkpoint.read(f"{kind}-scaled")
	for name, amax in zip(("input_scale", "weight_scale"), amaxes):
	    found = struct.unpack("<f", tensors[f"model.layers.0.mlp.down_proj.{name}"][2])[0]
	    if found != f32(1 / f32(448 / float(amax))):
	        print(kind, name, found, f32(1 / f32(448 / float(amax))))
	END
}
scales good 7.25 2.5
scales one-step 8 4
scales operation 7.25 2.5
"$FP8CONV" quantize "$model" -o recent --recipe delayed --calibration good --amax-algo most-recent --target vllm
python3 - <<'END'
import struct
import checkpoint
found = struct.unpack("<f", checkpoint.read("recent")["model.layers.0.mlp.down_proj.input_scale"][2])[0]
if found != struct.unpack("<f", struct.pack("<f", 0.5 / 448))[0]:
    print("most-recent:", found)
END
# Names are those of the model, with --rename too, and the weights are the model's.
"$FP8CONV" quantize good -o renamed --recipe delayed --calibration good --target vllm --rename 's/^model\./model./' 2>/dev/null
same good-scaled renamed
cp -r good other
python3 "$CLI/checkpoint.py" flip other/model.safetensors model.norm.weight
fails 3 " quantize: 'other' belongs to another model: *" quantize "$model" -o no --recipe delayed --calibration other

fails 3 " quantize: 'stateless' has no amax history of TransformerEngine: give an amax file, as 'fp8conv calibrate' makes it" quantize "$model" -o no --recipe delayed --calibration stateless
fails 3 " quantize: '$model' has no amax history*" quantize "$model" -o no --recipe delayed --calibration "$model"
# wrong KIND MESSAGE: inspect shows a damaged state, quantize leaves it out, and --calibration names it.
wrong() {
	python3 "$CLI/states.py" "$model" "$1" "$1"
	fails 3 " quantize: '$1': $2" quantize "$model" -o no --recipe delayed --calibration "$1"
	"$FP8CONV" inspect "$1" --json >"$1.json" 2>/dev/null
	json "$1.json" "j['states'] == 28" "j['state_histories'] == 0"
}
state="model.layers.0.mlp.down_proj._extra_state"
wrong global "pickle '$state' names the global 'os system' at byte *, which no weights need: fp8conv reads tensors alone, and calls nothing"
wrong opcode "pickle '$state' has the opcode 0x69 at byte 2, *"
wrong negative "'amax_history_fwd' of state '$state' has a value that is NaN or negative"
wrong nan "'amax_history_fwd' of state '$state' has a value that is NaN or negative"
wrong flat "'amax_history_fwd' of state '$state' is not a table of F32"
wrong cube "'amax_history_fwd' of state '$state' is not a tensor as TransformerEngine saves it"
wrong text "'amax_history_fwd' of state '$state' is not a tensor as TransformerEngine saves it"
wrong no-scale "'scale_fwd' of state '$state' has not a scale for each column of amax_history_fwd"
wrong two-scales "'scale_fwd' of state '$state' has not a scale for each column of amax_history_fwd"
wrong no-history "'amax_history_fwd' of state '$state' is not a table of F32"
for kind in half stated cut; do
	wrong $kind "'amax_history_fwd' of state '$state' has no storage of F32 as torch writes it"
done
wrong cut-pickle "pickle '$state' ends in the middle of an opcode at byte *"
wrong other-global "pickle '$state' names the global 'torch load' at byte *"
wrong outside "'amax_history_fwd' of state '$state' ends after its storage"
wrong wraps "'amax_history_fwd' of state '$state' *"
wrong broadcast "'amax_history_fwd' of state '$state' has more elements than bytes"
wrong empty "'amax_history_fwd' of state '$state' has an impossible shape"
wrong truncated "pickle '$state' ends in the middle of an opcode at byte *"
python3 "$CLI/states.py" "$model" list list
fails 3 " quantize: 'list' has no amax history*" quantize "$model" -o no --recipe delayed --calibration list
[ ! -e no ] || echo "a refused state left an output"
