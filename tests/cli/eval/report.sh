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
	[ "$(sed -n 3p err)" = "perplexity $(sed -n 's/^Mean PPL(Q) *//p' plain | awk '{ printf "%.4g", $1 }')" ] &&
	[ "$(wc -l <err)" = 3 ] || cat err
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

mkdir next
cd next
# A model against itself and against its quantized self; threads and memory do not matter.
need "$SAMPLES/tiny-llama"
python3 - <<'END'
import json, random
random.seed(5)
with open("ids.jsonl", "w") as file:
    for n in (40, 17, 64, 64, 33):
        print(json.dumps({"input_ids": [random.randrange(100) for _ in range(n)]}), file=file)
END
model=$SAMPLES/tiny-llama
for recipe in blockwise channelwise current mxfp8; do
	"$FP8CONV" quantize "$model" -o $recipe --recipe $recipe --ragged 2>/dev/null ||
		"$FP8CONV" quantize "$model" -o $recipe --recipe $recipe
done
"$FP8CONV" eval "$model" --source "$model" --data ids.jsonl --json >same.json
"$FP8CONV" eval "$model" --data ids.jsonl --json >alone.json
"$FP8CONV" calibrate "$model" --data ids.jsonl --batch 5 -o s.amax --min-tokens 1 --json >calibrate.json
# The same weights in another format, whose configuration does not say that its scales are powers of two.
"$FP8CONV" repack blockwise -o ct --format compressed-tensors
"$FP8CONV" eval ct --source "$model" --data ids.jsonl --json >ct.json
# A configuration of weights only.
cp -r channelwise only
python3 - <<'END'
import json
config = json.load(open("only/config.json"))
for group in config["quantization_config"]["config_groups"].values():
    group["input_activations"] = None
json.dump(config, open("only/config.json", "w"))
END
"$FP8CONV" eval only --source "$model" --data ids.jsonl --json >only.json
for recipe in blockwise channelwise current mxfp8; do
	"$FP8CONV" eval $recipe --source "$model" --data ids.jsonl --json --by-layer >$recipe.json
	"$FP8CONV" eval $recipe --source "$model" --data ids.jsonl --json --by-layer --threads 1 --max-memory 3M >threads.json
	"$FP8CONV" eval $recipe --source "$model" --data ids.jsonl --json --activations bf16 >$recipe-weights.json
	python3 - $recipe.json threads.json <<-'END'
		import json, sys
		one, other = ({k: v for k, v in json.load(open(path)).items() if k not in ("seconds", "peak_memory_bytes")} for path in sys.argv[1:])
		if one != other:
		    print(sys.argv[1], "depends on threads or memory:", [k for k in one if one[k] != other.get(k)])
	END
done
python3 - <<'END'
import json
same, alone, calibrated = (json.load(open(f"{name}.json")) for name in ("same", "alone", "calibrate"))
assert same["perplexity"] == same["source_perplexity"] == alone["perplexity"], (same["perplexity"], alone["perplexity"])
assert "kld" not in alone and alone["source"] is None
assert abs(alone["perplexity"]["value"] - calibrated["perplexity"]) < 1e-6 * calibrated["perplexity"]
assert same["kld"]["mean"] == same["kld"]["max"] == same["kld"]["reverse_mean"] == 0 == same["delta_p"]["rms"], same
assert same["same_top"]["value"] == 100 and same["ratio"]["value"] == 1 and same["difference"]["value"] == 0
assert (same["tokens"], same["targets"], same["sequences"], same["seq_len"]) == (218, 213, 5, 64), same
for one, other in (("ct", "blockwise"), ("only", "channelwise-weights")):
    assert json.load(open(f"{one}.json"))["kld"] == json.load(open(f"{other}.json"))["kld"], (one, other)
for recipe in ("blockwise", "channelwise", "current", "mxfp8"):
    whole, weights = (json.load(open(f"{recipe}{name}.json")) for name in ("", "-weights"))
    assert 0 < weights["kld"]["mean"] < whole["kld"]["mean"] < 1, (recipe, weights["kld"], whole["kld"])
    assert whole["kld"]["min"] > -1e-6 and whole["kld"]["median"] <= whole["kld"]["p90"] <= whole["kld"]["max"]
    layers = whole["layers"]
    assert [layer["layer"] for layer in layers] == list(range(len(layers))) and layers
    for layer in layers:
        for module in layer["modules"]:
            local, far = (module[key]["sqnr_db"] for key in ("local", "accumulated"))
            # E4M3 keeps 3 bits of each of two factors.
            assert 20 < local < 45, (recipe, module)
            assert far is None or far < local + 3, (recipe, module)
            assert abs(module["local"]["relative_error"] - 10 ** (-local / 20)) < 1e-6
END
