#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What the files say: names, commands, engines, reasons, numbers; and what the program says of it.
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe/per-expert" "$SAMPLES/amax/tiny-llama-1.amax"
model=$SAMPLES/tiny-llama
has() {
	grep -qF -- "$2" "$1" || echo "$1 does not have: $2"
}

"$FP8CONV" quantize "$model" -o out --ragged --exclude 'o_proj' --exclude "it's" --quiet
"$FP8CONV" report out --source "$model" --calibration "$SAMPLES/amax/tiny-llama-1.amax" -o r --json >told.json
json told.json 'j["output"] == "r"' '[f["name"] for f in j["files"]] == ["README.md", "report.html"]' \
	'j["base_model"] == "tiny-llama"' 'j["quantized"] == 24' 'j["kept"] == 14' 'j["problems"] == 0' 'j["notes"] == []' \
	'30 < j["worst"]["sqnr_db"] < 33'
for file in README.md report.html; do
	json told.json "$(wc -c <r/$file) in [f['bytes'] for f in j['files']]"
done
python3 "$CLI/page.py" whole r
python3 "$CLI/page.py" counts r out
has r/README.md "fp8conv quantize tiny-llama -o out --recipe blockwise --format hf --exclude o_proj --exclude 'it'\\''s' --ragged"
has r/README.md "vllm serve out"
has r/README.md "python -m sglang.launch_server --model-path out"
has r/README.md "| excluded |"
has r/README.md "| norm |"
has r/README.md "\`fp8conv verify\` found no problem."
has r/report.html '"calibration": {'
grep -q '"evaluation": {' r/report.html && echo "an evaluation that nobody gave"

# The result of another checkpoint is shown with a note; a directory may be named in other ways.
echo '{"perplexity": {"value": 9.5, "se": 0.5}, "tokens": 8, "targets": 7, "sequences": 1, "seq_len": 8, "data": ["t"],
	"data_sha256": "'"$(printf %064d 0)"'", "precision": "f32", "activations": "bf16", "model": "old/out/", "source": null}' >same.json
sed 's,old/out/,old/other,' same.json >other.json
"$FP8CONV" report out --source "$model" --eval same.json -o e1 2>&1
"$FP8CONV" report ./out/ --source "$model" --eval same.json -o e2 2>&1
"$FP8CONV" report out --source "$model" --eval other.json -o e3 2>err
echo "fp8conv report: note: 'other.json' is the evaluation of 'old/other', not of 'out'" | diff - err
has e3/README.md "| Perplexity | 9.5"

# A dry run writes nothing, and says the rest.
"$FP8CONV" report out --source "$model" -o dry --dry-run >plan.txt
printf 'tensors    24 FP8, 14 kept\nbase model tiny-llama (the Hub needs --base-model ORG/NAME)\noutput     dry/README.md\noutput     dry/report.html\n' | diff - plan.txt
"$FP8CONV" report out --source "$model" --dry-run --json >plan.json
json plan.json 'j["output"] is None' 'j["worst"] is None' 'j["files"][0]["bytes"] is None'
[ -e dry ] && echo "a dry run made a directory"

# Without a source: no SQNR, and a note.
"$FP8CONV" report out -o alone 2>err
echo "fp8conv report: note: the base model is unknown: give --source or --base-model" | diff - err
has alone/report.html '"problems": null'
grep -q "dB" alone/README.md && echo "an SQNR without a source"
grep -q base_model alone/README.md && echo "a base model that nobody knows"
"$FP8CONV" report out -o named --base-model Org/Tiny --quantized-by "A: b" 2>&1
has named/README.md "base_model: Org/Tiny"
has named/README.md 'quantized_by: "A: b"'
# The cache of a hub has the name.
mkdir -p hub/models--Org--Tiny-1/snapshots/0123 hub/models--Org--Tiny-1/blobs
cp "$model"/*.* hub/models--Org--Tiny-1/blobs
for file in hub/models--Org--Tiny-1/blobs/*; do
	ln -s "../../blobs/${file##*/}" hub/models--Org--Tiny-1/snapshots/0123
done
"$FP8CONV" report out --source hub/models--Org--Tiny-1/snapshots/0123 -o r2 --quiet
has r2/README.md "base_model: Org/Tiny-1"

# A layout that an engine does not load has the reason; caches in FP8 are asked for.
"$FP8CONV" quantize "$model" -o mx --recipe mxfp8 --quiet
"$FP8CONV" report mx -o r3 --quiet
has r3/README.md "vLLM does not load this layout: "
has r3/README.md "python -m sglang.launch_server --model-path mx"
"$FP8CONV" quantize "$model" -o cache --recipe delayed --calibration "$SAMPLES/amax/tiny-llama-1.amax" --kv-cache --quiet
"$FP8CONV" report cache -o r4 --quiet
has r4/README.md "vllm serve cache --kv-cache-dtype fp8"
has r4/README.md "--model-path cache --kv-cache-dtype fp8_e4m3"
has r4/README.md "--calibration S.amax"
has r4/README.md "| static scales of activations | 28 |"

