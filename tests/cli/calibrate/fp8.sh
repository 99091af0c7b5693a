#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# --fp8-forward: what `quantize` would quantize takes FP8; the same bytes however it was come by.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert"
model=$SAMPLES/tiny-llama moe=$SAMPLES/tiny-moe/per-expert
python3 -c "
for i in range(60):
    print('The', i, 'th line of a text that a small model reads, word by word.')" >text.txt
c=" calibrate: "
data="--data text.txt --seq-len 48 --passes 4 --quiet"

# calibrate MODEL OUT OPTION...
calibrate() {
	from=$1 to=$2
	shift 2
	# shellcheck disable=SC2086
	"$FP8CONV" calibrate "$from" $data -o "$to" "$@"
}

# inputs A B: all but the weights' amaxes (codes have others than what they were made of) and the metadata is the same.
inputs() {
	python3 - "$1" "$2" <<-'END'
		import sys, checkpoint
		def load(path):
		    rows = {name: data for name, (_, _, data) in checkpoint.read(path).items()}
		    return {k: [v[i:i + 4] for i in range(0, len(v), 4) if not k.endswith("y") or i // 4 % 3 != 1] for k, v in rows.items()}
		one, other = load(sys.argv[1]), load(sys.argv[2])
		for name in sorted(one.keys() | other.keys()):
		    if one.get(name) != other.get(name):
		        print(f"{name} differs between {sys.argv[1]} and {sys.argv[2]}")
	END
}

calibrate "$model" high.amax
for recipe in blockwise mxfp8 current channelwise delayed; do
	set -- --fp8-forward --recipe $recipe
	calibrate "$model" s.amax "$@" --histogram
	cmp -s high.amax s.amax && echo "$recipe: nothing went through FP8"
	calibrate "$model" t.amax "$@" --histogram --threads 1 --max-memory 3M
	cmp s.amax t.amax
	calibrate "$model" t.amax "$@" --histogram --passes 1 --restart
	calibrate "$model" t.amax "$@" --histogram --resume
	cmp s.amax t.amax
	"$FP8CONV" inspect s.amax --json >s.json
	json s.json "j['precision'] == 'bf16, fp8 $recipe'"
	rm s.amax t.amax
done

# A checkpoint that is quantized runs as the one that it was made from: the same matrices, the same codes.
for recipe in blockwise mxfp8 current channelwise; do
	for from in "$model" "$moe"; do
		set -- --precision f32 --fp8-forward --recipe $recipe
		"$FP8CONV" quantize "$from" -o quantized --recipe $recipe
		calibrate "$from" source.amax "$@"
		calibrate quantized quantized.amax "$@"
		inputs source.amax quantized.amax
		rm -r quantized source.amax quantized.amax
	done
done

# Sequences of a pass do not see each other.
python3 -c "
for i in range(4):
    print({'input_ids': [(i * 37 + t * t) % 250 for t in range(30)]})" | tr "'" '"' >ids.jsonl
set -- --fp8-forward --quiet
"$FP8CONV" calibrate "$moe" --data ids.jsonl -o batch.amax --batch 4 "$@"
for i in 1 2 3 4; do
	sed -n ${i}p ids.jsonl >one.jsonl
	"$FP8CONV" calibrate "$moe" --data one.jsonl -o rank$i.amax "$@"
done
"$FP8CONV" merge --ranks rank1.amax rank2.amax rank3.amax rank4.amax -o ranks.amax
cmp batch.amax ranks.amax

# What is in FP8, and what is not.
# shellcheck disable=SC2086
"$FP8CONV" calibrate "$model" $data --dry-run --json --fp8-forward >plan.json
json plan.json "j['fp8_modules'] == 28" "j['modules'] == 29"
# shellcheck disable=SC2086
"$FP8CONV" calibrate "$model" $data --dry-run --json --fp8-forward --exclude 'down_proj' --include 'layers\.[01]\.' >plan.json
json plan.json "j['fp8_modules'] == 12"
calibrate "$model" some.amax --fp8-forward --exclude down_proj
"$FP8CONV" inspect some.amax --json >s.json
json s.json "j['precision'] == \"bf16, fp8 blockwise --exclude 'down_proj'\""
fails 3 "${c}'some.amax' was made with another precision (bf16, fp8 blockwise --exclude 'down_proj', now bf16): *" \
	calibrate "$model" --data text.txt --seq-len 48 --passes 4 -o some.amax --resume
fails 3 " merge: precision of 'some.amax' is 'bf16, fp8 blockwise --exclude 'down_proj'', but 'bf16' in the earlier files" \
	merge high.amax some.amax -o both.amax

# What cannot be, in one line.
set -- calibrate "$model" --data text.txt --seq-len 48 --passes 4 -o no.amax
fails 2 "${c}option '--recipe' requires '--fp8-forward'" "$@" --recipe mxfp8
fails 2 "${c}option '--exclude' requires '--fp8-forward'" "$@" --exclude down_proj
fails 2 "${c}option '--recipe': unknown recipe 'mxfp9' (did you mean 'mxfp8'?)" "$@" --fp8-forward --recipe mxfp9
fails 2 "${c}option '--scale-fmt' does not apply to recipe 'mxfp8', *" "$@" --fp8-forward --recipe mxfp8 --scale-fmt float
fails 2 "${c}*--exclude*" "$@" --fp8-forward --exclude '('
fails 2 "${c}nothing to quantize: *" "$@" --fp8-forward --exclude proj
calibrate "$model" no.amax --fp8-forward --recipe delayed --amax-history-len 2
fails 3 "${c}'no.amax' holds 2 of 4 passes, but delayed scaling needs all of them to resume: use --restart to start over" \
	"$@" --fp8-forward --recipe delayed --amax-history-len 2 --resume

# Rows that no block divides.
python3 - <<'END'
import json, math, os, random
import checkpoint
random.seed(1)
os.mkdir("odd")
shapes = {"embed_tokens": (60, 48), "norm": (48,)}
for name, shape in {"self_attn.q_proj": (48, 48), "self_attn.k_proj": (48, 48), "self_attn.v_proj": (48, 48),
                    "self_attn.o_proj": (48, 48), "mlp.gate_proj": (80, 48), "mlp.up_proj": (80, 48),
                    "mlp.down_proj": (48, 80), "input_layernorm": (48,), "post_attention_layernorm": (48,)}.items():
    shapes[f"layers.0.{name}"] = shape
checkpoint.write("odd/model.safetensors", {
    f"model.{name}.weight": ("F32", shape, checkpoint.pack("F32", [random.gauss(0, 0.3) for _ in range(math.prod(shape))]))
    for name, shape in shapes.items()})
json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 48, "intermediate_size": 80,
           "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 60,
           "rms_norm_eps": 1e-5, "tie_word_embeddings": True}, open("odd/config.json", "w"))
END
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n' >ids.jsonl
set -- calibrate odd --data ids.jsonl -o odd.amax --fp8-forward --quiet
fails 2 "${c}nothing to quantize: *48 columns are not a multiple of 32; --recipe channelwise accepts any shape" "$@" --recipe mxfp8
fails 2 "${c}nothing to quantize: *48 columns are not a multiple of 128; *--ragged*" "$@"
"$FP8CONV" "$@" --ragged
"$FP8CONV" "$@" --recipe channelwise --restart
rm -r ./*

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
