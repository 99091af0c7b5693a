# SPDX-License-Identifier: Apache-2.0
# fish itself, on the lines of `lines`: what it offers where TAB is pressed.
. "$CLI/lib.sh"
need "python3()" "fish()"
"$FP8CONV" completion fish >script
mkdir models
touch model.safetensors
python3 "$CLI/complete.py" fish script <"$CLI/completion/lines"
