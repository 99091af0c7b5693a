#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# --rename: a model with other names is what it is with the names of Hugging Face, for each command that reads a source.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
python3 - "$model" <<'END'
import pathlib, shutil, sys
import checkpoint
model, out = pathlib.Path(sys.argv[1]), pathlib.Path("trained")
shutil.copytree(model, out)
tensors = checkpoint.read(model)
checkpoint.write(out / "model.safetensors", {"_orig_mod." + n.replace(".layers.", ".blocks."): t for n, t in tensors.items()})
END
plain='s/^_orig_mod\.//'
layers='s/\.(blocks)\.(\d+)/.layers.$2/g'
sed_layers='s/\.(blocks)\.(\d+)/.layers.\2/'

"$FP8CONV" quantize "$model" -o wanted
"$FP8CONV" quantize trained -o out --rename "$plain" --rename "$layers"
same wanted out
python3 - "$plain" "$layers" <<'END'
import json, sys
for name, wanted in ("out", sys.argv[1:]), ("wanted", None):
    options = json.load(open(f"{name}/fp8conv-manifest.json"))["options"]
    if options.get("rename") != wanted:
        print(f"{name} records {options}")
END
"$FP8CONV" quantize trained -o other --rename "$sed_layers" --rename "$plain"
same wanted other
# A run with other expressions is another job, whatever they make of the names.
rm out/config.json
fails 2 " quantize: 'out' holds the output of another job: option 'rename' differs*" quantize trained -o out --rename "$plain" --rename "$sed_layers"
"$FP8CONV" quantize trained -o out --rename "$plain" --rename "$layers"
same wanted out
"$FP8CONV" quantize - -o stream.safetensors --rename "$plain" --rename "$layers" <trained/model.safetensors
python3 "$CLI/checkpoint.py" same stream.safetensors wanted/model.safetensors

# Scales go with their weights.
for command in dequantize "repack --format compressed-tensors"; do
	# shellcheck disable=SC2086
	"$FP8CONV" $command wanted -o named && "$FP8CONV" $command wanted -o renamed --rename 's/^model\./m./'
	for folder in named renamed; do
		python3 "$CLI/checkpoint.py" list $folder | sed 's/^model\./m./' | sort >$folder.txt
	done
	diff named.txt renamed.txt
	rm -r named renamed
done
"$FP8CONV" verify out --source trained --rename "$plain" --rename "$layers"
"$FP8CONV" diff trained "$model" --rename "$plain" --rename "$layers" >/dev/null || echo "diff: $?"
"$FP8CONV" inspect trained --rename "$plain" --rename "$layers" >renamed.txt
"$FP8CONV" inspect "$model" >named.txt
diff renamed.txt named.txt
"$FP8CONV" inspect trained --stats --recipe current --rename "$plain" --rename "$layers" >renamed.txt
"$FP8CONV" inspect "$model" --stats --recipe current >named.txt
diff renamed.txt named.txt
seq 200 >text.txt
"$FP8CONV" calibrate "$model" --data text.txt --passes 1 --seq-len 32 -o wanted.amax 2>/dev/null
"$FP8CONV" calibrate trained --data text.txt --passes 1 --seq-len 32 -o s.amax --rename "$plain" --rename "$layers" 2>/dev/null
cmp wanted.amax s.amax
for option in "" "--source trained"; do
	# shellcheck disable=SC2086
	"$FP8CONV" eval ${option:+out} ${option:-trained} --data text.txt --passes 1 --seq-len 32 --rename "$plain" --rename "$layers" \
		>eval.txt 2>/dev/null || echo "eval $option: $?"
done
"$FP8CONV" eval out --source trained --data text.txt --passes 1 --seq-len 32 --rename "$plain" --rename "$layers" --json >eval.json 2>/dev/null
"$FP8CONV" report out --source trained --calibration s.amax -o page --rename "$plain" --rename "$layers" --eval eval.json >/dev/null
# The commands of the page are those that were run.
grep '^fp8conv ' page/README.md

# What is printed after a command renames too; without the expressions, the source is another model.
python3 "$CLI/terminal.py" "$FP8CONV" quantize trained -o shown --rename "$plain" --rename "$layers" --progress none |
	tr -d '\r' | sed -n '/^next/,$p'
