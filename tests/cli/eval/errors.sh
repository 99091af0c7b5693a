#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What eval refuses, the gate of --max-kld, and what --resume keeps.
need "$SAMPLES/tiny-llama"
c=" eval: "
model=$SAMPLES/tiny-llama
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" quantize "$model" -o out
fails 2 "${c}option '--data' is missing: give text or token ids to predict" eval out
fails 2 "${c}option '--by-layer' requires '--source'" eval out --data ids.jsonl --by-layer
fails 2 "${c}option '--max-kld' requires '--source'" eval out --data ids.jsonl --max-kld 1
for value in 0 -1 nan inf 1x ''; do
	fails 2 "${c}option '--max-kld': '$value' is not a number above 0" eval out --data ids.jsonl --max-kld "$value"
done
fails 2 "${c}option '--stride': 9 is more than --seq-len (8)" eval out --data ids.jsonl --seq-len 8 --stride 9
fails 2 "${c}option '--stride' needs text: sequence 1 of the data has a length of its own" \
	eval out --data ids.jsonl --seq-len 8 --stride 4
fails 2 "${c}option '--kv-cache': the checkpoint has no scales of a cache ('model.layers.0.self_attn.k_scale'): *" \
	eval out --data ids.jsonl --kv-cache
printf '{"input_ids": [1]}\n{"input_ids": [2]}\n' >single.jsonl
fails 3 "${c}the data has no token to predict: every sequence has one token" eval out --data single.jsonl
fails 3 "${c}cannot open 'none'*" eval out --data none
fails 3 "$c*none*" eval none --data ids.jsonl
fails 3 "$c*none*" eval out --source none --data ids.jsonl

# An overflow is told with its module.
cp -r "$model" bad
chmod -R u+w bad
python3 - <<'END'
import checkpoint
name, file = "model.layers.1.input_layernorm.weight", "bad/model.safetensors"
tensors = checkpoint.read(file)
dtype, shape, data = tensors[name]
tensors[name] = dtype, shape, checkpoint.pack("BF16", [3e38] * shape[0])
checkpoint.write(file, tensors)
END
fails 3 "${c}the output of 'model.layers.1.self_attn.q_proj' in 'bad' has * values that are NaN or infinite, in sequence 0" \
	eval bad --source "$model" --data ids.jsonl
fails 3 "${c}the output of 'model.layers.1.self_attn.q_proj' in 'bad' has * values that are NaN or infinite, in sequence 0" \
	eval out --source bad --data ids.jsonl

# A loss that exp() does not hold.
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("bad/model.safetensors")
dtype, shape, data = tensors["model.layers.1.input_layernorm.weight"]
tensors["model.layers.1.input_layernorm.weight"] = dtype, shape, checkpoint.pack("BF16", [1] * shape[0])
tensors["model.norm.weight"] = dtype, shape, checkpoint.pack("BF16", [1e30] * shape[0])
checkpoint.write("bad/model.safetensors", tensors)
END
fails 3 "${c}the perplexity of 'bad' is not finite: its logits are too far apart" eval bad --data ids.jsonl --json
fails 3 "${c}the perplexity of 'bad' is not finite: its logits are too far apart" eval out --source bad --data ids.jsonl --json

# Several static scales of one input are not guessed at.
cp -r out static
chmod -R u+w static
python3 - <<'END'
import checkpoint
tensors = checkpoint.read("static/model.safetensors")
tensors["model.layers.0.self_attn.q_proj.input_scale"] = "F32", [2], checkpoint.pack("F32", [1, 1])
checkpoint.write("static/model.safetensors", tensors)
END
fails 3 "${c}tensor 'model.layers.0.self_attn.q_proj.input_scale' has more than one input scale, which is unsupported: *" \
	eval static --data ids.jsonl
"$FP8CONV" eval static --data ids.jsonl --activations bf16 --json >/dev/null
for type in F64 I32 I16; do
	python3 - $type <<-'END'
		import checkpoint, sys
		tensors = checkpoint.read("static/model.safetensors")
		size = {"F64": 8, "I32": 4, "I16": 2}[sys.argv[1]]
		tensors["model.layers.0.self_attn.q_proj.input_scale"] = sys.argv[1], [1], bytes(size)
		checkpoint.write("static/model.safetensors", tensors)
	END
	fails 3 "${c}tensor 'model.layers.0.self_attn.q_proj.input_scale' has the type $type, but its values must be F32, BF16, F16 or F8_E8M0" \
		eval static --data ids.jsonl
done

# Not the source: another size, another architecture.
cp -r "$model" wide
chmod -R u+w wide
python3 - <<'END'
import json
config = json.load(open("wide/config.json"))
config["num_hidden_layers"] -= 1
json.dump(config, open("wide/config.json", "w"))
END
fails 3 "$c*wide*" eval out --source wide --data ids.jsonl
sed -i 's/LlamaForCausalLM/MistralForCausalLM/' wide/config.json
sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 2/' wide/config.json
fails 3 "$c*" eval out --source wide --data ids.jsonl

