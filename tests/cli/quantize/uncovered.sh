#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Experts that too few tokens reached.
need "$SAMPLES/tiny-moe"
amax() { python3 "$CLI/amax.py" "$@"; }
q=' quantize: '
expert=model.layers.0.mlp.experts.1.up_proj
for model in "$SAMPLES/tiny-moe/per-expert" "$SAMPLES/tiny-moe/fused"; do
	rm -rf s.amax out
	amax make "$model" s.amax passes=2 quiet=$expert
	fails 3 "${q}fewer than 1 tokens reached the module of tensor '$expert.weight' in 's.amax': calibrate with more data, or choose a policy \
with --uncovered" quantize "$model" -o out --recipe delayed --calibration s.amax
	[ -e out ] && echo "out was written"
	for uncovered in group-max dynamic skip; do
		"$FP8CONV" quantize "$model" -o out --recipe delayed --calibration s.amax --uncovered $uncovered 2>note
		grep -q "note: 1 of 26 modules had too few tokens in 's.amax': --uncovered applies to them$" note || cat note
		amax scales "$model" s.amax out uncovered=$uncovered
		"$FP8CONV" inspect out | cut -f 1,2 >names
		echo $uncovered "$(grep -c 'layers.0.mlp.experts.*F8_E4M3' names)" "$(grep -c 'layers.0.mlp.experts.*input_scale' names)" \
			"$(grep -c 'layers.1.*input_scale' names)"
		"$FP8CONV" verify out
		"$FP8CONV" verify out --source "$model"
		rm -rf out
	done
done
# Two groups of modules, and experts alone are without static scales.
"$FP8CONV" quantize -q "$model" -o out --recipe delayed --calibration s.amax --uncovered dynamic
python3 - <<'END'
import json
groups = json.load(open("out/config.json"))["quantization_config"]["config_groups"]
print([(g["input_activations"]["dynamic"], len(g["targets"])) for g in groups.values()])
END
fails 2 "${q}tensor 'model.layers.0.mlp.experts.*': no engine loads recipe 'delayed' in format 'modelopt': it needs static input scales*" quantize "$model" -o mo --recipe delayed --calibration s.amax --uncovered dynamic \
	--format modelopt
# The limit counts the tokens of all passes kept: 32 here.
"$FP8CONV" quantize "$model" -o most --recipe delayed --calibration s.amax --uncovered group-max --min-tokens 32 --quiet
fails 3 "${q}fewer than 33 tokens reached the module of tensor 'model.layers.0.*" quantize "$model" -o more --recipe delayed \
	--calibration s.amax --min-tokens 33
fails 3 "${q}option '--uncovered group-max': no expert beside 'model.layers.0.mlp.experts.*' has enough tokens in 's.amax'" \
	quantize "$model" -o more --recipe delayed --calibration s.amax --min-tokens 33 --uncovered group-max --include experts
fails 3 "${q}fewer than 33 tokens reached the module of tensor 'model.layers.0.self_attn.*" quantize "$model" -o more \
	--recipe delayed --calibration s.amax --min-tokens 33 --uncovered group-max

#1> group-max 9 9 13
#1> dynamic 9 0 13
#1> skip 0 0 13
#1> group-max 9 9 13
#1> dynamic 9 0 13
#1> skip 0 0 13
#1> [(False, 1), (True, 9)]
