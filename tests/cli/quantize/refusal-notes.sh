#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a target other than TensorRT-LLM refuses of a plan, and nothing else, is a note of the plan without one, which names the
# engine: by each row of the families, and by what formats have of engines.
"$FP8CONV" families --json >families
python3 - <<'EOF'
import json
import os
import re
import subprocess

import checkpoint

ENGINES = ("vllm", "sglang", "trtllm", "transformers")
JOBS = [["--recipe", recipe, "--format", form] for recipe in ("blockwise", "channelwise", "current", "mxfp8")
        for form in ("hf", "compressed-tensors", "modelopt")]
AT = "model.layers.0."
# The tensors of a pattern that ends in "*"; for others its own name.
EXPERTS = {"*.experts.*": {AT + "mlp.experts.gate_up_proj": (2, 128, 256), AT + "mlp.experts.down_proj": (2, 128, 128)},
           "*.block_sparse_moe.*": {AT + "block_sparse_moe.input_linear.weight": (2, 256, 128),
                                    AT + "block_sparse_moe.output_linear.weight": (2, 128, 128)}}
LINEAR = {AT + "self_attn.o_proj.weight": (128, 128)}
MOE = LINEAR | {AT + f"mlp.experts.0.{name}_proj.weight": (128, 128) for name in ("gate", "up", "down")}


def tensors(pattern):
    own = {} if pattern == "*" else {pattern.replace("*.", AT, 1) + ".weight": (256, 128)}
    return EXPERTS.get(pattern) or LINEAR | own


def plan(*options):
    done = subprocess.run([os.environ["FP8CONV"], "quantize", "in", "--dry-run", *options], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def named(notes):
    """The engines that do not load it by the notes; sources of rules and names of tensors aside."""
    told = [line for line in notes.splitlines() if re.search("note: .*; see --target ", line)]
    return set(re.findall("|".join(ENGINES), re.sub(r"\[.*?\]|'.*?'", "", " ".join(told))))


def refusals(model_type, weights, options=()):
    """(engine, words) of the targets that are refused where a plan without a target is possible; checks its notes."""
    checkpoint.make("in/model.safetensors", [f"{name}=BF16:{'x'.join(map(str, shape))}" for name, shape in weights.items()])
    with open("in/config.json", "w", encoding="utf-8") as file:
        json.dump({"model_type": model_type, "hidden_size": 128, "num_hidden_layers": 1}, file)
    found = []
    for job in JOBS:
        status, notes = plan(*job, *options)
        refused = {}
        for engine in ENGINES if status == 0 else ():
            status, said = plan(*job, *options, "--target", engine)
            if status:
                refused[engine] = said
        if refused.keys() - {"trtllm"} != named(notes):
            print(model_type, *job, *options, "is refused for", *refused, "but noted:", notes.strip())
        found += refused.items()
    return found


os.mkdir("in")
for row in json.load(open("families", encoding="utf-8"))["rows"]:
    if row["action"] == "not-loaded":
        found = {engine for engine, said in refusals(row["families"][0], tensors(row["pattern"])) if row["said"] in said}
        if found != set(row["engines"] or ENGINES):
            print("the row", row["said"], "refuses for", sorted(found))
for options in ([], ["--fp8-format", "e5m2"], ["--tensor", "o_proj=channelwise"], ["--tensor", "lm_head=channelwise"]):
    if not refusals("qwen3_moe", MOE | {"lm_head.weight": (256, 128)}, options):
        print("no engine refuses anything with", *options)
EOF