"$FP8CONV" eval out --source "$model" --data ids.jsonl --max-kld 1000 >text
"$FP8CONV" eval out --source "$model" --data ids.jsonl --max-kld 1e-9 >gated 2>err
[ $? = 1 ] || echo "no gate"
grep -qx 'fp8conv eval: the mean KLD is [0-9.]*, above --max-kld 1e-09' err || cat err
diff text gated
# Objects alone where the progress is JSON.
"$FP8CONV" eval out --source "$model" --data ids.jsonl --max-kld 1e-9 --passes 3 --progress json >gated 2>err
python3 -c '
import json
found = [json.loads(line) for line in open("err")]
assert {"note", "error"} <= {key for line in found for key in line}, found
assert [line["status"] for line in found if "error" in line] == [1], found'
# Swapped arguments.
"$FP8CONV" eval "$model" --source out --data ids.jsonl >swapped 2>err
echo "fp8conv eval: note: '$model' has no FP8 tensor, but its source 'out' has: are they swapped?" | diff - err
"$FP8CONV" eval out --source out --data ids.jsonl >same

mkdir resume
cd resume
# --resume: what is interrupted ends with the numbers of one run, to the bit (they are the bytes of the file), with any memory.
python3 -c "
import random
random.seed(1)
for i in range(8000):
    print(random.choice(['a word', 'some more', 'and then', 'the end', 'of it']), i)" >text.txt
# numbers JSON: without the time and the memory.
numbers() {
	sed 's/, "seconds": [^}]*//' "$1"
}
# So little memory that what is there is kept often.
set -- ../out --source "$model" --data text.txt --seq-len 128 --passes 60 --by-layer --json --threads 1
"$FP8CONV" eval "$@" >plain.json
"$FP8CONV" eval "$@" --resume whole >whole.json
numbers plain.json >wanted
numbers whole.json | cmp wanted -
for signal in TERM INT KILL; do
	env --default-signal=TERM,INT "$FP8CONV" eval "$@" --resume part --max-memory 6M --progress none >out.json 2>err &
	job=$!
	until [ -e part ] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
	kill -$signal $job 2>/dev/null
	wait $job 2>/dev/null
	case $?-$signal in
	143-TERM | 130-INT)
		grep -q "^fp8conv eval: interrupted after [0-9]* of 60 sequences, which are in 'part' (lost: [0-9]* s of work): run the same command again to continue$" err || cat err
		;;
	0-* | 137-KILL) ;;
	*) echo "$signal: exit status $?" ;;
	esac
	"$FP8CONV" eval "$@" --resume part --quiet >part.json
	numbers part.json | cmp wanted -
	cmp part whole
	rm -f part .*.partial
done
# More sequences continue; the finished file answers again, and nothing is computed (no layer is read).
"$FP8CONV" eval "$@" --passes 7 --resume more >out.json
"$FP8CONV" eval "$@" --passes 60 --resume more --verbose >more.json 2>err
grep -qx "tokens     7680, 896 of them from earlier runs, [0-9]* per second" err || cat err
cmp more whole
"$FP8CONV" eval "$@" --resume more --verbose >more.json 2>err
grep -qx "tokens     7680, 7680 of them from earlier runs" err || cat err
numbers more.json | cmp wanted -
# Without the source there is less to keep.
"$FP8CONV" eval ../out --data text.txt --seq-len 128 --passes 9 --resume alone >one
"$FP8CONV" eval ../out --data text.txt --seq-len 128 --passes 9 --resume alone >two
cmp one two
# What is of another evaluation is refused, and stays as it is.
refused() {
	what=$1
	shift
	fails 2 "${c}'whole' was begun with another $what: repeat the first command, or give --resume another file" \
		eval "$@" --resume whole
}
cp whole before
"$FP8CONV" quantize "$model" -o other --recipe mxfp8 2>err
refused OUT other --source "$model" --data text.txt --seq-len 128 --passes 60 --by-layer
refused --source ../out --data text.txt --seq-len 128 --passes 60
refused --by-layer ../out --source "$model" --data text.txt --seq-len 128 --passes 60
refused --precision "$@" --precision f32
refused --activations "$@" --activations bf16
refused --stride "$@" --stride 64
refused --seq-len "$@" --seq-len 127
sed 's/word/ward/' text.txt >other.txt
refused --data ../out --source "$model" --data other.txt --seq-len 128 --passes 60 --by-layer
cp -r ../out config
sed -i 's/"rms_norm_eps": [^,]*/"rms_norm_eps": 0.5/' config/config.json
refused config.json config --source "$model" --data text.txt --seq-len 128 --passes 60 --by-layer
fails 2 "${c}'whole' holds 60 sequences, but only 59 are requested: give --resume another file" eval "$@" --passes 59 --resume whole
fails 2 "${c}'text.txt' exists and is not of an evaluation: give --resume another file" eval "$@" --resume text.txt
fails 2 "${c}*'-'*" eval "$@" --resume -
cmp whole before
# A file that was damaged is named, wherever the damage is.
python3 - <<'END'
whole = open("whole", "rb").read()
for i, at in enumerate((len(whole) - 1, len(whole) - 90, len(whole) // 2)):
    open(f"damaged{i}", "wb").write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
    open(f"cut{i}", "wb").write(whole[:at])
open("longer", "wb").write(whole + b"\n")
open("none", "wb").write(b"fp8conv_eval 1 0\n")
END
for damaged in damaged0 damaged1 damaged2 cut0 cut1 cut2 longer none; do
	fails 3 "${c}'$damaged' is damaged: remove it, and run the same command again" eval "$@" --resume $damaged
done
