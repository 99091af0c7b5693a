#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The card takes the place of the source's in the output, and lives on; what somebody has edited stays.
need "$SAMPLES/tiny-llama"
cp -r "$SAMPLES/tiny-llama" tiny
chmod -R u+w tiny
printf -- '---\nlicense: other\nlicense_name: tiny\nlicense_link: LICENSE\nlanguage:\n- en\n- "no"\npipeline_tag: text-generation\nbase_model: Org/parent\n---\n# Tiny\n' >tiny/README.md
"$FP8CONV" quantize tiny -o out --manifest --quiet
"$FP8CONV" report out --source tiny -o out --quiet
python3 "$CLI/page.py" whole out
python3 "$CLI/page.py" front out >front.json
cat >expected.json <<'EOF'
{"base_model": "tiny", "base_model_relation": "quantized", "quantized_by": "fp8conv", "language": ["en", "no"], "license": "other", "license_name": "tiny", "license_link": "LICENSE", "pipeline_tag": "text-generation", "tags": ["fp8", "fp8conv"]}
EOF
cmp front.json expected.json

# Again, without the source's card: the same bytes; and all files are still as in the manifest.
cp -r out first
rm tiny/README.md
"$FP8CONV" report out --source tiny -o out --quiet
same first out
"$FP8CONV" verify out --manifest --quiet
# Without the source, the card that is there names the base model.
"$FP8CONV" report out -o other
python3 "$CLI/page.py" front other | cmp - expected.json
# A page about this output is none about the output of another job.
echo x >tiny/report.html
"$FP8CONV" repack out -o repacked --format modelopt --quiet
[ ! -e repacked/report.html ] || echo "the page about out is copied"
"$FP8CONV" quantize tiny -o with-page --quiet
cmp tiny/report.html with-page/report.html
rm tiny/report.html
# From another place, with any number of threads and little memory.
"$FP8CONV" report out/ --source ./tiny -o again --threads 1 --max-memory 8M --quiet
for file in README.md report.html; do cmp out/$file again/$file; done

# An edit is kept.
echo "More." >>out/README.md
fails 2 " report: 'out' contains 'README.md', which is not as fp8conv wrote it: *" report out --source tiny -o out
tail -n 1 out/README.md | grep -qx "More." || echo "the edit is gone"
"$FP8CONV" report out --source tiny -o out --quiet --force
cmp out/README.md first/README.md
# A copy of the source's card is replaced only if nobody has edited it.
echo "# Tiny" >tiny/README.md
"$FP8CONV" quantize tiny -o copied --quiet
echo "Edited." >>copied/README.md
fails 2 " report: 'copied' contains 'README.md', which is not as fp8conv wrote it: *" report copied --source tiny -o copied

mkdir next
cd next
# The page's script makes the text of the page from the data.
command -v node >/dev/null || { echo "node is missing: the page's script was not run" >&2; exit 77; }
need "$SAMPLES/tiny-llama" "$SAMPLES/amax/tiny-llama-1.amax"
node "$CLI/page.js" "$CLI/../../cli/report/page.html" >sample.txt
grep -qx '0 of 3 tensors' sample.txt || cat sample.txt
model=$SAMPLES/tiny-llama
"$FP8CONV" quantize "$model" -o out --quiet
echo '{"perplexity": {"value": 9.5, "se": 0.5}, "kld": {"mean": 0.25, "max": 1.5}, "correlation": 1e308, "tokens": 8, "targets": 7, "sequences": 1,
	"seq_len": 8, "data": ["t<b>"], "data_sha256": "'"$(printf %064d 0)"'", "precision": "f32", "activations": "bf16",
	"model": "out", "layers": [{"layer": 3, "modules": [{"module": "model.layers.3.<i>", "local": {"sqnr_db": 30.5}}]}]}' >eval.json
"$FP8CONV" report out --source "$model" --eval eval.json --calibration "$SAMPLES/amax/tiny-llama-1.amax" -o r --quiet
grep -qx '| Perplexity | 9.50 ± 0.50 |' r/README.md || grep Perplexity r/README.md
node "$CLI/page.js" r/report.html >page.txt
grep -qx "size (source $(stat -c %s "$model/model.safetensors" | awk '{ printf "%.2f", $1 / 1e6 }') MB)" page.txt || grep size page.txt
while read -r line; do
	grep -qxF -- "$line" page.txt || echo "the page does not say: $line"
done <<'END'
out
9.500000 ± 0.500000
0.250000
Data: t<b>, 8 positions in 1 sequence of at most 8 tokens; SHA-256 of the token ids 0000000000000000000000000000000000000000000000000000000000000000. Activations: bf16; products in f32.
Near the baseline, KLD says how far the outputs moved, and does not rank benchmark scores.
<i>
30.50
problems that verify finds
model.layers.*.self_attn.q_proj
4 tensors, FP8 (E4M3), a scale for each 128 x 128 block
scale 2^-11
each 128 x 128 block
from 2^5 to 2^7
model.layers.*.input_layernorm.weight
norm
model.layers.3.mlp.up_proj.weight
0 of 38 tensors
END
"$FP8CONV" report out -o alone --quiet
node "$CLI/page.js" alone/report.html | grep -qx 'Not measured: run fp8conv report with --source.' || echo "SQNR without a source"