python3 "$CLI/terminal.py" "$FP8CONV" verify out --source trained --rename "$plain" --rename "$layers" --progress none |
	tr -d '\r' | sed -n '/^next/,$p'
fails 3 " verify: 'trained' is not the source of 'out': 66 tensors are in one of them alone, or have another type or shape: give the options '--rename' of its manifest" \
	verify out --source trained
# The expression that a note on names of a wrapper gives mends them.
python3 - "$model" <<'END'
import pathlib, shutil, sys
import checkpoint
model, out = pathlib.Path(sys.argv[1]), pathlib.Path("wrapped")
shutil.copytree(model, out)
checkpoint.write(out / "model.safetensors", {n.replace("layers.1.", "layers.1._orig_mod."): t for n, t in checkpoint.read(model).items()})
END
"$FP8CONV" quantize wrapped -o kept 2>note
advice=$(sed -n "s/.*: convert with --rename '\(.*\)'$/\1/p" note)
"$FP8CONV" quantize wrapped -o mended --rename "$advice"
same wanted mended

# What cannot be.
fails 2 " verify: option '--rename' requires '--source'" verify out --rename s/a/b/
fails 2 " report: option '--rename' requires '--source'" report out -o page --rename s/a/b/
form=" quantize: option '--rename': '*' is not s/RE/NAME/ or s/RE/NAME/g"
for wrong in x s s/ s/a s/a/b s//b/ s/a/b/i s/a/b/gg 's/a\/b/' y/a/b/ 's|a|b|'; do
	fails 2 "$form" quantize trained -o no --rename "$wrong"
done
fails 2 " quantize: --rename '(': missing closing parenthesis at character 2" quantize trained -o no --rename 's/(/x/'
fails 2 " quantize: option '--rename': 's/^model/x/' matches no tensor of 'trained', such as '_orig_mod.*'" quantize trained -o no --rename 's/^model/x/'
fails 2 " quantize: option '--rename' gives tensors '_orig_mod.model.blocks.0.mlp.down_proj.weight' and '_orig_mod.model.blocks.1.mlp.down_proj.weight' of 'trained' the same name '_orig_mod.model.blocks.0.mlp.down_proj.weight': change it" \
	quantize trained -o no --rename 's/1.mlp.down/0.mlp.down/'
fails 2 " quantize: option '--rename': 's/.*norm.*//' gives tensor '_orig_mod.model.*norm.weight' an empty name: change it" quantize trained -o no --rename 's/.*norm.*//'
fails 2 " quantize: option '--rename': 's/mlp/*/' gives tensor '_orig_mod.model.blocks.0.mlp.*' a control character: change it" quantize trained -o no --rename "$(printf 's/mlp/\001/')"
fails 2 " quantize: option '--rename': 's/mlp/*/' gives tensor '_orig_mod.model.blocks.0.mlp.*' what is not UTF-8: change it" quantize trained -o no --rename "$(printf 's/mlp/\377/')"
fails 2 " quantize: option '--rename': 's/(mlp)/\$2/' on tensor '_orig_mod.model.blocks.0.mlp.*': unknown substring" quantize trained -o no --rename 's/(mlp)/$2/'
[ ! -e no ] || echo "a refused --rename left an output"
exit 0
#1> fp8conv quantize trained -o out --recipe blockwise --format hf --rename 's/^_orig_mod\.//' --rename 's/\.(blocks)\.(\d+)/.layers.$2/g'
#1> fp8conv eval out --source trained --rename 's/^_orig_mod\.//' --rename 's/\.(blocks)\.(\d+)/.layers.$2/g' --data text.txt --seq-len 32 --passes 1 --json
#1> next       fp8conv verify shown --source trained --rename 's/^_orig_mod\.//' \
#1>              --rename 's/\.(blocks)\.(\d+)/.layers.$2/g'
#1> next       fp8conv eval out --source trained --data FILE \
#1>              --rename 's/^_orig_mod\.//' \
#1>              --rename 's/\.(blocks)\.(\d+)/.layers.$2/g'
