#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Codes that compensate each other's errors: the scales of rounding to nearest, the same bytes for any number of threads,
# closer to the source than the nearest; what the manifest and verify say of them; and what is refused.
need "$SAMPLES/tiny-llama"
python3 - <<'END'
import json, random
for name, seed, lengths in (("a", 5, (40, 17, 64, 64, 33, 21, 50, 64, 64, 64, 12)), ("b", 6, (30, 31, 32, 33))):
    random.seed(seed)
    with open(name + ".jsonl", "w") as file:
        for n in lengths:
            print(json.dumps({"input_ids": [random.randrange(100) for _ in range(n)]}), file=file)
END
model=$SAMPLES/tiny-llama
compensated() { "$FP8CONV" quantize "$model" --rounding compensated "$@"; }
# rounding OUT EXPRESSION: of what the manifest says of the codes.
rounding() {
	python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))["rounding"]))' "$1/fp8conv-manifest.json" >said.json
	json said.json "$2"
}

for recipe in blockwise channelwise current mxfp8 delayed; do
	options="--recipe $recipe"
	[ $recipe != delayed ] || options="$options --calibration $SAMPLES/amax/tiny-llama-1.amax"
	# shellcheck disable=SC2086
	"$FP8CONV" quantize "$model" -o $recipe-nearest $options
	# shellcheck disable=SC2086
	compensated -o $recipe $options --data a.jsonl --data b.jsonl --threads 1
	# shellcheck disable=SC2086
	compensated -o threads $options --data a.jsonl --data b.jsonl --threads 3 --max-memory 64M
	same $recipe threads
	rm -r threads
	# shellcheck disable=SC2086
	compensated -o all $options --data a.jsonl --shrink 1
	same $recipe-nearest all
	rm -r all
	"$FP8CONV" verify $recipe --source "$model" --json >verify.json
	for out in $recipe $recipe-nearest; do
		"$FP8CONV" eval $out --source "$model" --data a.jsonl --activations bf16 --precision f32 --json >$out.json
	done
	python3 - $recipe <<-'END'
		import json, pathlib, sys
		import checkpoint
		recipe = sys.argv[1]
		ours, nearest = (checkpoint.read(path) for path in (recipe, recipe + "-nearest"))
		moved = codes = 0
		for name, tensor in nearest.items():
		    if tensor[0] == "F8_E4M3":
		        codes += len(tensor[2])
		        moved += sum(a != b for a, b in zip(tensor[2], ours[name][2]))
		    elif tensor != ours[name]:
		        print(recipe, name, "differs")
		if ours.keys() != nearest.keys():
		    print(recipe, "other tensors:", ours.keys() ^ nearest.keys())
		verified = json.load(open("verify.json"))
		if not verified["ok"] or (verified["compensated"]["codes"], verified["compensated"]["not_nearest"]) != (codes, moved):
		    print(recipe, "verify says", verified["compensated"], "not", codes, moved)
		if not 0.05 < moved / codes < 0.6:
		    print(recipe, moved, "of", codes, "codes moved")
		if not 20 < verified["compensated"]["sqnr_db"] < verified["compensated"]["nearest_sqnr_db"]:
		    print(recipe, "SQNR", verified["compensated"])
		kld, of_nearest = (json.load(open(f"{p}.json"))["kld"]["mean"] for p in (recipe, recipe + "-nearest"))
		if not kld < 0.7 * of_nearest:
		    print(recipe, "KLD", kld, "of nearest", of_nearest)
		manifest = json.loads(pathlib.Path(recipe, "fp8conv-manifest.json").read_text())
		said, options = manifest["rounding"], manifest["options"]["rounding"]
		best = min(said["tried"], key=lambda tried: tried["kld"])
		if said["rounding"] != "compensated" or said["shrink"] != best["shrink"] or best["kld"] >= said["nearest_kld"]:
		    print(recipe, "manifest", said)
		if [tried["shrink"] for tried in said["tried"]] != [0.3, 0.6, 0.8] or said["held_out_sequences"] != 2:
		    print(recipe, "tried", said)
		if (options["sequences"], options["domains"], options["shrink"]) != (15, [11, 4], "auto"):
		    print(recipe, "options", options)
		hidden = [p.name for p in pathlib.Path(recipe).iterdir() if p.name.startswith(".fp8conv.rounding")]
		if hidden:
		    print(recipe, "left", hidden)
	END
done

# A finished job again; another shrink is another job.
compensated -o blockwise --data a.jsonl --data b.jsonl --json >again.json
python3 - <<'END'
import json
again = json.load(open("again.json"))
if again["files_written"] or again["rounding"] is not None:
    print("again:", again)
END
another=" quantize: 'blockwise' holds the output of another job: option 'rounding%s' differs (use --restart to start over)"
compensated="--rounding compensated --data a.jsonl --data b.jsonl"
# shellcheck disable=SC2086
fails 2 "$(printf "$another" .shrink)" quantize "$model" -o blockwise $compensated --shrink 0.5
# shellcheck disable=SC2086
fails 2 "$(printf "$another" .sequences)" quantize "$model" -o blockwise $compensated --passes 4
fails 2 "$(printf "$another" "")" quantize "$model" -o blockwise
compensated -o blockwise --data a.jsonl --shrink 0.5 --restart

# As near to each other as shrinks may be, they are other jobs; one that rounds all to nearest is not for want of tokens.
compensated -o shrinks --data a.jsonl --shrink 4e-7
fails 2 " quantize: 'shrinks' holds the output of another job: option 'rounding.shrink' differs (use --restart to start over)" \
	quantize "$model" -o shrinks --rounding compensated --data a.jsonl --shrink 0
