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
