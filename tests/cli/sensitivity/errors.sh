#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
