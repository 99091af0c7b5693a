#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The list of commands.
"$FP8CONV" --help
# Every way to ask gives the same text, and every command that is listed has one.
commands=$("$FP8CONV" help | sed -n 's/^  \([a-z]*\)  *[A-Z].*/\1/p')
[ "$(echo $commands)" = "apply delta dequantize quantize repack diff eval inspect report verify calibrate merge sensitivity families formats recipes version" ] || echo "listed are: $commands"
for command in $commands; do
	"$FP8CONV" help "$command" >a || echo "help $command: $?"
	"$FP8CONV" "$command" --help >b || echo "$command --help: $?"
	"$FP8CONV" "$command" -h >c || echo "$command -h: $?"
	cmp a b
	cmp a c
	head -n 1 a | grep -q "^Usage: fp8conv $command \[OPTION...\]" || head -n 1 a
	grep -q '^  -h, --help' a || echo "$command: no --help"
	[ "$(wc -L <a)" -le 100 ] || echo "$command: wider than 100"
done
# Help wins over what stands behind it, and not over what stands in front.
"$FP8CONV" quantize --help --frobnicate >/dev/null
fails 2 " quantize: unknown option '--frobnicate' (see 'fp8conv quantize --help')" quantize --frobnicate --help

#1> Usage: fp8conv COMMAND [OPTION...] [ARGUMENT...]
#1> Convert LLM checkpoints (safetensors, Hugging Face layout) to FP8.
#1>
#1> Converting:
#1>   apply       Make the next checkpoint from the old one and what 'delta' wrote
#1>   delta       Write what changed from one checkpoint to the next, byte by byte
#1>   dequantize  Convert an FP8 checkpoint back to BF16, F16 or F32
#1>   quantize    Write an FP8 checkpoint, each quantized tensor with its own scale
#1>   repack      Rewrite the same codes in another format; refuse if anything would
#1>               be lost
#1>
#1> Inspecting:
#1>   diff        Show what differs between two checkpoints of any format
#1>   eval        Measure perplexity, and the divergence from the source
#1>   inspect     Show the tensors, types, scales and sizes of a checkpoint, or an
#1>               amax history
#1>   report      Write a model card and a page with charts
#1>   verify      Check an FP8 checkpoint for errors that make engines fail
#1>
#1> Calibrating:
#1>   calibrate   Run a model on data and record the amax of every matrix product
#1>   merge       Merge amax histories
#1>   sensitivity Measure what each group of matrices costs, and choose by it
#1>
#1> Information:
#1>   families    List what can be done with model families, and what they ask for
#1>   formats     List the formats, the recipes that each can express and the
#1>               engines that load them
#1>   recipes     List the recipes
#1>   version     Print version, compiler, CPU features, backends and libraries
#1>
#1> Examples:
#1>   fp8conv quantize MODEL -o OUT --target vllm
#1>   fp8conv verify OUT --source MODEL --target vllm
#1>   fp8conv eval OUT --source MODEL --data text.jsonl
#1>
#1> See 'fp8conv help COMMAND' or the man page fp8conv-COMMAND(1) for more.
#1> 'fp8conv --version' (-V) prints the version.