compensated -o shrinks --data a.jsonl --shrink -0 --restart
compensated -o shrinks --data a.jsonl --shrink 0
compensated -o shrinks --data a.jsonl --shrink 1 --restart
rounding shrinks '(j["few_tokens"], j["raised"]) == (0, 0)'

# The same codes in another format, or kept by --requantize, are still compensated.
"$FP8CONV" repack blockwise -o repacked --format compressed-tensors
"$FP8CONV" repack repacked -o back --format hf
same blockwise back
"$FP8CONV" quantize blockwise -o requantized --requantize
for out in repacked back requantized; do
	"$FP8CONV" verify $out --source "$model"
	rounding $out 'j["rounding"] == "compensated"'
done

# One bit of one code is found by the checksum: the code follows from nothing else.
cp -r blockwise bit
python3 - <<'END'
import pathlib
path = next(pathlib.Path("bit").glob("*.safetensors"))
data = bytearray(path.read_bytes())
data[-1] ^= 1
path.write_bytes(data)
END
"$FP8CONV" verify bit --source "$model" --json >bit.json
[ $? -eq 1 ] || echo "verify did not find a bit"
json bit.json '[(p["kind"], p["file"], p["tensor"]) for p in j["problems"]] == [("file-changed", "model.safetensors", None)]'

# Codes of something else are found, though codes are free.
python3 - <<'END'
import json, pathlib, struct
path = next(pathlib.Path("channelwise").glob("*.safetensors"))
data = bytearray(path.read_bytes())
n = struct.unpack("<Q", data[:8])[0]
entry = json.loads(data[8:8 + n])["model.layers.0.mlp.down_proj.weight"]
begin, end = (8 + n + at for at in entry["data_offsets"])
data[begin:end] = data[begin:end][::-1]
path.write_bytes(data)
END
"$FP8CONV" verify channelwise --source "$model" --json >damaged.json
[ $? -eq 1 ] || echo "verify did not find reversed codes"
python3 - <<'END'
import json
problems = json.load(open("damaged.json"))["problems"]
if [(p["kind"], p["tensor"]) for p in problems] != [("code-mismatch", "model.layers.0.mlp.down_proj.weight"), ("file-changed", None)]:
    print("reversed codes:", problems)
END

# What is refused.
q=" quantize: "
fails 2 "${q}option '--rounding compensated' requires '--data': *" quantize "$model" -o x --rounding compensated
for option in data=a.jsonl passes=3 seq-len=8 shrink=0.5; do
	fails 2 "${q}option '--${option%%=*}' requires '--rounding compensated'" quantize "$model" -o x "--$option"
done
for value in -1 1.01 nan inf 0.3x ''; do
	fails 2 "${q}option '--shrink': '$value' is not 'auto' or a number from 0 to 1" \
		quantize "$model" -o x --rounding compensated --data a.jsonl --shrink "$value"
done
fails 2 "${q}*needs a directory as output, not 'x.safetensors'" \
	quantize "$model" -o x.safetensors --rounding compensated --data a.jsonl
fails 2 "${q}*needs the directory of a model, with its config.json, not '*'" \
	quantize "$model/model.safetensors" -o x --rounding compensated --data a.jsonl
fails 2 "${q}options '--rounding compensated' and '--part' cannot be combined: *" \
	quantize "$model" -o x --rounding compensated --data a.jsonl --part 1/2
fails 2 "${q}option '--ranks': 'auto' is not 'mpi'" quantize "$model" -o x --rounding compensated --data a.jsonl --ranks auto
fails 2 "${q}option '--passes': 1 sequence does not suffice for 2 files of data" \
	quantize "$model" -o x --rounding compensated --data a.jsonl --data b.jsonl --passes 1
fails 3 "${q}option '--shrink auto' needs 2 sequences of each file, and has 1 in all: *" \
	quantize "$model" -o x --rounding compensated --data a.jsonl --passes 1
fails 3 "${q}cannot open 'none'*" quantize "$model" -o x --rounding compensated --data none
[ ! -e x ] || echo "a refused job left x"

# Inputs that no Hessian can be made of: infinite ones, and those whose squares overflow.
with_norm() {
	mkdir "$1"
	cp "$model"/* "$1"
	python3 - "$@" <<-'END'
		import json, pathlib, struct, sys
		path = pathlib.Path(sys.argv[1], "model.safetensors")
		data = bytearray(path.read_bytes())
		n = struct.unpack("<Q", data[:8])[0]
		begin, end = (8 + n + at for at in json.loads(data[8:8 + n])["model.layers.1.post_attention_layernorm.weight"]["data_offsets"])
		data[begin:end] = bytes.fromhex(sys.argv[2])[::-1] * ((end - begin) // 2)
		path.write_bytes(data)
	END
}
with_norm infinite 7f80
with_norm large 5e00 # 2^61
fails 3 "${q}the inputs of 'model.layers.1.mlp.gate_proj' are NaN or infinite: the model overflows on this data" \
	quantize infinite -o x --rounding compensated --data a.jsonl
fails 3 "${q}the inputs of 'model.layers.1.mlp.gate_proj' are so large that the sum of their squares overflows: use --exclude to keep such weights" \
	quantize large -o x --rounding compensated --data a.jsonl --restart
"$FP8CONV" quantize large -o kept --rounding compensated --data a.jsonl --shrink 0.6 --exclude 'layers\.[1-3]\.'
exit 0

#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
#2> fp8conv quantize: note: vllm looks for these scales under other names: use --target vllm for it
