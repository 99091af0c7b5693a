# SPDX-License-Identifier: Apache-2.0
# bash itself, on the lines of `lines`: what it offers where TAB is pressed.
. "$CLI/lib.sh"
need "python3()" "bash()"
"$FP8CONV" completion bash >script
mkdir models
touch model.safetensors
python3 "$CLI/complete.py" bash script <"$CLI/completion/lines"
