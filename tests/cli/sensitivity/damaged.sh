#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Damaged tables for --from: each is refused with one line that names the member.
need "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-llama
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n' >ids.jsonl
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json
python3 - <<'END'
import copy, json, os, subprocess
whole = json.load(open("S.json"))
text = open("S.json").read()
member = "member '%s' is missing or is not %s"
count, group = "a count", "group 1: "

# What is done to the table, and what is said about it.
damages = [
    (lambda t: t.pop("fp8conv_sensitivity"), "it was not written by 'fp8conv sensitivity'"),
    (lambda t: t.update(fp8conv_sensitivity="1"), "it was not written by 'fp8conv sensitivity'"),
    (lambda t: t.update(fp8conv_sensitivity=2), "its version is 2, but this program reads 1"),
    (lambda t: t.pop("model"), member % ("model", "a text")),
    (lambda t: t.update(precision=None), member % ("precision", "a text")),
    (lambda t: t.update(tokens=-1), member % ("tokens", count)),
    (lambda t: t.update(tokens=1.5), member % ("tokens", count)),
    (lambda t: t.update(sequences="4"), member % ("sequences", count)),
    (lambda t: t.update(groups={}), member % ("groups", "a list")),
    (lambda t: t.pop("recipes"), member % ("recipes", "a list")),
    (lambda t: t.update(recipes=[None]), "recipe 0: " + member % ("recipe", "a text")),
    (lambda t: t["recipes"].append(t["recipes"][0]), "recipe 1: " + member % ("recipe", "another one in each of 'recipes'")),
    (lambda t: t["recipes"][0].update(options=[]), "recipe 0: " + member % ("options", "an object")),
    (lambda t: t["recipes"][0].update(unmeasured=[1]), "recipe 0: " + member % ("unmeasured", "a list of names")),
    (lambda t: t["recipes"][0].update(unmeasured=None), "recipe 0: " + member % ("unmeasured", "a list")),
    (lambda t: t["groups"].insert(1, []), group + member % ("group", "a text")),
    (lambda t: t["groups"][1].pop("recipe"), group + member % ("recipe", "a text")),
    (lambda t: t["groups"][1].update(recipe="mxfp8"), group + member % ("recipe", "one of 'recipes'")),
    (lambda t: t["groups"][1].update(layer=-1), group + member % ("layer", "a number or null")),
    (lambda t: t["groups"][1].update(layer="0"), group + member % ("layer", "a number or null")),
    (lambda t: t["groups"][1].pop("bytes"), group + member % ("bf16", count)),
    (lambda t: t["groups"][1]["bytes"].update(fp8=None), group + member % ("fp8", count)),
    (lambda t: t["groups"][1].update(modules=[]), group + member % ("modules", "a list of at least one")),
    (lambda t: t["groups"][1].update(modules=None), group + member % ("modules", "a list")),
    (lambda t: t["groups"][1].update(modules=["x"]), group + member % ("modules", "a list of names with their shapes")),
    (lambda t: t["groups"][1]["modules"][0].update(name="a\nb"), group + member % ("modules", "a list of names with their shapes")),
    (lambda t: t["groups"][1]["modules"][0].update(name="#a"), group + member % ("modules", "a list of names with their shapes")),
    (lambda t: t["groups"][1]["bytes"].update(bf16=2**42 + 1), group + member % ("bf16", count)),
    (lambda t: t["recipes"][0].update(unmeasured_bytes=1), "recipe 0: " + member % ("bf16", count)),
    (lambda t: t["groups"][1]["modules"][0].update(shape=[1]), group + member % ("modules", "a list of names with their shapes")),
    (lambda t: t["groups"][1]["modules"][0].update(shape=[0, 1]), group + member % ("modules", "a list of names with their shapes")),
    (lambda t: t["groups"][1]["modules"][0].update(shape=[1, 1, 1]), group + member % ("modules", "a list of names with their shapes")),
    (lambda t: t["groups"][1].update(kld=None), group + member % ("kld", "a mean with its error")),
    (lambda t: t["groups"][1]["kld"].update(mean=None), group + member % ("kld", "a mean with its error")),
    (lambda t: t["groups"][1]["kld"].update(mean=1e300), group + member % ("mean", "a number from 0 to 3.4e38")),
    (lambda t: t["groups"][1]["kld"].update(mean=-1), group + member % ("mean", "a number from 0 to 3.4e38")),
    (lambda t: t["groups"][1]["kld"].update(se="0"), group + member % ("kld", "a mean with its error")),
    (lambda t: t["groups"][1]["kld"].pop("se"), group + member % ("kld", "a mean with its error")),
]
texts = [("{}", "it was not written by 'fp8conv sensitivity'"), ("[]", None), ("", None), (text[:-20], None), ("\0" * 9, None),
         (text.replace('"mean"', '"mean": 1, "mean"', 1), None), (text.replace('"tool"', '"tool": "\\ud800", "x"', 1), None),
         ("[" * 100000, None), (text.replace('"se": ', '"se": 1e999, "x": ', 1), None)]
