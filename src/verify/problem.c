/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/problem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

/* A kind that makes a checkpoint wrong, and one that does not. */
#define FAULT(name, effect)         \
	{                           \
		name, effect, false \
	}
#define NOTE(name, effect)         \
	{                          \
		name, effect, true \
	}

/* The names of the kinds, and their effects in engines.  Source: the loaders of vLLM 7cfb97e,
 * SGLang 0.5.15, TensorRT-LLM, transformers 5.23.0.  NULL: the message has the effect. */
static const struct {
	const char *name;
	const char *effect;
	bool note; /* it does not make the checkpoint wrong */
} kinds[N_PROBLEM_KINDS] = {
	[PROBLEM_SCALE_MISSING] =
		FAULT("scale-missing", "vLLM loads the model silently and computes garbage"),
	[PROBLEM_SCALE_NAME] = FAULT("scale-name", NULL),
	[PROBLEM_SCALE_STRAY] = FAULT("scale-stray", "loading stops at a tensor that no layer has"),
	[PROBLEM_SCALE_SHAPE] = FAULT("scale-shape", "loading stops at an assertion"),
	[PROBLEM_SCALE_DTYPE] =
		FAULT("scale-dtype", "vLLM copies the numbers instead of the bits; SGLang refuses"),
	[PROBLEM_SCALE_VALUE] = FAULT("scale-value", "the weights become wrong"),
	[PROBLEM_SCALE_TOO_LARGE] =
		FAULT("scale-value", "the outputs of the model become infinite"),
	[PROBLEM_SCALE_TOO_SMALL] = FAULT("scale-value", "these weights count for nothing"),
	[PROBLEM_SCALE_NOT_POW2] = FAULT("scale-not-pow2", "DeepGEMM computes with other numbers"),
	[PROBLEM_SCALE_INVERTED] =
		FAULT("scale-inverted", "engines multiply: weights are off by the scale squared"),
	[PROBLEM_INPUT_SCALES_INVERTED] =
		FAULT("scale-inverted", "engines divide by them: activations round to zero"),
	[PROBLEM_SCALE_OUTLIER] = NOTE("scale-outlier", "weights of a model are closer together"),
	[PROBLEM_INPUT_SCALE_OUTLIER] =
		NOTE("scale-outlier", "calibrate again if it was not measured"),
	[PROBLEM_CODE_NAN] = FAULT("code-nan", "the outputs of these rows are NaN"),
	[PROBLEM_CODE_RANGE] = FAULT("code-range", "precision is wasted"),
	[PROBLEM_CODE_ZERO] =
		FAULT("code-zero", "values are missing, as in a file not written to its end"),
	[PROBLEM_ZERO_ROWS] = NOTE("code-zero", "right where the model was pruned"),
	[PROBLEM_CODE_SIGN] = NOTE("code-sign", "weights of a model have both"),
	[PROBLEM_CODE_MISMATCH] = FAULT("code-mismatch", NULL),
	[PROBLEM_SCALE_MISMATCH] = FAULT("scale-mismatch", NULL),
	[PROBLEM_DTYPE_MISMATCH] =
		FAULT("dtype-mismatch", "vLLM reads the bytes as the type in the configuration"),
	[PROBLEM_INPUT_SCALE_MISSING] =
		FAULT("input-scale-missing", "engines use uninitialized memory"),
	[PROBLEM_INPUT_SCALE_VALUE] =
		FAULT("scale-value", "what the module computes is NaN, infinite or noise"),
	[PROBLEM_GROUP_PARTIAL] =
		FAULT("group-partial", "vLLM and SGLang merge these weights and refuse"),
	[PROBLEM_GROUP_SCALES_DIFFER] = NOTE(
		"group-scales-differ", "engines merge these weights and quantize them again by "
				       "the largest scale, with about 1 % of error"),
	[PROBLEM_GROUP_INPUTS_DIFFER] =
		FAULT("group-scales-differ", "vLLM and SGLang refuse a difference above 1e-05"),
	[PROBLEM_KV_SCALE_PAIR] = FAULT("kv-scale-pair", "vLLM stops or uses 1.0"),
	[PROBLEM_KV_SCALE_NAME] = FAULT("kv-scale-name", "engines do not load it, and use 1.0"),
	[PROBLEM_KV_SCALE_MISSING] = FAULT("kv-scale-missing", "engines use 1.0"),
	[PROBLEM_KV_SCALE_SOME] = NOTE("kv-scale-missing", "engines use 1.0 there"),
	[PROBLEM_CACHE_SCALE_VALUE] =
		FAULT("scale-value", "engines use 1.0, or what they cache is wrong"),
	[PROBLEM_TP_SPLIT] = FAULT("tp-split", "engines refuse to load it"),
	[PROBLEM_PARTIAL_BLOCKS] = FAULT("partial-blocks", NULL),
	[PROBLEM_NOT_LOADED] = FAULT("not-loaded", NULL),
	[PROBLEM_CONFIG_KEY] = FAULT("config-key", NULL),
	[PROBLEM_CONFIG_IGNORE] = FAULT("config-ignore", NULL),
	[PROBLEM_CONFIG_CHANGED] = FAULT("config-changed", NULL),
	[PROBLEM_CONFIG_REWRITTEN] = NOTE("config-changed", NULL),
	[PROBLEM_INDEX_MISSING] = FAULT("index-missing", NULL),
	[PROBLEM_INDEX_UNMAPPED] = FAULT("index-unmapped", "engines do not load it"),
	[PROBLEM_INDEX_TOTAL_SIZE] = FAULT("index-total-size", NULL),
	[PROBLEM_NAME_DUPLICATE] = FAULT("name-duplicate", "engines use one or the other"),
	[PROBLEM_TENSOR_MISSING] = FAULT("tensor-missing", NULL),
	[PROBLEM_TENSOR_LACKING] =
		FAULT("tensor-missing", "engines leave it uninitialized and compute garbage"),
	[PROBLEM_TENSOR_EXTRA] = NOTE("tensor-missing", "engines may read it"),
	[PROBLEM_TENSOR_SHAPE] = FAULT("tensor-shape", "engines refuse it, or load a part"),
	[PROBLEM_TENSOR_NAME] = FAULT("tensor-name", "engines load nothing under such names"),
	[PROBLEM_LAYER_MISSING] =
		FAULT("layer-missing", "engines build the layers that config.json counts"),
	[PROBLEM_MTP_MISSING] = NOTE("mtp-missing", "engines cannot speculate with it"),
	[PROBLEM_TENSOR_CHANGED] = FAULT("tensor-changed", NULL),
	[PROBLEM_TENSOR_NONFINITE] = FAULT("tensor-value", "the outputs of the model become NaN"),
	[PROBLEM_TENSOR_HUGE] =
		FAULT("tensor-value", "its square is infinite in fp32, and the next norm takes it"),
	[PROBLEM_TENSOR_ZERO] =
		FAULT("tensor-value", "values are missing, as in a file not written to its end"),
	[PROBLEM_UNFINISHED] = FAULT("unfinished", NULL),
	[PROBLEM_NOTHING_QUANTIZED] =
		FAULT("nothing-quantized", "give the output of a quantization, not its source"),
	[PROBLEM_FILE_STRAY] = FAULT("file-stray", "some engines load every .safetensors file"),
	[PROBLEM_FILE_INVALID] = FAULT("file-invalid", NULL),
	[PROBLEM_FILE_CHANGED] = FAULT("file-changed", NULL),
	[PROBLEM_FILE_MISSING] = FAULT("file-missing", NULL),
	[PROBLEM_FILE_UNLISTED] = FAULT("file-unlisted", NULL),
};

