# SPDX-License-Identifier: Apache-2.0
# zsh itself, on the lines of `lines`: what it offers where TAB is pressed.
. "$CLI/lib.sh"
need "python3()" "zsh()"
"$FP8CONV" completion zsh >script
mkdir models
touch model.safetensors
python3 "$CLI/complete.py" zsh script <"$CLI/completion/lines"
