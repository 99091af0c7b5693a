#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What eval says besides its numbers: notes, the summary, and a table by layer that fits its terminal.
need "$SAMPLES/tiny-moe/per-expert" "$SAMPLES/tiny-llama"
model=$SAMPLES/tiny-moe/per-expert
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [8, 7, 6, 5]}\n' >ids.jsonl
"$FP8CONV" quantize "$model" -o out

"$FP8CONV" eval out --data ids.jsonl >plain 2>err
[ -s err ] && cat err
"$FP8CONV" eval out --data ids.jsonl --verbose >text 2>err
diff plain text
grep -qx 'tokens     12, [0-9]* per second' err && grep -qx 'time       .*, peak memory [0-9]* MiB' err &&
	[ "$(wc -l <err)" = 2 ] || cat err
"$FP8CONV" eval out --data ids.jsonl --verbose --quiet >text 2>err
[ -s err ] && cat err
for options in "" --dry-run; do
	# shellcheck disable=SC2086
	"$FP8CONV" eval out --data ids.jsonl --passes 3 $options >text 2>err
	echo "fp8conv eval: note: the data is enough for 2 of 3 sequences" | cmp - err
done
"$FP8CONV" eval out --data ids.jsonl --passes 3 --quiet >text 2>err
[ -s err ] && cat err
printf 'a text, \377 and more of it' >bad.txt
"$FP8CONV" eval "$SAMPLES/tiny-llama" --data bad.txt --seq-len 4 >text 2>err
echo "fp8conv eval: note: 'bad.txt' is not UTF-8 at byte 8: invalid bytes are read as U+FFFD" | cmp - err

"$FP8CONV" eval out --source "$model" --data ids.jsonl --by-layer >wide
"$FP8CONV" eval out --source "$model" --data ids.jsonl --by-layer --json >layers.json
python3 - "$model" <<'END'
import json, os, re, sys
sys.path.insert(0, os.environ["CLI"])
from terminal import Terminal

def table(text):
    """The lines below the heading of the table, which is a line too."""
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("Signal to noise, dB")):]

def number(value):
    return "-" if value is None else f"{value:.2f}"

def rows():
    for layer in json.load(open("layers.json"))["layers"]:
        for module in layer["modules"]:
            shares = [] if module["zeros"] is None else [f"{100 * module[key]:.3f} %" for key in ("saturated", "zeros")]
            yield [module["module"], number(module["local"]["sqnr_db"]), number(module["accumulated"]["sqnr_db"]), *shares]
        yield [f"layer {layer['layer']}, residual stream", number(layer["residual"]["sqnr_db"])]

wide = table(open("wide").read())
wanted = [["Signal to noise, dB", "local", "accumulated", "saturated", "zeros"], *rows()]
for line, row in zip(wide, wanted, strict=True):
    # JSON has null for no noise too.
    if re.split("  +", line.replace(" inf ", " -   ")) != row:
        print("not a pipe's line:", line, row)
for columns in (60, 80, 200):
    terminal = Terminal(os.environ["FP8CONV"], "eval", "out", "--source", sys.argv[1], "--data", "ids.jsonl", "--by-layer",
                        "--quiet", columns=columns)
    terminal.finish()
    lines = table(terminal.text.decode())
    if terminal.status or columns == 200 and lines != wide:
        print(f"{columns} columns, exit status {terminal.status}:", *lines, sep="\n")
    for line, whole in zip(lines, wide, strict=True):
        first, *rest = re.split("  +", whole)
        if columns == 60:                                     # without the share of saturated inputs
            del rest[2:-1]
        begin, *end = line.split("  ")[0].split("...")
        if len(line) > columns or re.split("  +", line)[1:] != rest or not first.startswith(begin) or not first.endswith("".join(end) or begin):
            print(f"{columns} columns:", line)
    if columns == 60 and not any("..." in line for line in lines):
        print("no name was cut")
END
