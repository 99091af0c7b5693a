#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
top=$PWD
q=' quantize: '
fails 2 "${q}unknown option '--recipie' (did you mean '--recipe'?)" quantize --recipie blockwise in -o out
fails 2 "${q}unknown option '--recipie' (did you mean '--recipe'?)" quantize in -o out --recipie=blockwise
fails 2 "${q}unknown option '--max-mem-ory' (did you mean '--max-memory'?)" quantize in --max-mem=1 --max-mem-ory=1
fails 2 "${q}unknown option '--drry-run' (did you mean '--dry-run'?)" quantize in --drry-run
fails 2 "${q}unknown option '--threds' (did you mean '--threads'?)" quantize --threds 3 in
fails 2 "${q}unknown option '--exlude' (did you mean '--exclude'?)" quantize --exlude x in
fails 2 "${q}unknown option '--' (see 'fp8conv quantize --help')" quantize --=3
fails 2 "${q}unknown option '-Z' (see 'fp8conv quantize --help')" quantize in -qvZ -o out
fails 2 "${q}unknown option '-Z' (see 'fp8conv quantize --help')" quantize in -Zq -o out
fails 2 "${q}unknown option '--activations' (see 'fp8conv quantize --help')" quantize in --activations f
fails 2 "${q}option '--m' is ambiguous: '--min-tokens' or '--manifest', and more" quantize in --m 3
fails 2 "${q}option '--re' is ambiguous: '--recipe' or '--requantize', and more" quantize in --re
fails 2 "${q}option '--recipe' needs a value (RECIPE)" quantize in -o out --recipe
fails 2 "${q}option '--recipe' needs a value (RECIPE)" quantize in -o out --rec
fails 2 "${q}option '--output' needs a value (OUT)" quantize in --output
fails 2 "${q}option '-o' needs a value (OUT)" quantize in -qo
fails 2 "${q}option '--progress' needs a value (auto|bar|json|none)" quantize in --progress
fails 2 "${q}option '--json' does not take a value ('yes')" quantize in --json=yes -o out
fails 2 "${q}option '--dry-run' does not take a value ('')" quantize in --dry-run=
fails 2 "${q}MODEL is missing (fp8conv quantize MODEL -o OUT)" quantize
fails 2 "${q}MODEL is missing (fp8conv quantize MODEL -o OUT)" quantize -o out
fails 2 "${q}option '--output' is missing: give an output (-o OUT), or --dry-run" quantize in
fails 2 "${q}unexpected argument 'out' (did you mean '-o out'?)" quantize in out
fails 2 "${q}unexpected argument '--dry-run'" quantize -- in --dry-run
fails 2 " inspect: MODEL is missing (fp8conv inspect MODEL)" inspect
fails 2 " inspect: unexpected argument 'b'" inspect a b
fails 2 " inspect: unknown option '--jsn' (did you mean '--json'?)" inspect a --jsn
for command in recipes formats version; do
	fails 2 " $command: unexpected argument 'x'" $command x
	fails 2 " $command: unknown option '--jason' (did you mean '--json'?)" $command --jason
	fails 2 " $command: unknown option '-j' (see 'fp8conv $command --help')" $command -j
done
[ -z "$(ls)" ] || ls

# Words of other converters are understood, or answered with the word that is meant here.
need "$SAMPLES/tiny-llama"
for typed in FP8_DYNAMIC=channelwise fp8_block=blockwise per-channel=channelwise PER_TENSOR=current MXFP8=mxfp8 Blockwise=blockwise; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -nq --recipe "${typed%=*}" >plan || echo "$typed: $?"
	grep -q "^recipe  *${typed#*=}$" plan || head -n 1 plan
done
for target in vLLM SGLang tensorrt-llm TRTLLM hf; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -nq -j 2 --max-memory 1.5G --target $target >plan || echo "$target: $?"
done
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out -q --target vLLM --recipe FP8_DYNAMIC
"$FP8CONV" verify out -q --target SGLANG
grep -q '"target": "vllm"' out/fp8conv-manifest.json || grep target out/fp8conv-manifest.json
fails 2 "${q}option '--recipe': 'NVFP4' is not FP8, which is all that fp8conv writes: use llm-compressor or ModelOpt" \
	quantize in -o out --recipe NVFP4
fails 2 "${q}option '--recipe': 'Q4_K_M' is not FP8, which is all that fp8conv writes: use llama.cpp's llama-quantize" \
	quantize in -o out --recipe Q4_K_M
for word in scheme=recipe bits=recipe ignore=exclude output-dir=output tensor_parallel_size=tp overwrite=restart; do
	fails 2 "${q}unknown option '--${word%=*}' (did you mean '--${word#*=}'?)" quantize in -o out "--${word%=*}"
done
# Only options that the command has.
fails 2 " verify: unknown option '--ignore' (see 'fp8conv verify --help')" verify out --ignore
fails 2 ": unknown command 'convert' (did you mean 'quantize'?)" convert in out
fails 2 ": unknown command 'perplexity' (did you mean 'eval'?)" perplexity in
fails 2 "${q}unexpected argument 'fp8' (did you mean '-o fp8'?)" quantize in fp8