static const enum problem_kind of_defect[] = {
	[DEFECT_FILE_INVALID] = PROBLEM_FILE_INVALID,
	[DEFECT_INDEX_MISSING] = PROBLEM_INDEX_MISSING,
	[DEFECT_INDEX_UNMAPPED] = PROBLEM_INDEX_UNMAPPED,
	[DEFECT_INDEX_TOTAL] = PROBLEM_INDEX_TOTAL_SIZE,
	[DEFECT_UNFINISHED] = PROBLEM_UNFINISHED,
	[DEFECT_NAME_DUPLICATE] = PROBLEM_NAME_DUPLICATE,
};

const char *problem_kind_name(enum problem_kind kind)
{
	return kinds[kind].name;
}

static struct problem *append(struct problems *problems, const struct problem *problem)
{
	if (kinds[problem->kind].note) {
		ARRAY_GROW(problems->notes, problems->n_notes);
		problems->notes[problems->n_notes] = *problem;
		return &problems->notes[problems->n_notes++];
	}
	ARRAY_GROW(problems->list, problems->n);
	problems->list[problems->n] = *problem;
	return &problems->list[problems->n++];
}

/* Counts n problems of a kind without listing them. */
static void count_more(struct problems *problems, enum problem_kind kind, size_t n)
{
	struct problem *list = kinds[kind].note ? problems->notes : problems->list;
	struct problem *line = &list[problems->more[kind]];
	bool has_line = problems->n_of[kind] > DEFECTS_LISTED;

	problems->n_of[kind] += n;
	if (!has_line) {
		problems->more[kind] = kinds[kind].note ? problems->n_notes : problems->n;
		line = append(problems, &(struct problem){ .kind = kind });
	}
	free(line->message);
	line->message = xasprintf("%zu more of this kind are not listed",
				  problems->n_of[kind] - DEFECTS_LISTED);
}

void problem_add(struct problems *problems, enum problem_kind kind, const char *tensor,
		 const char *file, const char *format, ...)
{
	struct problem problem = { .kind = kind };
	char message[1024];
	va_list args;

	if (problems->n_of[kind] >= DEFECTS_LISTED) {
		count_more(problems, kind, 1);
		return;
	}
	problems->n_of[kind]++;
	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	problem.tensor = tensor ? xstrdup(tensor) : NULL;
	problem.file = file ? xstrdup(file) : NULL;
	problem.message = kinds[kind].effect ? xasprintf("%s: %s", message, kinds[kind].effect)
					     : xstrdup(message);
	text_sanitize(problem.message);
	append(problems, &problem);
}

void problems_add_defects(struct problems *problems, const struct defects *defects)
{
	for (size_t i = 0; i < defects->n; i++) {
		const struct defect *defect = &defects->list[i];

		problem_add(problems, of_defect[defect->kind], defect->tensor, defect->file, "%s",
			    defect->message);
	}
	for (int kind = 0; kind < N_DEFECT_KINDS; kind++)
		if (defects->n_of[kind] > DEFECTS_LISTED)
			count_more(problems, of_defect[kind], defects->n_of[kind] - DEFECTS_LISTED);
}

static void release_list(struct problem *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].tensor);
		free(list[i].file);
		free(list[i].message);
	}
	free(list);
}

void problems_release(struct problems *problems)
{
	release_list(problems->list, problems->n);
	release_list(problems->notes, problems->n_notes);
	*problems = (struct problems){ 0 };
}