for change, said in damages:
    table = copy.deepcopy(whole)
    change(table)
    texts.append((json.dumps(table), said))
for i, (damaged, said) in enumerate(texts):
    open("D.json", "w").write(damaged)
    done = subprocess.run([os.environ["FP8CONV"], "sensitivity", "--from", "D.json", "-o", "o", "--budget", "10%"],
                          capture_output=True, text=True)
    begin = "fp8conv sensitivity: cannot read 'D.json' as a table of divergences: "
    if done.returncode != 3 or done.stdout or done.stderr.count("\n") != 1 or not done.stderr.startswith(begin):
        print(i, done.returncode, done.stdout, done.stderr)
    if said and done.stderr != begin + said + "\n":
        print(f"{i} said: {done.stderr}  not: {begin}{said}")
END
[ ! -e o ] || echo "an output was made"

mkdir then
cd then
# What sensitivity refuses.
need "$SAMPLES/tiny-llama"
c=" sensitivity: "
model=$SAMPLES/tiny-llama
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n' >ids.jsonl
fails 2 "${c}option '--data' is missing: give text or token ids to run the model on" sensitivity "$model" -o S.json
fails 2 "${c}option '--output' is missing: give a file for the table (-o S.json), or --dry-run" sensitivity "$model" --data ids.jsonl
fails 2 "${c}'-' is not a model: give the directory of a checkpoint" sensitivity - --data ids.jsonl -o S.json
fails 2 "${c}option '--recipe': unknown recipe 'mxfp9' (did you mean 'mxfp8'?)" sensitivity "$model" --recipe blockwise,mxfp9
fails 2 "${c}option '--recipe': duplicate 'mxfp8'" sensitivity "$model" --recipe mxfp8,current,mxfp8
fails 2 "${c}option '--recipe': unknown recipe ''*" sensitivity "$model" --recipe ,
fails 2 "${c}recipe 'delayed' needs an amax history: *" sensitivity "$model" --data ids.jsonl -o S.json --recipe delayed
fails 2 "${c}option '--mx-scale' *" sensitivity "$model" --data ids.jsonl -o S.json --recipe mxfp8,current --mx-scale floor
fails 2 "${c}nothing to quantize: *" sensitivity "$model" --data ids.jsonl -o S.json --include none
fails 2 "${c}option '--max-memory': 1 bytes cannot hold one group (*): reduce --threads, --passes or --seq-len" sensitivity "$model" --data ids.jsonl -o S.json --max-memory 1
fails 3 "${c}cannot open 'none'*" sensitivity "$model" --data none -o S.json
fails 3 "$c*none*" sensitivity none --data ids.jsonl -o S.json
[ "$(ls -A)" = ids.jsonl ] || ls -A

# A model whose outputs are no numbers.
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
fails 3 "${c}layer 1 of 'bad' has values that are NaN or infinite, in sequence 0: 'fp8conv eval' names the module" \
	sensitivity bad --data ids.jsonl -o S.json
[ ! -e S.json ] || echo "a table of no numbers"

# A matrix that is quantized and takes no part is told, and stands in the table.
cp -r "$model" more
chmod -R u+w more
python3 - <<'END'
import checkpoint
file = "more/model.safetensors"
tensors = checkpoint.read(file)
tensors["vision.blocks.0.attn.proj.weight"] = "BF16", [128, 128], checkpoint.pack("BF16", [0.5] * 128 * 128)
checkpoint.write(file, tensors)
END
"$FP8CONV" sensitivity more --data ids.jsonl -o more.json --tensor 'vision=blockwise' 2>note
[ "$(grep -v "; see --target" note)" = "fp8conv sensitivity: note: only text is read: the branches for images or audio (1 tensor) are not run
fp8conv sensitivity: note: not measured: 1 matrix of recipe 'blockwise', which the forward pass does not take as \
stored, for example 'vision.blocks.0.attn.proj'" ] || cat note
python3 - <<'END'
import json
assert json.load(open("more.json"))["recipes"][0]["unmeasured"] == ["vision.blocks.0.attn.proj"]
END
python3 - <<'END'
import json
assert json.load(open("more.json"))["recipes"][0]["unmeasured_bytes"] == {"bf16": 2 * 128 * 128, "fp8": 128 * 128 + 4}
END
"$FP8CONV" sensitivity --from more.json more --budget 10% --dry-run --json >choice.json
python3 "$CLI/json_check.py" choice.json "j['all_bytes'] == 2 * 128 * 128 + 4 * 393216"