mkdir "$top/stdout"
cd "$top/stdout"
# Standard output that does not take what is printed is an error, on one line.
for arguments in --help --version 'help quantize' 'quantize --help' version recipes formats 'version --json' 'recipes --json' families 'families --json'; do
	case $arguments in
	-* | help*) name=fp8conv ;;
	*) name="fp8conv ${arguments%% *}" ;;
	esac
	# shellcheck disable=SC2086
	"$FP8CONV" $arguments 2>err >/dev/full
	[ $? -eq 4 ] && [ "$(cat err)" = "$name: cannot write standard output: No space left on device" ] || cat err
	# shellcheck disable=SC2086
	"$FP8CONV" $arguments 2>err >&-
	[ $? -eq 4 ] && [ "$(cat err)" = "$name: cannot write standard output: Bad file descriptor" ] || cat err
	mkfifo pipe
	sleep 5 <pipe &
	reader=$!
	# shellcheck disable=SC2086
	(
		exec 3>pipe
		kill $reader
		wait $reader 2>/dev/null
		exec "$FP8CONV" $arguments 2>err >&3
	)
	# a reader that went away (`| head`) is no news
	[ $? -eq 4 ] && [ ! -s err ] || cat err
	rm pipe
done
# An error stays the one error that it is.
"$FP8CONV" inspect nowhere 2>err >/dev/full
[ $? -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] || cat err

mkdir next
cd next
# A standard output that ends early: the first write is short, as with a limit or a file system that is nearly full, and only the
# next one has the reason.  Whatever was printed, the status is 4, or 0 and all of it.
need "$SAMPLES/tiny-llama"
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --quiet
cat >cut.py <<'PYTHON'
import os, resource, subprocess, sys

program, model = os.environ["FP8CONV"], os.environ["SAMPLES"] + "/tiny-llama"


def limited(n):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))


for words in ("--help", "help quantize", "quantize --help", "recipes", "recipes --json", "formats", "families", "inspect out", "inspect out --json",
              "verify out --source MODEL", "verify out --source MODEL --json", "quantize MODEL -o none --dry-run", "completion bash",
              "version", "--version"):
    args = [program, *words.replace("MODEL", model).split()]
    whole = subprocess.run(args, capture_output=True)
    size = len(whole.stdout)
    for limit in sorted({n for n in (1, 100, 1024, 4096, 5000, size - 1, size) if 0 <= n <= size}):
        with open("cut", "wb") as cut:
            result = subprocess.run(args, stdout=cut, stderr=subprocess.PIPE, preexec_fn=limited(limit))
        said = result.stderr.decode()
        if limit == size:
            good = result.returncode == whole.returncode and not said.count("standard output") and os.path.getsize("cut") == size
        else:
            good = result.returncode == 4 and said.endswith("cannot write standard output: File too large\n")
        if not good:
            print(f"{words}: {limit} of {size} bytes: status {result.returncode}, {said}")
PYTHON
python3 cut.py
for word in activation-scheme=recipe ignore-patterns=exclude kv_cache_qformat=kv-cache tp-size=tp device=backend; do
	fails 2 "${q}unknown option '--${word%=*}' (did you mean '--${word#*=}'?)" quantize in -o out "--${word%=*}"
done
fails 2 "${q}unknown option '--revision' (give the model as hf://ORG/NAME@REVISION)" quantize in -o out --revision main
fails 2 "${q}unknown option '--pyt_ckpt_path' (give the model alone, without an option)" quantize --pyt_ckpt_path in
# Another argument is the source or the output, where these are missing.
fails 2 " verify: unexpected argument 'in' (did you mean '--source in'?)" verify out in
fails 2 " verify: unexpected argument 'in'" verify out --source in in
fails 2 "${q}unexpected argument 'fp8'" quantize in -o out --kv-cache fp8
fails 2 "${q}unexpected argument 'sglang'" quantize in --target vllm sglang --output=out
fails 2 ": unknown command 'quant' (did you mean 'quantize'?)" quant in
fails 2 ": unknown command 'serve' (see 'fp8conv --help')" serve in
fails 2 ": unknown command 'out' (did you mean 'quantize out -o OUT'?)" out -o new
fails 2 ": unknown option '-rav' (see 'fp8conv --help')" -rav in out
for dtype in bfloat16=bf16 float16=f16 fp32=f32; do
	"$FP8CONV" dequantize out -nq --dtype ${dtype%=*} | grep -q "  ${dtype#*=}$" || echo "$dtype"
done
"$FP8CONV" help help >/dev/null || echo "help help: $?"
for output in '' '~'; do
	"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o "$output" 2>said && echo "-o '$output' is taken"
	cut -c 1-48 said
done
fails 2 "${q}option '--recipe': 'fbgemm_fp8' is not a recipe (every recipe makes FP8): *" quantize in -o out --recipe fbgemm_fp8
fails 2 "${q}option '--format': 'VLLM' is an engine: give --target vllm" quantize in -o out --format VLLM
fails 2 "${q}option '--format': 'gguf' is not FP8, *" quantize in -o out --format gguf
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -nq --format Compressed_Tensors | grep -q '^format  *compressed-tensors$' || echo "no format"
fails 2 " eval: unknown option '--base' (did you mean '--source'?)" eval out --base in
fails 2 "${q}option '--output': 'hf://ORG/out' is an address: *" quantize in -o hf://ORG/out
fails 3 "${q}'$SAMPLES/tiny-llama/tokenizer.json' has no weight_map, *" quantize "$SAMPLES/tiny-llama/tokenizer.json" -o new
fails 2 "${q}option '--output': '--json' is an option, not a name (or give ./--json)" quantize in -o --json
#1> fp8conv quantize: option '--output' is empty: gi
#1> fp8conv quantize: option '--output': '~' would b
