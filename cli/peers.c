/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/peers.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct peer {
	enum peer_kind kind;
	const char *word, *ours;
} peers[] = {
	{ PEER_COMMAND, "convert", "quantize" },
	{ PEER_COMMAND, "compress", "quantize" },
	{ PEER_COMMAND, "oneshot", "quantize" },
	{ PEER_COMMAND, "decompress", "dequantize" },
	{ PEER_COMMAND, "upcast", "dequantize" },
	{ PEER_COMMAND, "check", "verify" },
	{ PEER_COMMAND, "validate", "verify" },
	{ PEER_COMMAND, "compare", "diff" },
	{ PEER_COMMAND, "info", "inspect" },
	{ PEER_COMMAND, "show", "inspect" },
	{ PEER_COMMAND, "ls", "inspect" },
	{ PEER_COMMAND, "perplexity", "eval" },
	{ PEER_COMMAND, "ppl", "eval" },
	{ PEER_COMMAND, "evaluate", "eval" },
	{ PEER_COMMAND, "lm-eval", "eval" },
	{ PEER_COMMAND, "card", "report" },
	{ PEER_COMMAND, "models", "families" },
	{ PEER_OPTION, "scheme", "recipe" },
	{ PEER_OPTION, "bits", "recipe" },
	{ PEER_OPTION, "outtype", "recipe" },
	{ PEER_OPTION, "qformat", "recipe" },
	{ PEER_OPTION, "quantization", "recipe" },
	{ PEER_OPTION, "quant-cfg", "recipe" },
	{ PEER_OPTION, "activation-scheme", "recipe" },
	{ PEER_OPTION, "act-scheme", "recipe" },
	{ PEER_OPTION, "block-size", "recipe" },
	{ PEER_OPTION, "weight-block-size", "recipe" },
	{ PEER_OPTION, "group-size", "recipe" },
	{ PEER_OPTION, "ignore", "exclude" },
	{ PEER_OPTION, "ignore-patterns", "exclude" },
	{ PEER_OPTION, "ignored-layers", "exclude" },
	{ PEER_OPTION, "skip", "exclude" },
	{ PEER_OPTION, "targets", "include" },
	{ PEER_OPTION, "output-dir", "output" },
	{ PEER_OPTION, "outfile", "output" },
	{ PEER_OPTION, "save-path", "output" },
	{ PEER_OPTION, "export-path", "output" },
	{ PEER_OPTION, "engine", "target" },
	{ PEER_OPTION, "dataset", "data" },
	{ PEER_OPTION, "num-calibration-samples", "passes" },
	{ PEER_OPTION, "num-samples", "passes" },
	{ PEER_OPTION, "calib-size", "passes" },
	{ PEER_OPTION, "max-seq-length", "seq-len" },
	{ PEER_OPTION, "ctx-size", "seq-len" },
	{ PEER_OPTION, "tensor-parallel-size", "tp" },
	{ PEER_OPTION, "tp-size", "tp" },
	{ PEER_OPTION, "kv-cache-dtype", "kv-cache" },
	{ PEER_OPTION, "kv-cache-qformat", "kv-cache" },
	{ PEER_OPTION, "device", "backend" },
	{ PEER_OPTION, "to", "dtype" },
	{ PEER_OPTION, "jobs", "threads" },
	{ PEER_OPTION, "num-threads", "threads" },
	{ PEER_OPTION, "overwrite", "restart" },
	{ PEER_OPTION, "base", "source" },
	{ PEER_OPTION, "baseline", "source" },
	{ PEER_OPTION, "reference", "source" },
	{ PEER_OPTION, "against", "source" },
	{ PEER_OPTION, "limit", "passes" },
	{ PEER_OPTION, "silent", "quiet" },
	{ PEER_ADVICE, "tasks", "run lm_eval, and see 'fp8conv report --lm-eval'" },
	{ PEER_ADVICE, "input", "give the model alone, without an option" },
	{ PEER_ADVICE, "model", "give the model alone, without an option" },
	{ PEER_ADVICE, "model-id", "give the model alone, without an option" },
	{ PEER_ADVICE, "model-path", "give the model alone, without an option" },
	{ PEER_ADVICE, "pyt-ckpt-path", "give the model alone, without an option" },
	{ PEER_ADVICE, "revision", "give the model as hf://ORG/NAME@REVISION" },
	{ PEER_ADVICE, "token", "set HF_TOKEN, or log in with 'hf auth login'" },
	{ PEER_ADVICE, "trust-remote-code", "not needed: the code of a model does not run" },
	{ PEER_RECIPE, "fp8-block", "blockwise" },
	{ PEER_RECIPE, "block", "blockwise" },
	{ PEER_RECIPE, "deepseek", "blockwise" },
	{ PEER_RECIPE, "fp8-pb-wo", "blockwise" },
	{ PEER_RECIPE, "fp8-2d-blockwise-weight-only-cfg", "blockwise" },
	{ PEER_RECIPE, "fp8-dynamic", "channelwise" },
	{ PEER_RECIPE, "fp8-pc-pt", "channelwise" },
	{ PEER_RECIPE, "fp8-per-channel-per-token-cfg", "channelwise" },
	{ PEER_RECIPE, "per-token", "channelwise" },
	{ PEER_RECIPE, "rowwise", "channelwise" },
	{ PEER_RECIPE, "per-channel", "channelwise" },
	{ PEER_RECIPE, "channel", "channelwise" },
	{ PEER_RECIPE, "per-tensor", "current" },
	{ PEER_RECIPE, "tensorwise", "current" },
	{ PEER_RECIPE, "fp8-static", "delayed" },
	{ PEER_RECIPE, "fp8-default-cfg", "delayed" },
	{ PEER_RECIPE, "static", "delayed" },
	{ PEER_RECIPE, "mx", "mxfp8" },
	{ PEER_RECIPE, "mxfp8-default-cfg", "mxfp8" },
	{ PEER_FORMAT, "compressed-tensors", "compressed-tensors" },
	{ PEER_FORMAT, "llm-compressor", "compressed-tensors" },
	{ PEER_FORMAT, "huggingface", "hf" },
	{ PEER_FORMAT, "nvidia", "modelopt" },
	{ PEER_TARGET, "tensorrt-llm", "trtllm" },
	{ PEER_TARGET, "tensorrtllm", "trtllm" },
	{ PEER_TARGET, "trt-llm", "trtllm" },
	{ PEER_TARGET, "hf", "transformers" },
	{ PEER_TARGET, "huggingface", "transformers" },
	{ PEER_VALUE, "float16", "f16" },
	{ PEER_VALUE, "fp16", "f16" },
	{ PEER_VALUE, "half", "f16" },
	{ PEER_VALUE, "bfloat16", "bf16" },
	{ PEER_VALUE, "float32", "f32" },
	{ PEER_VALUE, "fp32", "f32" },
	{ PEER_VALUE, "e8m0", "ue8m0" },
	{ PEER_VALUE, "gptq", "compensated" },
};