# Compensated rounding, and what measured sensitivities keep.
python3 - <<'END'
import json
with open("ids.jsonl", "w") as file:
    for i in range(12):
        print(json.dumps({"input_ids": [(7 * i + 3 * t) % 100 for t in range(32)]}), file=file)
END
"$FP8CONV" quantize "$model" -o rounded --rounding compensated --data ids.jsonl --shrink 0.6 --quiet
"$FP8CONV" report rounded --source "$model" -o r7
has r7/README.md "--rounding compensated --data DATA --seq-len 32 --passes 12 --shrink 0.6"
has r7/README.md "| Rounding | compensated, by 384 tokens in 12 sequences of calibration data;"
has r7/README.md "% of codes are not the nearest"
has r7/README.md "Every scale was compared with the source"
"$FP8CONV" sensitivity "$model" --recipe blockwise --data ids.jsonl -o S.json --quiet
"$FP8CONV" sensitivity --from S.json --budget 20% -o KEEP --quiet
"$FP8CONV" quantize "$model" -o kept --tensors KEEP --quiet
"$FP8CONV" report kept --source "$model" -o r8
has r8/README.md "--tensors KEEP"
has r8/README.md "| by its author&#39;s list |"

# Problems are told.
cp -r out bad
python3 "$CLI/checkpoint.py" flip bad/model.safetensors model.layers.0.mlp.up_proj.weight
"$FP8CONV" report bad --source "$model" -o r5 2>err
echo "fp8conv report: note: 'fp8conv verify' finds 2 problems in 'bad'" | diff - err
has r5/README.md "\`fp8conv verify\` found 2 problems."

# Without a manifest nobody knows the commands; experts are of one kind.
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o moe --quiet
rm moe/fp8conv-manifest.json
"$FP8CONV" report moe --source "$SAMPLES/tiny-moe/per-expert" -o r6
python3 "$CLI/page.py" whole r6
python3 "$CLI/page.py" counts r6 moe
has r6/README.md "the commands are unknown"
has r6/README.md "| router gate |"

mkdir next
cd next
# Checkpoints of every variant that can be read, whoever made them: each code and each scale is counted.
for variant in $(python3 "$CLI/fp8.py" variants); do
	python3 "$CLI/fp8.py" make "$variant" in
	"$FP8CONV" report in -o out --quiet || echo "$variant"
	{
		python3 "$CLI/page.py" whole out
		python3 "$CLI/page.py" counts out in
	} | sed "s/^/$variant: /"
	rm -rf in out
done

