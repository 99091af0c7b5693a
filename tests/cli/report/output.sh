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