/* Kinds of weights that are not FP8, by how their names begin. */
static const struct {
	const char *begin, *tool;
} tools[] = {
	{ "nvfp4", "llm-compressor or ModelOpt" },
	{ "mxfp4", "llm-compressor" },
	{ "fp4", "llm-compressor or ModelOpt" },
	{ "nf4", "bitsandbytes" },
	{ "bnb", "bitsandbytes" },
	{ "w4a", "llm-compressor" },
	{ "w8a", "llm-compressor" },
	{ "int", "llm-compressor" },
	{ "awq", "llm-compressor" },
	{ "gptq", "llm-compressor" },
	{ "smoothquant", "llm-compressor" },
	{ "gguf", "llama.cpp's convert_hf_to_gguf.py and llama-quantize" },
	{ "q2", "llama.cpp's llama-quantize" },
	{ "q3", "llama.cpp's llama-quantize" },
	{ "q4", "llama.cpp's llama-quantize" },
	{ "q5", "llama.cpp's llama-quantize" },
	{ "q6", "llama.cpp's llama-quantize" },
	{ "q8", "llama.cpp's llama-quantize" },
	{ "iq", "llama.cpp's llama-quantize" },
};

/* Is it the known word, or, if not whole, does it begin so? */
static bool same(const char *word, const char *known, bool whole)
{
	for (; *known; word++, known++)
		if ((*word == '_' ? '-' : tolower((unsigned char)*word)) != *known)
			return false;
	return !whole || !*word;
}

const char *peer_word(enum peer_kind kind, const char *word)
{
	for (size_t i = 0; i < sizeof peers / sizeof *peers; i++)
		if (peers[i].kind == kind && same(word, peers[i].word, true))
			return peers[i].ours;
	return NULL;
}

const char *peer_tool(const char *recipe)
{
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		if (same(recipe, tools[i].begin, false))
			return tools[i].tool;
	return NULL;
}