mkdir ../lm-eval
cd ../lm-eval
# Results of lm-eval 0.4.13, which its program wrote for its model "dummy" (without the configurations of tasks): a group of two
# tasks, of which the group has the mean, and a metric of which less is better.
cat >tiny.json <<'EOF'
{"results": {
"tiny_one": {"name": "tiny_one", "alias": "tiny_one", "sample_len": 20, "acc,none": 0.2, "acc_stderr,none": 0.0917662935482247, "acc_norm,none": 0.2, "acc_norm_stderr,none": 0.0917662935482247},
"tiny_two": {"name": "tiny_two", "alias": "tiny_two", "sample_len": 20, "acc,none": 0.2, "acc_stderr,none": 0.09176629354822471, "acc_norm,none": 0.2, "acc_norm_stderr,none": 0.09176629354822471},
"tiny_text": {"name": "tiny_text", "alias": "tiny_text", "sample_len": 20, "word_perplexity,none": 1.09225999096277, "word_perplexity_stderr,none": "N/A"},
"tiny": {"alias": "tiny", "name": "tiny", "sample_len": 40, "acc,none": 0.2, "acc_stderr,none": 0.06488856845230502, "sample_count": {"acc,none": 40}}},
"group_subtasks": {"tiny": ["tiny_one", "tiny_two"]},
"versions": {"tiny": "1", "tiny_one": 1.0, "tiny_text": 2, "tiny_two": 1.0},
"n-shot": {"tiny": 0, "tiny_one": 0, "tiny_text": 0, "tiny_two": 0},
"higher_is_better": {"tiny": {"acc": true, "acc_norm": true}, "tiny_one": {"acc": true, "acc_norm": true}, "tiny_text": {"word_perplexity": false}, "tiny_two": {"acc": true, "acc_norm": true}},
"n-samples": {"tiny_one": {"original": 20, "effective": 20}, "tiny_two": {"original": 20, "effective": 20}, "tiny_text": {"original": 20, "effective": 20}},
"model_name": "./tiny-FP8",
"lm_eval_version": "0.4.13"}
EOF
cat >base.json <<'EOF'
{"results": {
"tiny_one": {"name": "tiny_one", "alias": "tiny_one", "sample_len": 20, "acc,none": 0.4, "acc_stderr,none": 0.11239029738980327, "acc_norm,none": 0.4, "acc_norm_stderr,none": 0.11239029738980327},
"tiny_two": {"name": "tiny_two", "alias": "tiny_two", "sample_len": 20, "acc,none": 0.2, "acc_stderr,none": 0.0917662935482247, "acc_norm,none": 0.2, "acc_norm_stderr,none": 0.0917662935482247},
"tiny_text": {"name": "tiny_text", "alias": "tiny_text", "sample_len": 20, "word_perplexity,none": 1.0954697837162024, "word_perplexity_stderr,none": "N/A"},
"tiny": {"alias": "tiny", "name": "tiny", "sample_len": 40, "acc,none": 0.3, "acc_stderr,none": 0.07254762501100116, "sample_count": {"acc,none": 40}}},
"group_subtasks": {"tiny": ["tiny_one", "tiny_two"]},
"versions": {"tiny": "1", "tiny_one": 1.0, "tiny_text": 2, "tiny_two": 1.0},
"n-shot": {"tiny": 0, "tiny_one": 0, "tiny_text": 0, "tiny_two": 0},
"higher_is_better": {"tiny": {"acc": true, "acc_norm": true}, "tiny_one": {"acc": true, "acc_norm": true}, "tiny_text": {"word_perplexity": false}, "tiny_two": {"acc": true, "acc_norm": true}},
"n-samples": {"tiny_one": {"original": 20, "effective": 20}, "tiny_two": {"original": 20, "effective": 20}, "tiny_text": {"original": 20, "effective": 20}},
"model_name": "org/tiny",
"lm_eval_version": "0.4.13"}
EOF
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o tiny-FP8 --quiet
"$FP8CONV" report tiny-FP8 --base-model org/tiny -o r --lm-eval tiny.json --lm-eval-source base.json
python3 "$CLI/page.py" whole r
sed -n 's/^| `tiny/&/p' r/README.md >rows
# 100 * 1.0954697837162024 / 1.09225999096277 and 100 * 0.2 / 0.3
diff - rows <<'EOF'
| `tiny_text`, 0-shot | `word_perplexity,none` | 1.0955 | 1.0923 | 100.3 % |
| `tiny`, 0-shot | `acc,none` | 0.3000 ± 0.0725 | 0.2000 ± 0.0649 | 66.7 % |
EOF
grep -q '"benchmarks": *\[ *{ *"task": *"tiny_text"' r/report.html || echo "the page has no benchmarks"
# Without the source; and of a group without a mean, its tasks.
sed 's/^"tiny": .*/"tiny": {"alias": "tiny", " ": " "}},/' tiny.json >parts.json
"$FP8CONV" report tiny-FP8 --base-model org/tiny -o r2 --lm-eval parts.json
cat >parts.rows <<'EOF'
| `tiny_one`, 0-shot | `acc,none` |  | 0.2000 ± 0.0918 | |
| `tiny_one`, 0-shot | `acc_norm,none` |  | 0.2000 ± 0.0918 | |
EOF
grep '^| `tiny_one' r2/README.md | cmp - parts.rows
# Another model is noted.
"$FP8CONV" report tiny-FP8 --base-model org/tiny -o r3 --lm-eval base.json 2>err
echo "fp8conv report: note: 'base.json' is the evaluation of 'org/tiny', not of 'tiny-FP8'" | diff - err
# What is refused.
r=" report: 'bad.json'"
bad() {
	fails 3 "$1" report tiny-FP8 -o r4 --lm-eval bad.json --lm-eval-source base.json
}
sed 's/"n-shot": {"tiny": 0/"n-shot": {"tiny": 5/' tiny.json >bad.json
bad "$r and 'base.json' differ in 'n-shot' of task 'tiny': measure both alike"
sed '/^"n-samples"/s/20, "effective": 20/20, "effective": 10/3' tiny.json >bad.json
bad "$r and 'base.json' differ in 'n-samples' of task 'tiny_text': measure both alike"
for text in '[]' '{}' '{"results": 1}' '{"results": {}}' '{"results": []}'; do
	echo "$text" >bad.json
	bad "$r is no result of lm_eval: it has no 'results'"
done
echo '{"results": {"a": {"acc,none": 1}, "b": 1}}' >bad.json
bad "$r is no result of lm_eval: task 'b' is not an object"
echo '{"results": {"a": {"acc,none": NaN, "acc_stderr,none": 1, "alias": "a"}}, "group_subtasks": 1}' >bad.json
bad "$r is no result of lm_eval: it has no metric"
echo '{"results": {"a' >bad.json
bad "$r is no result of lm_eval: *"
fails 3 " report: 'tiny.json' and 'tiny.json' both have task 'tiny_text'" report tiny-FP8 -o r4 --lm-eval tiny.json --lm-eval tiny.json
fails 2 " report: option '--lm-eval-source' requires '--lm-eval': the result for 'tiny-FP8'" \
	report tiny-FP8 -o r4 --lm-eval-source base.json
# Any text is only text.
echo '{"results": {"<b>|`x": {"a|<i>,none": 1e300, "a|<i>_stderr,none": []}}, "n-shot": {"<b>|`x": -1}}' >odd.json
"$FP8CONV" report tiny-FP8 --base-model x -o r5 --lm-eval odd.json
python3 "$CLI/page.py" whole r5
