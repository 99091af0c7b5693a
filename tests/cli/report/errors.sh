#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What report refuses; it leaves no directory behind then.
need "$SAMPLES/tiny-llama" "$SAMPLES/amax/tiny-llama-1.amax"
c=" report: "
model=$SAMPLES/tiny-llama
"$FP8CONV" quantize "$model" -o out
fails 2 "${c}option '--output' is missing: give a directory for README.md and report.html (-o DIR), or --dry-run" report out
fails 2 "${c}a stream has no configuration to report on: give a directory or a file" report - -o r
fails 3 "${c}cannot open 'none'*" report none -o r
fails 3 "${c}'$model' has no FP8 weights: give a checkpoint that 'fp8conv quantize' or another tool has quantized" \
	report "$model" -o r
fails 3 "${c}*none*" report out --source none -o r
fails 3 "${c}cannot open 'none': No such file or directory" report out --eval none -o r
fails 3 "${c}cannot open 'none': No such file or directory" report out --calibration none -o r
fails 3 "${c}'$model/config.json' is not a safetensors file: *" report out --calibration "$model/config.json" -o r
echo '{"perplexity": {"value": 1, "se": 1' >cut.json
fails 3 "${c}'cut.json' is not a result of 'fp8conv eval --json': *" report out --eval cut.json -o r
echo '[]' >list.json
fails 3 "${c}'list.json' is not a result of 'fp8conv eval --json': it is not an object" report out --eval list.json -o r
"$FP8CONV" inspect out --json >inspect.json
fails 3 "${c}'inspect.json' is not a result of 'fp8conv eval --json': 'perplexity' is missing" \
	report out --eval inspect.json -o r
: >empty.json
fails 3 "${c}'empty.json' is not a result of 'fp8conv eval --json': *" report out --eval empty.json -o r
truncate -s 65M large.json
fails 3 "${c}'large.json' is 68157440 bytes long, more than the limit (67108864)" report out --eval large.json -o r
mkfifo fifo
fails 3 "${c}'fifo' is not a regular file" report out --eval fifo -o r

# An amax file that is damaged, or of another model.
head -c 200 "$SAMPLES/amax/tiny-llama-1.amax" >cut.amax
fails 3 "${c}header of 'cut.amax' is 6464 bytes long, past the end of the file (200): copy or download it again" report out --calibration cut.amax -o r
cp -r "$model" other
chmod -R u+w other
python3 "$CLI/checkpoint.py" flip other/model.safetensors model.norm.weight
fails 3 "${c}'$SAMPLES/amax/tiny-llama-1.amax' belongs to another model: its fingerprint is '*', but that of 'other' is '*': give one that was made of this model" \
	report out --source other --calibration "$SAMPLES/amax/tiny-llama-1.amax" -o r

# A checkpoint that changed under its header, and one that is not whole.
cp -r out part
head -c 100000 out/model.safetensors >part/model.safetensors
fails 3 "${c}*part/model.safetensors*" report part -o r
[ -e r ] && echo "r was left"

# The output.
: >file
fails 3 "${c}*'file'*" report out -o file
mkdir mine
echo mine >mine/README.md
fails 2 "${c}'mine' contains 'README.md', which is not as fp8conv wrote it: choose another output, or --restart to overwrite" \
	report out -o mine
mkdir page
echo mine >page/report.html
fails 2 "${c}'page' contains 'report.html', which is not as fp8conv wrote it: choose another output, or --restart to overwrite" \
	report out -o page
mkdir -p folder/README.md
fails 2 "${c}'folder' contains 'README.md', which is not as fp8conv wrote it: *" report out -o folder
fails 4 "${c}*'folder/README.md'*" report out -o folder --restart --quiet
fails 2 "${c}option '--output': 'r.html' is the name of a file: give the directory for README.md and report.html" report out -o r.html
"$FP8CONV" report out -o mine --restart --quiet
python3 "$CLI/page.py" whole mine

