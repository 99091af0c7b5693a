#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every matrix that is quantized has a group, in every architecture; so have experts that are quantized otherwise than they
# are multiplied: GPT-OSS's gate and up in turn as two matrices, Granite's in a stack that stays whole.
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 40, 90, 120, 200]}\n{"input_ids": [9, 2, 55, 3, 5, 80, 7]}\n' >ids.jsonl
python3 "$CLI/tiny.py" list | while read -r arch; do
	python3 "$CLI/tiny.py" make "$arch" model
	"$FP8CONV" sensitivity model --data ids.jsonl --recipe blockwise --ragged --dry-run --json -q >plan.json
	python3 "$CLI/json_check.py" plan.json "j['recipes'][0]['unmeasured'] == 0" || echo "$arch"
	rm -r model
done

# loud MODEL: experts whose rounding shows in six digits.  wide MODEL WIDTH: experts whose matrices have many panels.
cat >loud.py <<'END'
import json, random, sys
import checkpoint
model, width = sys.argv[1], int(sys.argv[2])
file, config = f"{model}/model.safetensors", json.load(open(f"{model}/config.json"))
source, old, tensors = random.Random(3), config["intermediate_size"], checkpoint.read(file)
for name, (dtype, shape, data) in tensors.items():
    if "router" in name or not ("experts." in name or "input_linear" in name or "output_linear" in name) or "shared" in name:
        continue
    shape = [{old: width, 2 * old: 2 * width}.get(n, n) for n in shape]
    n = 1
    for size in shape:
        n *= size
    exponents = bytes((0x3E, 0xBE, 0x3F, 0xBF)[i % 4] for i in range(256))
    data = bytearray(source.randbytes(2 * n))
    data[1::2] = data[1::2].translate(exponents)
    tensors[name] = dtype, shape, bytes(data)
config["intermediate_size"] = width
checkpoint.write(file, tensors)
json.dump(config, open(f"{model}/config.json", "w"))
END
# The divergence of the groups of experts is that of checkpoints in which experts alone are quantized.
cat >measure.py <<'END'
import json, os, shutil, subprocess, sys
model, options = sys.argv[1], sys.argv[2:]
table = json.load(open("table.json"))
groups = [g for g in table["groups"] if g["group"].endswith(".experts")]
assert groups, model
for group in groups[::4]:
    run = [os.environ["FP8CONV"], "quantize", model, "-o", "one", "-q", *options]
    shutil.rmtree("one", ignore_errors=True)
    subprocess.run([*run, "--include", rf"layers\.{group['layer']}\.(mlp\.experts|block_sparse_moe\.(in|out)put_linear)"], check=True)
    done = subprocess.run([os.environ["FP8CONV"], "eval", "one", "--source", model, "--data", "ids.jsonl", "--precision", "f32",
                           "--json", "-q"], check=True, stdout=subprocess.PIPE)
    wanted = json.loads(done.stdout)["kld"]
    if not 2e-5 < group["kld"]["mean"] or abs(wanted["mean"] - group["kld"]["mean"]) > 6e-7:
        print(model, options, group["group"], group["kld"], wanted)
END
# check ARCH WIDTH OPTION...
check() {
	arch=$1
	rm -rf "$arch"
	python3 "$CLI/tiny.py" make "$arch" "$arch"
	python3 loud.py "$arch" "$2"
	shift 2
	"$FP8CONV" sensitivity "$arch" --data ids.jsonl -o table.json --restart -q "$@"
	python3 measure.py "$arch" "$@"
}
check gpt_oss 160 --recipe blockwise --ragged
check gpt_oss 160 --recipe current
check granitemoehybrid 44 --recipe channelwise
# Products take more than 16384 rows in panels: they begin and end anywhere in the matrices that are quantized.
check gpt_oss 8240 --recipe blockwise --ragged
check granitemoehybrid 16444 --recipe channelwise

# A stack is kept as a whole, and so are its experts by --by expert; those that are split are groups of their own.
python3 - <<'END'
import json
groups = [g for g in json.load(open("table.json"))["groups"] if g["group"].endswith(".experts")]
assert [[m["name"] for m in g["modules"]] for g in groups] == [[f"model.layers.{n}.block_sparse_moe.{s}_linear" for s in ("input", "output")]
                                                             for n in range(4)], groups
assert all(g["bytes"]["bf16"] == 2 * 5 * 60 * 3 * 16444 for g in groups), groups
END
"$FP8CONV" sensitivity granitemoehybrid --data ids.jsonl --recipe channelwise --by expert --dry-run --json >plan.json
python3 "$CLI/json_check.py" plan.json "sum(g['group'].endswith('.experts') for g in j['groups']) == 4"
"$FP8CONV" sensitivity --from table.json --budget 60% -o KEEP
"$FP8CONV" quantize granitemoehybrid -o mixed --recipe channelwise --tensors KEEP --dry-run --json >plan.json
python3 - <<'END'
import json
kept = [t["name"].split(".")[2:5:2] for t in json.load(open("plan.json"))["tensors"] if "put_linear" in t["name"] and t["reason"] == "skipped by --tensors"
        and "moe" in t["name"]]
layers = {layer for layer, _ in kept}
assert len(layers) == 2 and sorted(kept) == sorted([n, s] for n in layers for s in ("input_linear", "output_linear")), kept
END
rm -r gpt_oss granitemoehybrid
python3 "$CLI/tiny.py" make gpt_oss model
"$FP8CONV" sensitivity model --data ids.jsonl --recipe channelwise --by expert --dry-run --json -q >plan.json
python3 "$CLI/json_check.py" plan.json "sum('.expert.' in g['group'] for g in j['groups']) == 12" \
	"all(g['modules'] == 3 for g in j['groups'] if '.expert.' in g['group'])"
