#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What an interrupted run has measured is taken over, if it is of the same job.
need "$SAMPLES/tiny-llama"
c=" sensitivity: "
model=$SAMPLES/tiny-llama
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o whole.json
python3 - <<'END'
import json
table = json.load(open("whole.json"))
for group in table["groups"][5:]:
    group["kld"] = None
table["recipes"][0]["kld_sum"] = None
table["groups"][2]["kld"]["mean"] = 0.125  # so that it shows where it comes from
json.dump(table, open("half.json", "w"))
END
cp half.json .S.json.unfinished
fails 2 "${c}'S.json' was begun with another model, other data or other options: repeat *, or use --restart to start over" \
	sensitivity "$model" --data ids.jsonl -o S.json --seq-len 8 --passes 1
fails 2 "${c}'S.json' was begun with *" sensitivity "$model" --data ids.jsonl -o S.json --precision bf16
fails 2 "${c}'S.json' was begun with *" sensitivity "$model" --data ids.jsonl -o S.json --scale-fmt float
cmp half.json .S.json.unfinished
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json
[ ! -e .S.json.unfinished ] || echo "the unfinished table stays"
python3 - <<'END'
import json
found, wanted = (json.load(open(name)) for name in ("S.json", "whole.json"))
assert found["groups"][2]["kld"]["mean"] == 0.125
assert abs(found["recipes"][0]["kld_sum"] - wanted["recipes"][0]["kld_sum"] - 0.125 + wanted["groups"][2]["kld"]["mean"]) < 1e-12
found["groups"][2], found["recipes"] = wanted["groups"][2], wanted["recipes"]
assert found == wanted
END
# A finished one stays as it is; of another job it is not replaced.
cp -p S.json before.json
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json
[ ! S.json -nt before.json ] || echo "a finished table is written again"
cmp S.json before.json
fails 2 "${c}'S.json' exists and is of another model, other data or other options: use --restart to start over" \
	sensitivity "$model" --data ids.jsonl -o S.json --passes 1
cp half.json .S.json.unfinished
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o S.json --restart
cmp S.json whole.json
[ ! -e .S.json.unfinished ] || echo "the unfinished table stays"
echo '{' >.T.json.unfinished
fails 3 "${c}use --restart to start over: cannot read '.T.json.unfinished' as a table of divergences: *" \
	sensitivity "$model" --data ids.jsonl -o T.json
"$FP8CONV" sensitivity "$model" --data ids.jsonl -o T.json --restart
cmp T.json whole.json
echo text >notes.txt
fails 2 "${c}'notes.txt' exists and is not a table of divergences: choose another output or remove it" \
	sensitivity "$model" --data ids.jsonl -o notes.txt --restart
[ "$(cat notes.txt)" = text ] || echo "notes.txt is gone"
