#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
