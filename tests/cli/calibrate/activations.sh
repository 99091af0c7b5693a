#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Inputs that another program dumped become a history, also of a model whose forward pass is not known; quantize takes it.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
dump() { python3 "$CLI/dump.py" "$@"; }
cp -r "$SAMPLES/tiny-llama" model
chmod -R u+w model
sed -i 's/LlamaForCausalLM/RwkvForCausalLM/' model/config.json
modules=
for i in 0 1 2 3; do
	[ $i -lt "$(grep -o 'num_hidden_layers": [0-9]*' model/config.json | grep -o '[0-9]*')" ] || continue
	for m in self_attn.q_proj self_attn.k_proj self_attn.v_proj mlp.gate_proj mlp.up_proj; do
		modules="$modules model.layers.$i.$m=128"
	done
	modules="$modules model.layers.$i.self_attn.o_proj=256 model.layers.$i.mlp.down_proj=256"
done
mkdir dumps
# More rows than are multiplied at once; another type; names in order.
dump make dumps/0.safetensors 300 F32 model.layers.0.mlp.down_proj=256 model.layers.1.self_attn.q_proj=128
dump make dumps/1.safetensors 5 BF16 $modules
dump make dumps/10.safetensors 7 F16 $modules
dump make dumps/.hidden.safetensors 7 F16 none=1
echo >dumps/notes.txt
set -- model --activations dumps --quiet
"$FP8CONV" calibrate "$@" --precision f32 -o f.amax
dump check model f.amax dumps/0.safetensors dumps/1.safetensors dumps/10.safetensors
"$FP8CONV" calibrate "$@" --dry-run --json >plan.json
json plan.json "j['architecture'] == 'RwkvForCausalLM'" "j['passes'] == 3" "j['tokens'] == 312" "j['modules'] == 28" \
	"j['memory_bytes'] > 0" "j['input_ids'] == []"
"$FP8CONV" calibrate "$@" --histogram -o s.amax --json >told.json
json told.json "j['passes'] == 3" "j['tokens'] == 312" "j['perplexity'] is None" "j['nll_per_pass'] == []" \
	"len(j['uncovered']) == 26"
"$FP8CONV" inspect s.amax --json >s.json
json s.json "j['metadata']['backend'] == 'activations'" "j['metadata']['seq_len'] == '300'"

# The same bytes of any number of threads, and in two goes.
"$FP8CONV" calibrate "$@" --histogram -o one.amax --threads 1
cmp s.amax one.amax
"$FP8CONV" calibrate "$@" --histogram -o two.amax --passes 2
"$FP8CONV" calibrate "$@" --histogram -o two.amax --resume
cmp s.amax two.amax
"$FP8CONV" calibrate "$@" --histogram -o two.amax --resume
cmp s.amax two.amax
dump make dumps/1.safetensors 6 BF16 $modules
fails 3 " calibrate: 's.amax' holds 3 passes over data that differs from 'dumps': repeat the data and options of the first run, or use --restart to start over" \
	calibrate "$@" -o s.amax --resume

"$FP8CONV" quantize model -o out --recipe delayed --calibration f.amax 2>notes
python3 "$CLI/amax.py" scales model f.amax out

# An expert that no token reached is in no dump, and has its row; the same of a tensor of all experts, either way round.
for kind in per-expert fused fused-transposed; do
	prefix=model.layers.1.mlp.experts
	[ $kind != fused-transposed ] || prefix=language_model.model.layers.1.feed_forward.experts
	rm -rf dumps
	mkdir dumps
	dump make dumps/0.safetensors 9 F32 $prefix.1.up_proj=128 $prefix.1.down_proj=128
	"$FP8CONV" calibrate "$SAMPLES/tiny-moe/$kind" --activations dumps --precision f32 --quiet -o $kind.amax
	"$FP8CONV" inspect $kind.amax | sed 's/.*experts/experts/' >$kind.table
	cmp per-expert.table $kind.table
	[ "$(cut -f 1,3 $kind.table | tr '\n\t' ' =')" = "experts.0.down_proj=0 experts.0.up_proj=0 experts.1.down_proj=9 experts.1.up_proj=9 experts.2.down_proj=0 experts.2.up_proj=0 " ] ||
		cat $kind.table
	[ $kind != per-expert ] || dump check "$SAMPLES/tiny-moe/$kind" $kind.amax dumps/0.safetensors
done

mkdir next
cd next
# What calibrate refuses of dumps, with which words; nothing is written.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"
model=$SAMPLES/tiny-llama
c=" calibrate: "
q=model.layers.0.self_attn.q_proj
dump() { python3 "$CLI/dump.py" "$@"; }

# refused STATUS MESSAGE: of what lies in `dumps`.
refused() {
	fails "$1" "$c$2" calibrate "$model" --activations dumps -o s.amax
	rm -rf dumps
	mkdir dumps
	[ ! -e s.amax ] || echo "s.amax was written"
}
fails 3 "$c*'dumps'*No such file*" calibrate "$model" --activations dumps -o s.amax
mkdir dumps
fails 2 "${c}options '--data' and '--activations' cannot be combined" \
	calibrate "$model" --activations dumps --data x.txt -o s.amax
fails 2 "${c}option '--seq-len' requires '--data': with '--activations' each file is one pass" \
	calibrate "$model" --activations dumps --seq-len 5 -o s.amax
fails 2 "${c}option '--batch' requires '--data': with '--activations' each file is one pass" \
	calibrate "$model" --activations dumps --batch 5 -o s.amax
for option in --fp8-forward --recipe=mxfp8 --ragged --exclude=x; do
	fails 2 "${c}option '--fp8-forward' and its options require '--data': dumped activations are used as they are" \
		calibrate "$model" --activations dumps $option -o s.amax
done
refused 3 "'dumps' contains no dumps (files that end in .safetensors, one per pass)"
dump make dumps/0.safetensors 4 $q=128
dump make dumps/1.safetensors 4 model.layers.9.self_attn.q_proj=128
refused 3 "tensor 'model.layers.9.self_attn.q_proj.input' in 'dumps/1.safetensors': '*tiny-llama' has no 'model.layers.9.self_attn.q_proj.weight'"
dump make dumps/0.safetensors 4 model.norm=128
refused 3 "tensor 'model.norm.weight' has shape \[128], not that of a matrix"
dump make dumps/0.safetensors 4 $q=127
refused 3 "tensor '$q.input' in 'dumps/0.safetensors' has 127 features, but '$q.weight' takes 128"
dump make dumps/0.safetensors 4 I32 $q=128
refused 3 "tensor '$q.input' in 'dumps/0.safetensors' is I32 \[4, 128], not \[tokens, features] of F32, BF16 or F16"
dump make dumps/0.safetensors 0 $q=128
refused 3 "'dumps/0.safetensors' contains no tokens"
cp "$model/model.safetensors" dumps/0.safetensors
refused 3 "tensor '*' in 'dumps/0.safetensors' is not named MODULE.input"
# An expert has one name.
model=$SAMPLES/tiny-moe/fused
dump make dumps/0.safetensors 4 model.layers.0.mlp.experts.01.up_proj=128
refused 3 "tensor 'model.layers.0.mlp.experts.01.up_proj.input' in 'dumps/0.safetensors': '*fused' has no 'model.layers.0.mlp.experts.01.up_proj.weight'"
model=$SAMPLES/tiny-llama
for value in nan inf -inf; do
	dump make dumps/0.safetensors 4 $q=128
	dump make dumps/1.safetensors 4 $q=128
	dump set dumps/1.safetensors $q.input $value
	refused 3 "the input of '$q' holds 1 values that are NaN or infinite, in 'dumps/1.safetensors'"
done
dump make dumps/0.safetensors 4 $q=128
truncate -s -1 dumps/0.safetensors
refused 3 "*dumps/0.safetensors*"
rm -rf dumps
ls