mkdir next
cd next
# Names, cards, results and histories that want to be markup stay text.
python3 - <<'END'
import json, pathlib, random, struct
import checkpoint
r = random.Random(3)
names = ["<script>alert(1)</script>.0.weight", "a|b`c`.1.weight", "</title>&amp;\"'.2.weight", "*_[x](javascript:y).3.weight",
         "\u202e\U0001F600.4.weight", "x" * 5000 + ".5.weight", "1." * 40 + "weight", "]]>--><!--.7.weight", "\\u003c.8.weight",
         "model.layers.99999999999999999999.up_proj.weight", "model.layers.4000000000.up_proj.weight",
         "model.layers.999999999.up_proj.weight", "model.layers.0.up_proj.weight"]
tensors = {}
for name in names:
    tensors[name] = "F8_E4M3", [16, 16], r.randbytes(256)
    tensors[name + "_scale_inv"] = "F32", [1, 1], struct.pack("<f", 0.5)
for i in range(700):
    tensors[f"<b>|kept`{'abcdefghij'[i % 10]}{chr(0x4e00 + i)}"] = "BF16", [2], b"\0\0\0\0"
checkpoint.write("model.safetensors", tensors)
folder = pathlib.Path("<img src=x onerror=alert(1)>|`$(touch x)`")
folder.mkdir()
pathlib.Path("model.safetensors").rename(folder / "model.safetensors")
config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}}
(folder / "config.json").write_text(json.dumps(config))
(folder / "README.md").write_text("---\nbase_model: \"x\\\": y\"\nbase_model_relation: quantized\nlicense: 'a: b'\n"
                                  "license_name: <script>\nlanguage:\n- 'no'\n- \"- x\"\npipeline_tag: &anchor x\n---\n")
manifest = {"tool": "fp8conv", "version": "0<b>|`\n```\n# x", "command": "quantize; rm -rf `pwd`", "shards": [], "options": {
    "recipe": "no such", "format": "```\n", "exclude": ["`\n```\n<script>", 3], "tensor": ["=", "a=skip", "(=blockwise"], "scales": {"x": 7},
    "rounding": {"data_sha256": "<b>", "tokens": 2**62, "domains": [10**15] * 1000}, "keep": {"budget": 1e300}},
    "rounding": {"rounding": "|<b>`", "shrink": 1e300}, "inputs": [{"name": "README.md", "sha256": "<b>"}, {}]}
(folder / "fp8conv-manifest.json").write_text(json.dumps(manifest))
spread = {key: 1e308 for key in ("mean", "se", "max", "p99_9", "median", "min")}
modules = [{"module": "<script>" + str(i), "local": {"sqnr_db": 1e300 * (i - 50)}} for i in range(200)]
result = {"perplexity": {"value": -1e308, "se": 1e308}, "kld": spread, "delta_p": spread, "tokens": 2**62, "targets": 0,
          "sequences": 0, "seq_len": 0, "data_sha256": "0" * 64, "precision": "<b>|`", "activations": "</code>", "model": "\n",
          "data": ["/home/me/<b>`|.txt"] * 40, "layers": [{"layer": 2**62, "modules": modules}, {"layer": 4000000, "modules": modules},
                                                         {"layer": 0, "modules": modules}]}
pathlib.Path("eval.json").write_text(json.dumps(result))
END
folder='<img src=x onerror=alert(1)>|`$(touch x)`'
"$FP8CONV" report "$folder" --eval eval.json --calibration "$SAMPLES/amax/tiny-llama-1.amax" -o out --quiet
python3 "$CLI/page.py" whole out
python3 "$CLI/page.py" front out >front.json
json front.json 'j["base_model"] == "x\": y"' 'j["license"] == "a: b"' 'j["language"] == ["no", "- x"]' '"pipeline_tag" not in j'
grep -c '^```' out/README.md | grep -qx 6 || echo "fences: $(grep -c '^```' out/README.md)"
grep -q 'home/me' out/README.md out/report.html && echo "the card tells where the data are"
[ "$(wc -c <out/report.html)" -lt 1000000 ] || wc -c out/report.html
[ -e x ] && echo "a name was run"
# The control characters of other names are refused where the header is read.
python3 - <<'END'
import checkpoint
checkpoint.write("line.safetensors", {"a\nb.weight": ("F8_E4M3", [1, 1], b"\0")})
END
fails 3 " report: *" report line.safetensors -o line
