#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What is no checkpoint is an error, not a problem.
need "$SAMPLES/tiny-llama"
mkdir empty && : >short.safetensors
fails 3 " verify: found no model.safetensors.index.json, model.safetensors or other .safetensors file in 'empty'" verify empty
fails 3 " verify: cannot open 'nowhere': No such file or directory" verify nowhere
fails 3 " verify: 'short.safetensors' is empty: copy or download it again" verify short.safetensors
fails 2 " verify: OUT is missing (fp8conv verify OUT)" verify
fails 2 " verify: option '--target': 'vlm' is not one of *(did you mean 'vllm'?)" verify empty --target vlm
fails 3 " verify: cannot open 'nowhere': No such file or directory" verify "$SAMPLES/tiny-llama" --source nowhere
